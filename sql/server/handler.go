package server

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/binlog"
	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/fast"
	"github.com/godwitdb/godwit/sql/kill"
	"github.com/godwitdb/godwit/sql/locked"
	"github.com/godwitdb/godwit/sql/oneshot"
	"github.com/godwitdb/godwit/sql/rules"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/statements"
	"github.com/godwitdb/godwit/sql/weigh"
	"github.com/godwitdb/godwit/sql/xa"
)

// handler stands between the protocol and the engine: it retries autocommit
// statements, ends transactions that were lost, and measures.
type handler struct {
	mysql.Handler
	g  *gateway
	sm *server.SessionManager
}

const (
	retryFirst = 2 * time.Millisecond
	retryMax   = 250 * time.Millisecond
)

func (h *handler) session(c *mysql.Conn) *session.Session {
	v, _ := h.g.sessions.Load(c.ConnectionID)
	s, _ := v.(*session.Session)
	return s
}

// NewConnection implements mysql.Handler. The greeting must say that the session is in autocommit
// mode: drivers such as PyMySQL believe it, and would otherwise never turn the mode off.
func (h *handler) NewConnection(c *mysql.Conn) {
	h.Handler.NewConnection(c)
	c.StatusFlags |= uint16(mysql.ServerStatusAutocommit)
}

// ConnectionAuthenticated implements mysql.Handler.
func (h *handler) ConnectionAuthenticated(c *mysql.Conn) error {
	if err := h.g.logins.admit(c); err != nil {
		return err
	}
	if cc := clientOf(c); cc != nil {
		defer cc.turn.Done()
	}
	return h.Handler.ConnectionAuthenticated(c)
}

// short executes a statement without the engine, where that can be done: what begins or ends a
// transaction, what is forwarded whole, reads and writes by key, and what our own engine runs. p is
// nil for text. If it is not done, f learns from what the engine makes of it.
func (h *handler) short(ctx context.Context, s *session.Session, c *mysql.Conn, query string, p *mysql.PrepareData,
	sent *bool, cb func(*sqltypes.Result) error) (f *fast.Call, done bool, err error) {
	if done, err := h.fastTx(ctx, s, c, query, sent, cb); done {
		return nil, true, err
	}
	reads := s.ReadsOnly() // the engine refuses what writes
	if !reads {
		if done, err := h.forward(ctx, s, c, query, p, sent, cb); done {
			return nil, true, err
		}
	}
	if p == nil {
		f = h.g.fast.Text(s, c, query)
	} else {
		f = h.g.fast.Prepared(s, c, p)
	}
	if !reads {
		if done, err = f.Try(ctx, sent, cb); done {
			return f, true, err
		}
		if f == nil {
			if done, err = h.g.whole.Single(ctx, s, c, query, p, sent, cb); done {
				return nil, true, err
			}
		}
	}
	if p == nil {
		if text, binds, ok := s.Executed(ctx, query); ok {
			query, p = text, binds
		}
	}
	done, err = h.g.query.Try(ctx, s, c, query, p, sent, func(r *sqltypes.Result) error {
		f.Learn(r)
		return cb(r)
	})
	return f, done, err
}

// ComQuery implements mysql.Handler.
func (h *handler) ComQuery(ctx context.Context, c *mysql.Conn, query string, cb mysql.ResultSpoolFn) error {
	if announces(c, query) {
		return h.follow(ctx, c, query, binlog.Replica{})
	}
	ctx, st := h.begun(ctx, c, query)
	return st.Over(h.run(ctx, c, query, nil, func(s *session.Session, sent *bool) error {
		one := func(r *sqltypes.Result) error { s.Answered(r); return cb(r, false) }
		f, done, err := h.short(ctx, s, c, query, nil, sent, one)
		if done {
			return err
		}
		ctx, stop := h.left(ctx, s, query)
		defer stop()
		take := h.taking(ctx, s, sent, f, cb)
		return h.engine(ctx, s, c, query, nil, func(query string) error { return h.Handler.ComQuery(ctx, c, query, take) })
	}))
}

// ComMultiQuery implements mysql.Handler.
func (h *handler) ComMultiQuery(ctx context.Context, c *mysql.Conn, query string, cb mysql.ResultSpoolFn) (string, error) {
	if query == session.MoreResults {
		s := h.session(c)
		r, err := s.NextResult()
		if err != nil {
			return "", err
		}
		return s.Rest(), cb(r, s.Rest() != "")
	}
	if announces(c, query) {
		return "", h.follow(ctx, c, query, binlog.Replica{})
	}
	var rest string
	ctx, st := h.begun(ctx, c, query)
	err := h.run(ctx, c, query, nil, func(s *session.Session, sent *bool) error {
		s.BeginResults()
		one := func(r *sqltypes.Result) error { s.Answered(r); return cb(r, s.Rest() != "") }
		f, done, err := h.first(ctx, s, c, query, sent, one)
		s.TakesResults = false
		if done {
			rest = s.Rest()
			return err
		}
		ctx, stop := h.left(ctx, s, query)
		defer stop()
		take := h.taking(ctx, s, sent, f, cb)
		return h.engine(ctx, s, c, query, nil, func(query string) (err error) {
			rest, err = h.Handler.ComMultiQuery(ctx, c, query, take)
			return err
		})
	})
	if err != nil {
		rest = "" // an error ends the packet: what stands behind it is not executed
		h.g.whole.End(h.session(c))
	}
	return rest, st.Over(err)
}

// first is short of the first statement in a text of several, as far as it is easy to tell where
// that ends: it need not wait for the engine to parse it.
func (h *handler) first(ctx context.Context, s *session.Session, c *mysql.Conn, query string, sent *bool,
	one func(*sqltypes.Result) error) (f *fast.Call, done bool, err error) {
	done, err = h.g.whole.Step(ctx, s, c, query, &s.Then, sent, func(head string) (bool, error) {
		return h.fastTx(ctx, s, c, head, sent, one)
	}, one)
	if done {
		return nil, true, err
	}
	if head, then, ok := oneshot.Cut(query); ok && then != "" && oneshot.Plain(head) {
		query, s.Then = head, then
	}
	if f, done, err = h.short(ctx, s, c, query, nil, sent, one); !done {
		s.Then = ""
	}
	return f, done, err
}

// ComStmtExecute implements mysql.Handler.
func (h *handler) ComStmtExecute(ctx context.Context, c *mysql.Conn, p *mysql.PrepareData,
	cb func(*sqltypes.Result) error) error {
	ctx, st := h.begun(ctx, c, p.PrepareStmt)
	return st.Over(h.run(ctx, c, p.PrepareStmt, p.BindVars, func(s *session.Session, sent *bool) error {
		one := func(r *sqltypes.Result) error { s.Answered(r); return cb(r) }
		f, done, err := h.short(ctx, s, c, p.PrepareStmt, p, sent, one)
		if done {
			return err
		}
		ctx, stop := h.left(ctx, s, p.PrepareStmt)
		defer stop()
		s.Binds = p.BindVars
		defer func() { s.Binds = nil }()
		take := h.taking(ctx, s, sent, f, func(r *sqltypes.Result, _ bool) error { return cb(r) })
		return h.engine(ctx, s, c, p.PrepareStmt, p, func(query string) error {
			if query != p.PrepareStmt { // it makes the table of a query that is not the engine's
				return h.Handler.ComQuery(ctx, c, query, take)
			}
			return h.Handler.ComStmtExecute(ctx, c, p, func(r *sqltypes.Result) error { return take(r, false) })
		})
	}))
}

// taking takes the results of the engine.
func (h *handler) taking(ctx context.Context, s *session.Session, sent *bool, f *fast.Call, cb mysql.ResultSpoolFn) mysql.ResultSpoolFn {
	times := &timeColumns{g: h.g, s: s}
	return func(r *sqltypes.Result, more bool) error {
		*sent = true
		if err := s.WriteGrants(ctx); err != nil {
			return err
		}
		times.mend(ctx, r)
		bitsAreBytes(r)
		f.Learn(r)
		finish(s, r)
		return cmp.Or(cb(r, more), bound.Sent(ctx, r.Rows))
	}
}

// left is the context of a statement that is left to the engine: it bounds what the statement may
// keep. stop must be called.
func (h *handler) left(ctx context.Context, s *session.Session, query string) (_ context.Context, stop func()) {
	return bound.With(ctx, h.g.query.Budget().Less(s.Listed), h.g.query.Turn(sql.NewContext(ctx, sql.WithSession(s)), s, query))
}

// engine has the engine run a statement. The query of CREATE TABLE ... SELECT is run by our own.
// p is nil for text.
func (h *handler) engine(ctx context.Context, s *session.Session, c *mysql.Conn, query string, p *mysql.PrepareData,
	run func(query string) error) error {
	made, err := h.g.query.Selected(ctx, s, c, query, p)
	if err != nil {
		return err
	}
	return made.Run(query, run)
}

// leastInfo is the least length of the information of an OK packet. The protocol library puts a '#'
// before it where the length belongs, so stock clients take 35 bytes, and fail if there are fewer.
const leastInfo = '#'

// finish counts a result of the engine, and makes its text long enough.
func finish(s *session.Session, r *sqltypes.Result) {
	s.Answered(r)
	s.GetLastQueryInfo().RowCount.Store(int64(r.RowsAffected))
	if len(r.Fields) > 0 {
		s.GetLastQueryInfo().RowCount.Store(-1)
	}
	if n := leastInfo - len(r.Info); r.Info != "" && n > 0 {
		r.Info += strings.Repeat(" ", n)
	}
}

// bitsAreBytes marks columns of type BIT as binary, which the engine does not do.
func bitsAreBytes(r *sqltypes.Result) {
	for _, f := range r.Fields {
		if f.Type == sqltypes.Bit {
			f.Charset = uint32(sql.Collation_binary)
		}
	}
}

// ComInitDB implements mysql.Handler: it is USE, with the same errors.
func (h *handler) ComInitDB(c *mysql.Conn, db string) error {
	return h.ComQuery(context.Background(), c, "USE `"+strings.ReplaceAll(db, "`", "``")+"`",
		func(*sqltypes.Result, bool) error { return nil })
}

// ComPrepare implements mysql.Handler.
func (h *handler) ComPrepare(ctx context.Context, c *mysql.Conn, query string, p *mysql.PrepareData) ([]*querypb.Field, error) {
	var f []*querypb.Field
	s := h.session(c)
	if s != nil {
		defer s.State.Ends() // it was begun by ParserOptionsForConnection
	}
	var began statements.Began
	if s != nil {
		began = h.g.statements.Begin(s, query, nil, time.Now())
		done, err := h.g.query.Admit(ctx, s, c, query)
		if err != nil {
			return nil, began.Fail(s, query, err)
		}
		defer done()
		s.RefreshRoles(h.g.engine.Analyzer.Catalog.MySQLDb)
	}
	err := cmp.Or(weigh.Placeholders(query), h.mayPrepare(s, c))
	if err == nil {
		err = h.guarded(func() (err error) {
			f, err = h.Handler.ComPrepare(ctx, c, query, p)
			return err
		})
	}
	if err != nil {
		delete(c.PrepareData, p.StatementID) // the protocol library keeps it
	} else if s != nil {
		s.ByProtocol(query)
	}
	if s != nil {
		if err != nil {
			err = began.Fail(s, query, h.g.wording(s, err))
		}
		if t := s.Txn(); t != nil && t.KV == nil && !s.GetIgnoreAutoCommit() {
			s.SetTransaction(nil) // preparing began a transaction that nothing used
		}
	}
	return f, err
}

// ParserOptionsForConnection implements mysql.Handler. The protocol library asks before it parses a
// statement that is prepared, and does so whatever its depth, before ComPrepare is called. So its
// length is bounded. The error ends the connection.
func (h *handler) ParserOptionsForConnection(c *mysql.Conn) (sqlparser.ParserOptions, error) {
	if cc := clientOf(c); cc != nil {
		if cc.read > preparedBytes {
			h.g.Log.Warn("a client has sent a statement to be prepared that is too long", "user", c.User, "address", cc.address,
				"most", preparedBytes)
			return sqlparser.ParserOptions{}, errLongPacket
		}
		cc.read = 0
	}
	h.begins(context.Background(), c, kill.Kind{Gated: true, Waits: true})
	return h.Handler.ParserOptionsForConnection(c)
}

// mayPrepare is why a client may not prepare another statement; nil: it may.
func (h *handler) mayPrepare(s *session.Session, c *mysql.Conn) error {
	if s == nil {
		return nil
	}
	if err := handled(c); err != nil {
		return err
	}
	return s.MayPrepare(func(yield func(string) bool) {
		for _, p := range c.PrepareData {
			if !yield(p.PrepareStmt) {
				return
			}
		}
	})
}

// ConnectionClosed implements mysql.Handler.
func (h *handler) ConnectionClosed(c *mysql.Conn) {
	h.g.logins.leave(c)
	s := h.session(c)
	if s == nil { // the engine would make a session, to end it
		h.sm.RemoveConn(c)
		return
	}
	h.Handler.ConnectionClosed(c)
	h.g.statements.Left(s)
	s.SessionEnd()
}

// run executes a statement, again while it lost a conflict, nothing was sent to
// the client, and nothing of its transaction came before it: an autocommit
// statement, or the first of a transaction.
func (h *handler) run(ctx context.Context, c *mysql.Conn, query string, binds map[string]*querypb.BindVariable,
	exec func(s *session.Session, sent *bool) error) error {
	s := h.session(c)
	if s == nil {
		s = session.New(sql.NewBaseSession(), h.g.sessionEnv())
		var sent bool
		return exec(s, &sent)
	}
	p := h.g.presence(c)
	if !h.g.enter(p) {
		return errShutdown
	}
	defer s.Settle()
	defer p.leave(s)
	if err := handled(c); err != nil {
		return err
	}
	start := time.Now()
	began := h.g.statements.Begin(s, query, binds, start)
	pass, err := s.State.Enter(ctx, h.g.query.Turns.Gate, s.Client().User, s.Remote || s.Txn() != nil && s.GetIgnoreAutoCommit())
	if err != nil {
		return began.Fail(s, query, err)
	}
	defer func(slots int64) { pass.Leave(s.Slots.Load() != slots) }(s.Slots.Load())
	done, err := h.g.query.Admit(ctx, s, c, query)
	if err != nil {
		return began.Fail(s, query, err)
	}
	defer done()
	if err := cmp.Or(xa.Admit(s, query), locked.Admit(ctx, s, query, h.g.Catalog.Loaded())); err != nil {
		return began.Fail(s, query, err)
	}
	s.RefreshRoles(h.g.engine.Analyzer.Catalog.MySQLDb)
	s.BeginPatience(start)
	h.g.audit.Begin(s)
	err = h.tries(ctx, s, start, exec)
	if s.EndTries(); err != nil {
		s.GetLastQueryInfo().RowCount.Store(-1)
	}
	kind := bound.Kind(query)
	h.g.audit.Statement(s, kind, query, err)
	cost := began.Cost(s, kind)
	if !strings.HasPrefix(kind, "show") && !statements.AsksForCost(query) {
		s.NoteCost(cost)
	}
	if c, ok := s.Charge(); ok && h.g.onTxn != nil {
		h.g.onTxn(c)
	}
	if h.g.onStmt != nil && !s.Remote {
		h.g.onStmt(kind, cost.Elapsed, cost.Hops, err)
	}
	return began.End(s, query, &cost, h.g.wording(s, err))
}

// tries executes a statement until it does not lose a conflict any more, or must not be tried
// again.
func (h *handler) tries(ctx context.Context, s *session.Session, start time.Time,
	exec func(s *session.Session, sent *bool) error) error {
	wait := retryFirst
	for again := false; ; again = true {
		sent := false
		s.BeginTry(again)
		s.State.Again()
		explicit, t := s.GetIgnoreAutoCommit(), s.Txn()
		first := t == nil || t.Untouched()
		err := h.guarded(func() error { return exec(s, &sent) })
		if err == nil && !s.State.GivenUp() {
			s.EndDefinitions()
			return nil
		}
		lost := s.Lost()
		if err == nil { // nothing but its transaction knows how to take back what it has written
			err, lost = kill.ErrInterrupted, lost || s.Stmt.Writes
		}
		s.Failed()
		h.cleanUp(s, lost)
		if !lost || !first || sent || s.Asked() || time.Since(start) >= s.TriesFor() || s.Patience().Over() || ctx.Err() != nil {
			return err
		}
		if explicit && t != nil {
			s.SetTransaction(t.Again())
			s.SetIgnoreAutoCommit(true)
		}
		h.g.Log.Debug("statement is tried again", "err", err, "elapsed", time.Since(start))
		if err := s.State.Wait(ctx, wait); err != nil {
			return err
		}
		wait = min(2*wait, retryMax)
	}
}

// guarded makes a panic of a statement its error: the protocol library would end the connection.
func (h *handler) guarded(exec func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			stack := debug.Stack()
			h.g.Log.Error("statement panicked", "panic", r, "stack", string(stack))
			err = rules.PanicError(r, stack)
		}
	}()
	return exec()
}

// cleanUp ends the transaction of a failed statement where it must not go on: lost ones, those of
// autocommit statements, and those of schema changes, which have committed what was before them.
func (h *handler) cleanUp(s *session.Session, lost bool) {
	s.UndoDefinitions()
	t := s.Txn()
	if t == nil {
		if lost {
			s.SetIgnoreAutoCommit(false)
		}
		return
	}
	if lost || t.Over || t.Defines() || !s.GetIgnoreAutoCommit() && s.Autocommit() {
		t.Rollback()
		s.SetTransaction(nil)
		s.SetIgnoreAutoCommit(false)
	}
}

// wording gives errors the numbers of MySQL, and duplicate keys its text, which clients parse.
func (g *gateway) wording(s *session.Session, err error) error {
	if err == nil {
		return nil
	}
	var me *mysql.SQLError
	if err = bound.Interrupted(err); !errors.As(err, &me) {
		me = sql.CastSQLError(err)
	}
	if told, said := rules.Unstacked(me); said != "" {
		g.Log.Error("statement panicked", "panic", said)
		return told
	}
	if me.Num == schema.ErrDupEntry && s.Stmt.Duplicate != "" {
		return mysql.NewSQLError(schema.ErrDupEntry, "23000", "%s", s.Stmt.Duplicate)
	}
	var refusal *mysql.SQLError
	if me.Message == s.Stmt.RefusalOf && errors.As(s.Stmt.Refusal, &refusal) {
		return refusal
	}
	me = rules.OfSet(schema.Numbered(me), s.Stmt.Tree)
	if n, ok := s.Stmt.Tree.(*sqlparser.Show); ok && me.Num == 1044 && !n.Table.IsEmpty() {
		client := s.Client()
		return mysql.NewSQLError(1142, "42000", "SELECT command denied to user '%s'@'%s' for table '%s'", client.User,
			client.Address, n.Table.Name.String())
	}
	return me
}
