package console

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/go-sql-driver/mysql"
)

// link is one connection to the SQL server, as the user of a session. One statement at a time
// runs on it.
type link struct {
	id   string // of the connection, as KILL takes it
	pool *sql.DB
	conn *sql.Conn
	turn chan struct{}
	used bool // the session has had a database; whoever has the turn reads and writes it
	gone atomic.Bool
}

// address is that of a client.
type address string

// Network implements net.Addr.
func (address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }

// connect logs in, over TLS if the browser's request came so: what an account, or the node,
// REQUIREs is then what the user has.
func (c *Console) connect(ctx context.Context, r *http.Request, in credentials) (*link, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = in.User, in.Password, "console", "node"
	cfg.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.opt.Dial(ctx, address(r.RemoteAddr))
	}
	cfg.ConnectionAttributes = "program_name:godwit console"
	cfg.Logger = &mysql.NopLogger{}
	if r.TLS != nil {
		// The other end is in this process: there is no way between for a certificate to guard.
		cfg.TLS = &tls.Config{InsecureSkipVerify: true}
	}
	var used *mysql.Config
	if err := cfg.Apply(mysql.BeforeConnect(func(_ context.Context, own *mysql.Config) error {
		used = own
		return nil
	})); err != nil {
		return nil, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	cfg.Passwd, used.Passwd = "", ""
	l := &link{pool: sql.OpenDB(&single{conn: raw, of: connector.Driver()}), turn: make(chan struct{}, 1)}
	if l.conn, err = l.pool.Conn(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	if err := l.begin(ctx); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// begin prepares the connection: it lives as long as the session, and a SELECT ends in time.
func (l *link) begin(ctx context.Context) error {
	_, err := l.conn.ExecContext(ctx, fmt.Sprintf("SET SESSION wait_timeout = %d, max_execution_time = %d",
		int((lifeTimeout+time.Hour).Seconds()), statementTimeout.Milliseconds()))
	if err != nil {
		return err
	}
	return l.conn.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&l.id)
}

func (l *link) close() {
	l.gone.Store(true)
	if l.conn != nil {
		_ = l.conn.Close() // the pool closes what it leads to
	}
	_ = l.pool.Close()
}

// lost reports whether the connection has ended.
func (l *link) lost() bool { return l.gone.Load() }

// single is a connector of one connection, which exists. There is no second one: the password is
// forgotten.
type single struct {
	conn driver.Conn
	of   driver.Driver
	used atomic.Bool
}

var errUsed = errors.New("the connection has ended")

// Connect implements driver.Connector.
func (s *single) Connect(context.Context) (driver.Conn, error) {
	if s.used.Swap(true) {
		return nil, errUsed
	}
	return s.conn, nil
}

// Driver implements driver.Connector.
func (s *single) Driver() driver.Driver { return s.of }

// bounds of a result.
type bounds struct {
	rows, bytes, cell int
	timeout           time.Duration
}

// watching are the bounds of what the pages show.
var watching = bounds{rows: 500, bytes: 1 << 20, cell: 2 << 10, timeout: 10 * time.Second}

// table is a result. A cell is a text, or null.
type table struct {
	Columns []string    `json:"columns"`
	Rows    [][]*string `json:"rows"`
	// More says that there are rows that were left out, and Cut that long values were cut.
	More bool `json:"more,omitempty"`
	Cut  bool `json:"cut,omitempty"`
	// Error is what SQL said instead, Code its number.
	Error string  `json:"error,omitempty"`
	Code  int     `json:"code,omitempty"`
	MS    float64 `json:"ms"`
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// ask runs a query that returns few rows.
func (l *link) ask(ctx context.Context, b bounds, query string, args ...any) *table {
	select {
	case l.turn <- struct{}{}:
		defer func() { <-l.turn }()
	case <-ctx.Done():
		return &table{Error: "the node is busy with earlier questions of this session"}
	}
	return l.run(b, nil, query, args...)
}

// run executes a statement; the caller has the turn. The end of a request does not end it: the
// connection would go with it. enough is called once if there are more rows than wanted.
func (l *link) run(b bounds, enough func(), query string, args ...any) *table {
	ctx, done := context.WithTimeout(context.Background(), b.timeout)
	defer done()
	begin, out := time.Now(), &table{}
	defer func() { out.MS = float64(time.Since(begin).Microseconds()) / 1000 }()
	rows, err := l.conn.QueryContext(ctx, query, args...)
	if err == nil {
		err = out.read(rows, b, enough)
	}
	if err != nil && !(out.More && interrupted(err)) {
		out.Error, out.Code = l.explain(err)
	}
	return out
}

// interrupted reports whether a statement was ended by KILL QUERY.
func interrupted(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == 1317
}

// explain is an error for people. One that is not of SQL ends the connection.
func (l *link) explain(err error) (string, int) {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Message, int(e.Number)
	}
	if errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, mysql.ErrInvalidConn) ||
		errors.Is(err, context.DeadlineExceeded) {
		l.gone.Store(true)
		return "the connection to the SQL server has ended: log in again", 0
	}
	return err.Error(), 0
}

// read takes rows until there are enough.
func (t *table) read(rows *sql.Rows, b bounds, enough func()) (err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	if t.Columns, err = rows.Columns(); err != nil {
		return err
	}
	values := make([]any, len(t.Columns))
	into := make([]any, len(t.Columns))
	for i := range values {
		into[i] = &values[i]
	}
	size := 0
	for rows.Next() {
		if len(t.Rows) >= b.rows || size >= b.bytes {
			t.More = true
			if enough != nil {
				enough()
			}
			break
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		row := make([]*string, len(values))
		for i, v := range values {
			row[i] = t.cell(v, b.cell)
			size += len(text(row[i])) + 4
		}
		t.Rows = append(t.Rows, row)
	}
	return rows.Err()
}

// cell is a value as text. Bytes that are no text are shown as a number in base 16.
func (t *table) cell(v any, most int) *string {
	var s string
	switch v := v.(type) {
	case nil:
		return nil
	case []byte:
		s = string(v)
	case string:
		s = v
	case int64:
		s = strconv.FormatInt(v, 10)
	case float32:
		s = strconv.FormatFloat(float64(v), 'g', -1, 32)
	case float64:
		s = strconv.FormatFloat(v, 'g', -1, 64)
	default:
		s = fmt.Sprint(v)
	}
	cut := len(s) > most
	if !utf8.ValidString(s) {
		s = "0x" + hex.EncodeToString([]byte(s[:min(len(s), most/2)]))
	} else if cut {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	if cut {
		s, t.Cut = s+"…", true
	}
	return &s
}
