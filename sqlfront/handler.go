package sqlfront

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"

	querypb "github.com/dolthub/vitess/go/vt/proto/query"
)

// handler stands between the protocol and the engine: it retries autocommit
// statements, ends transactions that were lost, and measures.
type handler struct {
	mysql.Handler
	g  *gateway
	sm *server.SessionManager
}

const (
	retryFor   = 10 * time.Second
	retryFirst = 2 * time.Millisecond
	retryMax   = 250 * time.Millisecond
)

func (h *handler) session(c *mysql.Conn) *Session {
	v, _ := h.g.sessions.Load(c.ConnectionID)
	s, _ := v.(*Session)
	return s
}

// NewConnection implements mysql.Handler. The greeting must say that the session
// is in autocommit mode: drivers such as PyMySQL believe it, and would
// otherwise never turn the mode off.
func (h *handler) NewConnection(c *mysql.Conn) {
	h.Handler.NewConnection(c)
	c.StatusFlags |= uint16(mysql.ServerStatusAutocommit)
}

// short executes a statement without the engine's analyzer, where that can be done: what begins or ends a transaction,
// what is forwarded whole, and reads and writes by key. p is nil for text. If it is not done, f learns from what the engine makes of it.
func (h *handler) short(ctx context.Context, s *Session, c *mysql.Conn, query string, p *mysql.PrepareData, sent *bool, cb func(*sqltypes.Result) error) (f *fastCall, done bool, err error) {
	if done, err := h.fastTx(ctx, s, c, query, sent, cb); done {
		return nil, true, err
	}
	if done, err := h.forward(ctx, s, c, query, p, sent, cb); done {
		return nil, true, err
	}
	if p == nil {
		f = h.fastText(s, c, query)
	} else {
		f = h.fastPrepared(s, c, p)
	}
	done, err = f.try(ctx, sent, cb)
	return f, done, err
}

// ComQuery implements mysql.Handler.
func (h *handler) ComQuery(ctx context.Context, c *mysql.Conn, query string, cb mysql.ResultSpoolFn) error {
	return h.run(ctx, c, query, func(s *Session, sent *bool) error {
		one := func(r *sqltypes.Result) error { return cb(r, false) }
		f, done, err := h.short(ctx, s, c, query, nil, sent, one)
		if done {
			return err
		}
		ctx, stop := whileThere(ctx, c.Conn)
		defer stop()
		return h.Handler.ComQuery(ctx, c, query, func(r *sqltypes.Result, more bool) error {
			*sent = true
			f.learn(r)
			padInfo(r)
			return cb(r, more)
		})
	})
}

// ComMultiQuery implements mysql.Handler.
func (h *handler) ComMultiQuery(ctx context.Context, c *mysql.Conn, query string, cb mysql.ResultSpoolFn) (string, error) {
	var rest string
	err := h.run(ctx, c, query, func(s *Session, sent *bool) error {
		one := func(r *sqltypes.Result) error { return cb(r, false) }
		f, done, err := h.short(ctx, s, c, query, nil, sent, one)
		if done {
			return err
		}
		ctx, stop := whileThere(ctx, c.Conn)
		defer stop()
		rest, err = h.Handler.ComMultiQuery(ctx, c, query, func(r *sqltypes.Result, more bool) error {
			*sent = true
			f.learn(r)
			padInfo(r)
			return cb(r, more)
		})
		return err
	})
	return rest, err
}

// ComStmtExecute implements mysql.Handler.
func (h *handler) ComStmtExecute(ctx context.Context, c *mysql.Conn, p *mysql.PrepareData, cb func(*sqltypes.Result) error) error {
	return h.run(ctx, c, p.PrepareStmt, func(s *Session, sent *bool) error {
		f, done, err := h.short(ctx, s, c, p.PrepareStmt, p, sent, cb)
		if done {
			return err
		}
		ctx, stop := whileThere(ctx, c.Conn)
		defer stop()
		s.binds = p.BindVars
		defer func() { s.binds = nil }()
		return h.Handler.ComStmtExecute(ctx, c, p, func(r *sqltypes.Result) error {
			*sent = true
			f.learn(r)
			padInfo(r)
			return cb(r)
		})
	})
}

// leastInfo is the least length of the information of an OK packet. The protocol library puts a '#' before it where the length belongs, so
// stock clients take 35 bytes, and fail if there are fewer.
const leastInfo = '#'

func padInfo(r *sqltypes.Result) {
	if n := leastInfo - len(r.Info); r.Info != "" && n > 0 {
		r.Info += strings.Repeat(" ", n)
	}
}

// ComPrepare implements mysql.Handler.
func (h *handler) ComPrepare(ctx context.Context, c *mysql.Conn, query string, p *mysql.PrepareData) ([]*querypb.Field, error) {
	f, err := h.Handler.ComPrepare(ctx, c, query, p)
	if s := h.session(c); s != nil {
		err = h.wording(s, err)
		if t := s.txn(); t != nil && t.kv == nil && !s.GetIgnoreAutoCommit() {
			s.SetTransaction(nil) // preparing began a transaction that nothing used
		}
	}
	return f, err
}

// ConnectionClosed implements mysql.Handler.
func (h *handler) ConnectionClosed(c *mysql.Conn) {
	s := h.session(c)
	h.Handler.ConnectionClosed(c)
	if s != nil {
		s.SessionEnd()
	}
}

// run executes a statement, again while it lost a conflict, nothing was sent to
// the client, and nothing of its transaction came before it: an autocommit
// statement, or the first of a transaction.
func (h *handler) run(ctx context.Context, c *mysql.Conn, query string, exec func(s *Session, sent *bool) error) error {
	s := h.session(c)
	if s == nil {
		s = newSession(sql.NewBaseSession(), h.g)
		var sent bool
		return exec(s, &sent)
	}
	start := time.Now()
	hops, bytes, msgs, moves := s.trace.Hops(), s.trace.Bytes(), s.trace.Messages(), s.trace.Moves()
	wait := retryFirst
	var err error
	for {
		sent := false
		s.aborted = false
		explicit, t := s.GetIgnoreAutoCommit(), s.txn()
		first := t == nil || t.kv == nil && !t.over && len(t.saves) == 0 && len(t.past) == 0
		err = exec(s, &sent)
		if err == nil {
			break
		}
		lost := s.aborted
		h.cleanUp(s, lost)
		if !lost || !first || sent || time.Since(start) >= retryFor || ctx.Err() != nil {
			break
		}
		if explicit && t != nil {
			s.SetTransaction(&Txn{s: s, readOnly: t.readOnly, level: t.level, strict: t.strict})
			s.SetIgnoreAutoCommit(true)
		}
		s.retrying = true
		h.g.log.Debug("statement is tried again", "err", err, "elapsed", time.Since(start))
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait = min(2*wait, retryMax)
	}
	s.retrying = false
	if s.txn() == nil {
		if s.aborted {
			s.lostAt = time.Now()
		} else if s.committed > 0 {
			s.lostAt = time.Time{}
		}
		if !s.keepsAge() {
			s.age = 0
		}
	}
	kind := statementKind(query)
	cost := statementCost{
		Hops: s.trace.Hops() - hops, Bytes: s.trace.Bytes() - bytes, Messages: s.trace.Messages() - msgs, Moves: s.trace.Moves() - moves,
		Elapsed: time.Since(start), Kind: kind,
	}
	if !strings.HasPrefix(kind, "show") && !costQuery(query) {
		s.noteCost(cost)
	}
	h.charge(s)
	if h.g.onStmt != nil && !s.remote {
		h.g.onStmt(kind, cost.Elapsed, cost.Hops, err)
	}
	return h.wording(s, err)
}

// keepsAge reports whether the next transaction is taken for another attempt of one
// that was just lost: it keeps that one's age, so that a client that retries
// grows older than its rivals instead of losing to them for ever.
func (s *Session) keepsAge() bool { return !s.lostAt.IsZero() && time.Since(s.lostAt) < retryFor }

// cleanUp ends the transaction of a failed statement where it must not go on: lost ones, and those of autocommit statements.
func (h *handler) cleanUp(s *Session, lost bool) {
	t := s.txn()
	if t == nil {
		if lost {
			s.SetIgnoreAutoCommit(false)
		}
		return
	}
	if lost || t.over || !s.GetIgnoreAutoCommit() && s.autocommit() {
		t.rollback()
		s.SetTransaction(nil)
		s.SetIgnoreAutoCommit(false)
	}
}

// autocommit is the variable of the session.
func (s *Session) autocommit() bool {
	ctx := sql.NewContext(context.Background(), sql.WithSession(s))
	v, err := s.GetSessionVariable(ctx, sql.AutoCommitSessionVar)
	if err != nil {
		return true
	}
	on, err := sql.ConvertToBool(ctx, v)
	return err != nil || on
}

// wording gives errors the numbers of MySQL, and duplicate keys its text, which clients parse.
func (h *handler) wording(s *Session, err error) error {
	if err == nil {
		return nil
	}
	var me *mysql.SQLError
	if !errors.As(err, &me) {
		me = sql.CastSQLError(err)
	}
	if me.Num == erDupEntry && s.dup != "" {
		return mysql.NewSQLError(erDupEntry, "23000", "%s", s.dup)
	}
	return numbered(me)
}

// statementKind is the first word of a statement, in lower case.
func statementKind(q string) string {
	q = strings.TrimLeft(q, " \t\r\n(")
	for strings.HasPrefix(q, "/*") {
		i := strings.Index(q, "*/")
		if i < 0 {
			break
		}
		q = strings.TrimLeft(q[i+2:], " \t\r\n(")
	}
	i := strings.IndexFunc(q, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == ';' || r == '(' })
	if i >= 0 {
		q = q[:i]
	}
	if len(q) > 16 {
		q = q[:16]
	}
	return strings.ToLower(q)
}

// costQuery reports whether a statement asks for the cost of the one before it.
func costQuery(q string) bool { return strings.Contains(strings.ToLower(q), "@@last_statement_") }
