package faults

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

const mysqlPort = 7306

// open makes a pool for the site's own server, from inside the site.
func (s *site) open(db string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "tcp", "127.0.0.1:"+strconv.Itoa(mysqlPort), db
	c.InterpolateParams, c.Timeout, c.Logger = true, Hang, &mysql.NopLogger{}
	c.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		return s.in.Dial(ctx, network, addr)
	}
	conn, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(conn), nil
}

// exec runs statements through the site.
func (s *site) exec(ctx context.Context, db string, statements ...string) error {
	pool, err := s.open(db)
	if err != nil {
		return err
	}
	defer pool.Close()
	for _, q := range statements {
		for {
			_, err := pool.ExecContext(ctx, q)
			if err == nil {
				break
			}
			if !again(err) || ctx.Err() != nil {
				return fmt.Errorf("%s: %w", q, err)
			}
			sleep(ctx, 50*time.Millisecond)
		}
	}
	return nil
}

// again reports whether the server has said that nothing was changed.
func again(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205)
}

// counters are rows with a number each, which one client increments and others read.
type counters struct {
	bed *Bed
	all []*counter
}

type counter struct {
	table string
	id    int
	// strong is set if a read that begins after an increment was answered must see it.
	strong bool

	mu       sync.Mutex
	acked    int64
	doubtful int64
}

func (c *counter) add(o outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch o {
	case served:
		c.acked++
	case unknown:
		c.doubtful++
	}
}

func (c *counter) known() (acked, doubtful int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.acked, c.doubtful
}

// clients are the streams of one row from one site: a writer and a reader.
func (cs *counters) clients(s *site, kind, of, table string, id int, strong bool) ([]*stream, error) {
	c := &counter{table: table, id: id, strong: strong}
	cs.all = append(cs.all, c)
	var out []*stream
	for _, write := range []bool{true, false} {
		db, err := s.open("faults")
		if err != nil {
			return nil, err
		}
		db.SetMaxOpenConns(1)
		st := &stream{region: s.name, kind: kind, of: of, write: write}
		if write {
			st.do = func(ctx context.Context) (outcome, error) { return c.increment(ctx, db) }
		} else {
			st.do = func(ctx context.Context) (outcome, error) { return c.read(ctx, db) }
		}
		out = append(out, st)
	}
	return out, nil
}

func (c *counter) increment(ctx context.Context, db *sql.DB) (outcome, error) {
	r, err := db.ExecContext(ctx, "UPDATE "+c.table+" SET n = n + 1 WHERE id = ?", c.id)
	o := judge(err)
	if err == nil {
		var n int64
		if n, err = r.RowsAffected(); err == nil && n == 0 { // a site that does not have the row yet
			o, err = refused, fmt.Errorf("there is no row %d in %s", c.id, c.table)
		}
	}
	c.add(o)
	return o, err
}

// judge says what a client knows after a write.
func judge(err error) outcome {
	var refusal *net.OpError
	switch {
	case err == nil:
		return served
	case again(err), errors.As(err, &refusal) && refusal.Op == "dial":
		return refused
	}
	return unknown
}

func (c *counter) read(ctx context.Context, db *sql.DB) (outcome, error) {
	acked, _ := c.known()
	var n int64
	if err := db.QueryRowContext(ctx, "SELECT n FROM "+c.table+" WHERE id = ?", c.id).Scan(&n); err != nil {
		return refused, err
	}
	if c.strong && n < acked {
		return refused, fmt.Errorf("%w: row %d of %s is %d, and %d increments were acknowledged", errStale, c.id,
			c.table, n, acked)
	}
	return served, nil
}

// errStale marks a read that did not see what was acknowledged before it.
var errStale = errors.New("a stale read")

// lost compares all rows, read through every region that serves, with what was acknowledged.
func (cs *counters) lost(ctx context.Context) error {
	var errs []error
	for _, s := range cs.bed.sites {
		db, err := s.open("faults")
		if err != nil {
			return err
		}
		for _, c := range cs.all {
			errs = append(errs, c.compare(ctx, db, s.name))
		}
		db.Close()
	}
	return errors.Join(errs...)
}

func (c *counter) compare(ctx context.Context, db *sql.DB, through string) error {
	for begin := time.Now(); ; sleep(ctx, 50*time.Millisecond) {
		acked, _ := c.known()
		var n int64
		one, cancel := context.WithTimeout(ctx, 2*Hang)
		err := db.QueryRowContext(one, "SELECT n FROM "+c.table+" WHERE id = ?", c.id).Scan(&n)
		cancel()
		after, doubtful := c.known()
		late := time.Since(begin) > patience
		switch {
		case err != nil && late:
			return fmt.Errorf("row %d of %s cannot be read through %s: %w", c.id, c.table, through, err)
		case err != nil:
			continue
		case n < acked && !c.strong && !late: // a replica may be behind for a moment
			continue
		case n < acked:
			return fmt.Errorf("LOST: row %d of %s is %d through %s, and %d increments were acknowledged", c.id,
				c.table, n, through, acked)
		case n > after+doubtful+1: // one may be under way
			return fmt.Errorf("TOO MANY: row %d of %s is %d through %s, after %d acknowledged and %d "+
				"doubtful increments", c.id, c.table, n, through, after, doubtful)
		}
		return nil
	}
}

// entries are rows that a region inserts, one each.
type entries struct {
	site  *site
	turns bool // their keys are given, and regions take them in turn; else they are generated

	mu   sync.Mutex
	next int64
	sent map[int64]outcome
}

// insert adds a row with a number that was never used.
func (e *entries) insert(ctx context.Context, db *sql.DB) (outcome, error) {
	e.mu.Lock()
	n := e.next
	e.next++
	e.mu.Unlock()
	q, key := "INSERT INTO "+e.table()+" (n, region, value) VALUES (?, ?, ?)", n*int64(len(Regions))+int64(e.site.i)
	_, err := db.ExecContext(ctx, q, key, e.site.i, value(n))
	o := judge(err)
	e.mu.Lock()
	e.sent[n] = o
	e.mu.Unlock()
	return o, err
}

func (e *entries) table() string {
	if e.turns {
		return "turns"
	}
	return "entries"
}

// value follows from a row's number, so that a mixed-up row is noticed.
func value(n int64) int64 { return n*1_000_003 + 17 }

func (e *entries) known() map[int64]outcome {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := make(map[int64]outcome, len(e.sent))
	for n, o := range e.sent {
		out[n] = o
	}
	return out
}

// compare reads all rows of the region through one site.
func (e *entries) compare(ctx context.Context, through *site) error {
	db, err := through.open("faults")
	if err != nil {
		return err
	}
	defer db.Close()
	before := e.known()
	seen, err := e.list(ctx, db)
	for begin := time.Now(); err != nil && time.Since(begin) < patience; seen, err = e.list(ctx, db) {
		sleep(ctx, 50*time.Millisecond)
		before = e.known()
	}
	if err != nil {
		return fmt.Errorf("the %s of %s cannot be read through %s: %w", e.table(), e.site.name, through.name, err)
	}
	missing := 0
	for n, o := range before {
		switch {
		case o == served && !seen[n]:
			missing++
		case o == refused && seen[n]:
			return fmt.Errorf("%s: row %d of %s was refused and is there, through %s", e.table(), n, e.site.name, through.name)
		}
	}
	if missing > 0 {
		return fmt.Errorf("LOST: %d of %d %s that %s inserted are missing through %s", missing, len(before),
			e.table(), e.site.name, through.name)
	}
	return nil
}

func (e *entries) list(parent context.Context, db *sql.DB) (map[int64]bool, error) {
	ctx, cancel := context.WithTimeout(parent, 2*Hang)
	defer cancel()
	rows, err := db.QueryContext(ctx, "SELECT n, value FROM "+e.table()+" WHERE region = ?", e.site.i)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	seen := map[int64]bool{}
	for rows.Next() {
		var n, v int64
		if err := rows.Scan(&n, &v); err != nil {
			return nil, err
		}
		if n /= int64(len(Regions)); v != value(n) || seen[n] {
			return nil, fmt.Errorf("%s: row %d of %s has the value %d, or is there twice", e.table(), n, e.site.name, v)
		}
		seen[n] = true
	}
	return seen, rows.Err()
}
