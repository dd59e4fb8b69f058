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

	"github.com/godwitdb/godwit/sql/follow"
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

// Numbers of MySQL's errors that are looked at.
const (
	errAccess    = 1227
	errAccessDB  = 1044
	errNotYet    = 1235
	errNoSuchVar = 1193
	errSyntax    = 1064
	errNoTable   = 1146
	errDuplicate = 1062
)

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

// reading is what package follow reads a server by.
func reading(q queryer) follow.Query {
	return func(ctx context.Context, query string, args ...any) ([][]string, error) {
		return texts(ctx, q, query, args...)
	}
}
