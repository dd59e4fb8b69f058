package workload

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// fakeServer is a database/sql driver that answers statements with a function.
type fakeServer struct {
	delay  time.Duration // each statement takes
	answer func(query string, args []driver.NamedValue) (*fakeRows, error)

	mu         sync.Mutex
	statements []string
	open       int // connections
}

func (f *fakeServer) pool(region string) *pool {
	return &pool{region: region, text: true, dbs: []*sql.DB{sql.OpenDB(f)}}
}

func (f *fakeServer) Connect(context.Context) (driver.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.open++
	return &fakeConn{f}, nil
}

func (f *fakeServer) Driver() driver.Driver { return nil }

// count counts the statements with a prefix.
func (f *fakeServer) count(prefix string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, s := range f.statements {
		if strings.HasPrefix(s, prefix) {
			n++
		}
	}
	return n
}

type fakeConn struct{ *fakeServer }

func (c *fakeConn) run(ctx context.Context, query string, args []driver.NamedValue) (*fakeRows, error) {
	if !sleep(ctx, c.delay) {
		return nil, ctx.Err()
	}
	c.mu.Lock()
	c.statements = append(c.statements, query)
	c.mu.Unlock()
	if c.answer == nil {
		return &fakeRows{}, nil
	}
	return c.answer(query, args)
}

func (c *fakeConn) ExecContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Result, error) {
	_, err := c.run(ctx, q, args)
	return driver.RowsAffected(1), err
}

func (c *fakeConn) QueryContext(ctx context.Context, q string, args []driver.NamedValue) (driver.Rows, error) {
	r, err := c.run(ctx, q, args)
	if err != nil {
		return nil, err
	}
	if r == nil {
		r = &fakeRows{}
	}
	return r, nil
}

func (c *fakeConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }
func (c *fakeConn) Begin() (driver.Tx, error)           { return nil, driver.ErrSkip }
func (c *fakeConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	return nil
}

// fakeRows are the rows of an answer.
type fakeRows struct{ rows [][]driver.Value }

func rowsOf(rows ...[]driver.Value) *fakeRows { return &fakeRows{slices.Clone(rows)} }

func (r *fakeRows) Columns() []string {
	if len(r.rows) == 0 {
		return nil
	}
	return make([]string, len(r.rows[0]))
}
func (r *fakeRows) Close() error { return nil }
func (r *fakeRows) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	copy(dest, r.rows[0])
	r.rows = r.rows[1:]
	return nil
}
