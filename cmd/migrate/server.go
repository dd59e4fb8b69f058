package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// Address says how a server is reached: mysql://user[:password]@host[:port][/db1,db2][?tls=mode].
type Address struct {
	Host      string // host:port
	User      string
	Password  string
	Databases []string // of the source: what is copied; all but the system's, if there are none
	TLS       string   // preferred (default), true, skip-verify or false
}

// defaultPort is MySQL's.
const defaultPort = "3306"

// ParseAddress reads a URL. Its errors show no password.
func ParseAddress(s string) (*Address, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "mysql" || u.Host == "" || u.User == nil {
		return nil, errors.New("not of the form mysql://user@host:port/db1,db2 (characters such as @ and / of a password as %40 and %2F)")
	}
	a := &Address{User: u.User.Username(), TLS: "preferred", Host: u.Host}
	a.Password, _ = u.User.Password()
	if u.Port() == "" {
		a.Host = net.JoinHostPort(u.Hostname(), defaultPort)
	}
	if path := strings.Trim(u.Path, "/"); path != "" {
		a.Databases = strings.Split(path, ",")
	}
	for k, v := range u.Query() {
		if k != "tls" || !slices.Contains([]string{"preferred", "true", "skip-verify", "false"}, v[0]) {
			return nil, fmt.Errorf("unknown parameter %s=%s: there is tls=preferred, true, skip-verify or false", k, v[0])
		}
		a.TLS = v[0]
	}
	return a, nil
}

// open connects a pool whose sessions all have vars set. Values are SQL.
func (a *Address) open(vars map[string]string) (*sql.DB, error) {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.Addr = a.User, a.Password, "tcp", a.Host
	c.TLSConfig = a.TLS
	c.Timeout = 10 * time.Second
	c.ClientFoundRows = true
	c.MaxAllowedPacket = 0 // the server's
	c.Params = map[string]string{"time_zone": "'+00:00'"}
	for k, v := range vars {
		c.Params[k] = v
	}
	if err := c.Apply(mysql.Charset("utf8mb4", "")); err != nil {
		return nil, err
	}
	conn, err := mysql.NewConnector(c)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(conn), nil
}

// numberOf is the number of a server's error, 0 of others.
func numberOf(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// Numbers of MySQL's errors that are looked at.
const (
	errDeadlock  = 1213
	errLockWait  = 1205
	errAccess    = 1227
	errAccessDB  = 1044
	errNotYet    = 1235
	errNoSuchVar = 1193
	errSyntax    = 1064
	errNoTable   = 1146
	errDuplicate = 1062
	errShutdown  = 1053
	errFull      = 1040
	errUnknown   = 1105
)

// passing reports whether an error of a server may go away by itself: deadlocks, waits, a server
// that ends or is full, and a COMMIT of which Godwit does not know whether it happened.
func passing(err error) bool {
	switch numberOf(err) {
	case errDeadlock, errLockWait, errShutdown, errFull:
		return true
	}
	return outcomeOpen(err)
}

// outcomeOpen reports whether a statement may have been committed.
func outcomeOpen(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && e.Number == errUnknown && strings.HasPrefix(e.Message, "The outcome of the commit is unknown")
}

// queryer is a pool or one session of it.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// texts reads all rows of a query as texts; NULL is "".
func texts(ctx context.Context, q queryer, query string, args ...any) ([][]string, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var out [][]string
	cells := make([]sql.NullString, len(names))
	to := make([]any, len(names))
	for i := range cells {
		to[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		line := make([]string, len(cells))
		for i, c := range cells {
			line[i] = c.String
		}
		out = append(out, line)
	}
	return out, rows.Err()
}

// text is the cell of the first row.
func text(ctx context.Context, q queryer, cell int, query string, args ...any) (string, error) {
	rows, err := texts(ctx, q, query, args...)
	if err != nil {
		return "", err
	}
	if len(rows) == 0 || len(rows[0]) <= cell {
		return "", fmt.Errorf("%s: no answer", query)
	}
	return rows[0][cell], nil
}

// quoteName quotes an identifier.
func quoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// quoteText quotes a text for a server that takes backslashes.
func quoteText(b []byte, s string) []byte {
	b = append(b, '\'')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'', '\\':
			b = append(b, '\\', c)
		case 0:
			b = append(b, '\\', '0')
		case '\n':
			b = append(b, '\\', 'n')
		case '\r':
			b = append(b, '\\', 'r')
		case 26:
			b = append(b, '\\', 'Z')
		default:
			b = append(b, c)
		}
	}
	return append(b, '\'')
}
