package sqldiff

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// lostConnection is MySQL's number for a connection that is gone.
const lostConnection = 2013

// sqlMode is what both servers run under.
const sqlMode = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE," +
	"ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"

// Side is one of the servers that are compared: one connection to it.
type Side struct {
	Name string
	db   *sql.DB
	conn *sql.Conn
	// Patience bounds a statement.
	Patience time.Duration
	database string
	maria    bool

	gates  []gate
	stays  bool // the session has something that those of other nodes have not
	within bool // a transaction
}

// Dial opens a side by the data source name of go-sql-driver/mysql.
func Dial(ctx context.Context, name, dsn string) (*Side, error) {
	db, err := open(dsn)
	if err != nil {
		return nil, err
	}
	s := &Side{Name: name, db: db, Patience: 10 * time.Second}
	return s, s.connect(ctx)
}

func open(dsn string) (*sql.DB, error) {
	cfg, err := mysql.ParseDSN(dsn)
	if err != nil {
		return nil, err
	}
	cfg.Logger = &mysql.NopLogger{}
	con, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(con), nil
}

func (s *Side) connect(ctx context.Context) (err error) {
	if s.conn != nil {
		_ = s.conn.Close() // it is lost already
		s.conn = nil
	}
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return err
	}
	s.conn = conn
	defer func() {
		if err != nil {
			s.conn = nil
			_ = conn.Close()
		}
	}()
	for _, q := range []string{"SET NAMES utf8mb4 COLLATE utf8mb4_general_ci", "SET sql_mode = '" + sqlMode + "'",
		"SET time_zone = '+00:00'"} {
		if _, err := s.conn.ExecContext(ctx, q); err != nil {
			return fmt.Errorf("%s: %w", q, err)
		}
	}
	var version string
	if err := s.conn.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return err
	}
	s.maria = strings.Contains(version, "MariaDB")
	if s.maria {
		if _, err := s.conn.ExecContext(ctx, "SET max_statement_time = 8"); err != nil {
			return err
		}
	}
	if s.maria { // fractions of seconds are rounded, as MySQL does
		if _, err := s.conn.ExecContext(ctx, "SET sql_mode = CONCAT(@@sql_mode, ',TIME_ROUND_FRACTIONAL')"); err != nil {
			return err
		}
	}
	if s.database != "" {
		_, err = s.conn.ExecContext(ctx, "USE "+s.database)
	}
	return err
}

// Close closes the connection.
func (s *Side) Close() error {
	s.stay()
	for _, g := range s.gates {
		_ = g.db.Close()
	}
	if s.conn == nil {
		return s.db.Close()
	}
	return errors.Join(s.conn.Close(), s.db.Close())
}

// Fresh makes an empty database and uses it.
func (s *Side) Fresh(ctx context.Context, database string) error {
	s.database = ""
	s.stay()
	s.stays = true // until there is a database
	defer func() { s.stays = false }()
	patience := s.Patience
	s.Patience = max(patience, time.Minute) // a statement that was given up may hold the tables for a while
	defer func() { s.Patience = patience }()
	if err := s.connect(ctx); err != nil {
		return err
	}
	for _, q := range []string{"DROP DATABASE IF EXISTS " + database,
		"CREATE DATABASE " + database + " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "USE " + database} {
		if r := s.Run(ctx, q); r.Errno != 0 {
			return fmt.Errorf("%s: %s: %d %s", s.Name, q, r.Errno, r.Message)
		}
	}
	s.database = database
	return nil
}

// Run runs a statement. Errors are part of the answer.
func (s *Side) Run(ctx context.Context, q string) *Result {
	ctx, cancel := context.WithTimeout(ctx, s.Patience)
	defer cancel()
	r := &Result{}
	var err error
	if err = s.hop(ctx, q); err != nil {
		s.conn = nil
	}
	if s.conn == nil { // the server did not answer in time when the last one was lost
		err = s.connect(ctx)
	}
	if err == nil {
		err = s.run(ctx, q, r)
		s.ran(q)
	}
	var me *mysql.MySQLError
	switch {
	case err == nil:
	case errors.As(err, &me):
		r.Errno, r.Message = int(me.Number), me.Message
	default:
		r.Errno, r.Message = lostConnection, err.Error()
		again, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Patience)
		defer cancel()
		err := s.connect(again)
		for err != nil && again.Err() == nil { // it may have died, and begin again
			time.Sleep(100 * time.Millisecond)
			err = s.connect(again)
		}
		if err != nil {
			r.Message += "; " + err.Error()
		}
	}
	return r
}

// exec runs statements that must not fail. It is errRetry if a busy server took too long.
func (s *Side) exec(ctx context.Context, qs []string) error {
	for _, q := range qs {
		switch r := s.Run(ctx, q); {
		case r.aborted() || r.Errno == lostConnection:
			return fmt.Errorf("%s: %s: %s: %w", s.Name, q, r.Message, errRetry)
		case r.Errno != 0:
			return fmt.Errorf("%s: %s: %d %s", s.Name, q, r.Errno, r.Message)
		}
	}
	return nil
}

var errRetry = errors.New("transaction aborted")

// aborted reports whether the server says that the transaction is to be begun anew.
func (r *Result) aborted() bool { return r.Errno == 1213 || r.Errno == 1205 }

// all runs statements, one after the other.
func (s *Side) all(ctx context.Context, qs []string) (out []*Result) {
	for _, q := range qs {
		out = append(out, s.Run(ctx, q))
	}
	return out
}

// way is how statements are run: with other forms, and between other statements.
type way struct {
	forms         map[string]string
	before, after []string
	// late: forms are those of the last statement of several that change tables, and before stands
	// before it. Its number is from.
	late bool
	from int
}

// as runs statements in a way.
func (s *Side) as(ctx context.Context, qs []string, as way) []*Result {
	out := s.all(ctx, qs[:as.from])
	s.all(ctx, as.before)
	defer s.all(ctx, as.after)
	return append(out, s.all(ctx, qs[as.from:])...)
}

func (s *Side) run(ctx context.Context, q string, r *Result) error {
	if !returnsRows(q) {
		res, err := s.conn.ExecContext(ctx, q)
		if err != nil {
			return err
		}
		r.Affected, err = res.RowsAffected()
		return err
	}
	rows, err := s.conn.QueryContext(ctx, q)
	if err != nil {
		return err
	}
	defer rows.Close()
	types, err := rows.ColumnTypes()
	if err != nil {
		return err
	}
	for _, t := range types {
		r.Types = append(r.Types, kindOf(t.DatabaseTypeName()))
	}
	cells := make([]sql.RawBytes, len(types))
	dest := make([]any, len(types))
	for i := range cells {
		dest[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		row := make([]string, len(cells))
		for i, c := range cells {
			if row[i] = string(c); c == nil {
				row[i] = null
			}
		}
		r.Rows = append(r.Rows, row)
	}
	return rows.Err()
}

func returnsRows(q string) bool {
	for _, w := range []string{"SELECT", "WITH", "(SELECT", "SHOW", "TABLE", "VALUES", "EXPLAIN"} {
		if strings.HasPrefix(q, w) {
			return true
		}
	}
	return false
}

// kindOf is the kind of a type's name in the driver.
func kindOf(name string) Kind {
	switch name = strings.TrimPrefix(name, "UNSIGNED "); name {
	case "TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "YEAR":
		return Int
	case "DECIMAL":
		return Decimal
	case "FLOAT", "DOUBLE":
		return Double
	case "DATE":
		return Date
	case "DATETIME", "TIMESTAMP":
		return Datetime
	case "TIME":
		return Time
	case "NULL":
		return Other
	}
	return Text
}
