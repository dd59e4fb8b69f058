package workload

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"time"
)

// maxStatements bounds the prepared statements a session keeps. TPC-C, the richest workload, needs
// about 100.
const maxStatements = 512

// session is one client connection with its prepared statements. It connects on first use and again
// after reset.
type session struct {
	pool  *pool
	next  int // index into pool.dbs of the server to connect to
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func (p *pool) session(i int) *session {
	return &session{pool: p, next: i % len(p.dbs)}
}

// connected returns a session with a connection to the first of the region's servers that accepts
// one.
func (p *pool) connected(ctx context.Context) (*session, error) {
	s := p.session(0)
	var err error
	for range p.dbs {
		if err = s.connect(ctx); err == nil {
			return s, nil
		}
	}
	return nil, err
}

// connect makes the connection unless there is one. After a failure the next call tries the
// region's next server.
func (s *session) connect(ctx context.Context) error {
	if s.conn != nil {
		return nil
	}
	conn, err := s.pool.dbs[s.next].Conn(ctx)
	if err == nil {
		s.conn, s.stmts = conn, map[string]*sql.Stmt{}
		for _, q := range s.pool.setup {
			if _, err = conn.ExecContext(ctx, q); err != nil {
				break
			}
		}
	}
	if err != nil {
		s.reset()
		return &connError{fmt.Errorf("connecting to region %s: %w", s.pool.region, err)}
	}
	return nil
}

// reset drops the connection, which makes the server roll back what is open on it.
func (s *session) reset() {
	if s.conn != nil {
		// ErrBadConn tells database/sql to close the connection instead of pooling it; other
		// results cannot matter for a connection that is given up.
		_ = s.conn.Raw(func(any) error { return driver.ErrBadConn })
		_ = s.conn.Close()
	}
	s.conn, s.stmts = nil, nil
	s.next = (s.next + 1) % len(s.pool.dbs)
}

// stmt returns the prepared statement for a query, or nil for text mode or without arguments.
func (s *session) stmt(ctx context.Context, query string, args []any) (*sql.Stmt, error) {
	if s.pool.text || len(args) == 0 {
		return nil, nil
	}
	if st, ok := s.stmts[query]; ok {
		return st, nil
	}
	if len(s.stmts) >= maxStatements {
		for q, st := range s.stmts {
			_ = st.Close() // a failure shows up on the connection's next use
			delete(s.stmts, q)
		}
	}
	st, err := s.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	s.stmts[query] = st
	return st, nil
}

// exec runs a statement that returns no rows.
func (s *session) exec(ctx context.Context, query string, args ...any) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	st, err := s.stmt(ctx, query, args)
	if err != nil {
		return err
	}
	if st != nil {
		_, err = st.ExecContext(ctx, args...)
	} else {
		_, err = s.conn.ExecContext(ctx, query, args...)
	}
	return err
}

// query runs a query and calls scan for each row.
func (s *session) query(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	if err := s.connect(ctx); err != nil {
		return err
	}
	st, err := s.stmt(ctx, query, args)
	if err != nil {
		return err
	}
	var rows *sql.Rows
	if st != nil {
		rows, err = st.QueryContext(ctx, args...)
	} else {
		rows, err = s.conn.QueryContext(ctx, query, args...)
	}
	if err != nil {
		return err
	}
	for rows.Next() {
		if err := scan(rows); err != nil {
			_ = rows.Close() // the scan's error is the one to report
			return err
		}
	}
	err = rows.Err()
	if cerr := rows.Close(); err == nil {
		err = cerr
	}
	return err
}

// row runs a query that must return exactly one row and scans it into dest. No row is
// sql.ErrNoRows.
func (s *session) row(ctx context.Context, dest []any, query string, args ...any) error {
	n := 0
	err := s.query(ctx, func(r *sql.Rows) error {
		n++
		return r.Scan(dest...)
	}, query, args...)
	if err != nil {
		return err
	}
	switch n {
	case 0:
		return fmt.Errorf("%w for %s", sql.ErrNoRows, query)
	case 1:
		return nil
	}
	return fmt.Errorf("%d rows instead of one for %s", n, query)
}

// transact runs f between START TRANSACTION and COMMIT, once.
func (s *session) transact(ctx context.Context, f func() error) error {
	return s.between(ctx, "START TRANSACTION", f)
}

// between runs f between the statement begin and COMMIT, once.
func (s *session) between(ctx context.Context, begin string, f func() error) error {
	if err := s.exec(ctx, begin); err != nil {
		return err
	}
	if err := f(); err != nil {
		s.rollback(ctx, err)
		return err
	}
	if err := s.exec(ctx, "COMMIT"); err != nil {
		s.rollback(ctx, err)
		return err
	}
	return nil
}

// rollback ends the transaction after cause. It always sends ROLLBACK: on error 1205 MySQL rolls
// back only the statement, and after a failed COMMIT the state is unknown. It gives up a connection
// on which ROLLBACK fails.
func (s *session) rollback(ctx context.Context, cause error) {
	if s.conn == nil {
		return
	}
	if connectionLost(cause) {
		s.reset()
		return
	}
	if err := s.exec(ctx, "ROLLBACK"); err != nil {
		s.reset()
	}
}

// sqlTime is a time as a DATETIME literal in UTC.
func sqlTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") }
