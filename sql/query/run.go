package query

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/access"
	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/exec/tempfile"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/given"
	"github.com/godwitdb/godwit/sql/oneshot"
	"github.com/godwitdb/godwit/sql/opt"
	"github.com/godwitdb/godwit/sql/prefetch"
	"github.com/godwitdb/godwit/sql/program"
	"github.com/godwitdb/godwit/sql/result"
	"github.com/godwitdb/godwit/sql/returning"
	"github.com/godwitdb/godwit/sql/rights"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
	"github.com/godwitdb/godwit/sql/tally"
	"github.com/godwitdb/godwit/sql/token"
)

// Runner runs SELECTs, and statements that change rows, past the engine. There is one for each
// gateway.
type Runner struct {
	Engine *sqle.Engine
	// Sessions makes the contexts of statements. It is set before the first statement.
	Sessions *server.SessionManager
	// Inner has the engine run the statements of stored programs that only it knows.
	Inner sql.StatementRunner
	// Keys makes what UUID() answers in a change of a region; nil: random ones.
	Keys func(base.RegionID) (string, error)
	// Prefetch has what triggers ask for read ahead; nil: nobody does.
	Prefetch *prefetch.Planner
	// Off leaves all statements to the engine.
	Off bool
	// Options steer the planner, for tests.
	Options   opt.Options
	Fallbacks tally.Tally
	// Whole runs CALLs as programs of kv, where they qualify.
	Whole *oneshot.Runner
	// Where says where a statement that EXPLAIN is asked about runs, if not here; Meter begins to
	// measure a statement, and returns what gives the lines about it. nil: nobody says.
	Where func(ctx *sql.Context, s *session.Session) string
	Meter func(s *session.Session) func() []string

	// Limit is what all statements together may keep in memory, in bytes; 0 is 2 GiB.
	Limit int64
	// Turns are those of the node's statements; nil: none waits.
	Turns *admit.Pool

	mem *exec.Mem
	one sync.Once
	// programs are stored programs that were parsed.
	programs program.Cache
}

// What one statement may keep in memory at most, and all statements of a node unless Limit says
// otherwise. Operators that can write to files do so before.
const (
	statementMemory = 256 << 20
	nodeMemory      = 2 << 30
)

// Budget is the budget of a new statement: no more than a quarter of all.
func (r *Runner) Budget() *exec.Mem {
	all := r.Memory()
	return exec.NewMem(all, min(statementMemory, all.Limit()/4))
}

// SessionBudget is the budget of the temporary tables of a session: no more than a quarter of all.
func (r *Runner) SessionBudget() *exec.Mem {
	all := r.Memory()
	return exec.NewMem(all, all.Limit()/4)
}

// Turn begins a statement's place among those that compute. Who reads outside of a transaction can
// hold up nobody.
func (r *Runner) Turn(ctx *sql.Context, s *session.Session, text string) admit.Turn {
	class := admit.Reading
	if token.VerbOf(text) == token.Changing || s.Explicit(ctx) {
		class = admit.Locking
	}
	t := r.Turns.Turn(class)
	t.Slots = &s.Slots
	return t
}

// Memory is the budget of the node's statements.
func (r *Runner) Memory() *exec.Mem {
	r.one.Do(func() {
		limit := r.Limit
		if limit == 0 {
			limit = nodeMemory
		}
		r.mem = exec.NewMem(nil, limit)
	})
	return r.mem
}

// statement is one SELECT, or the query of a change.
type statement struct {
	r    *Runner
	s    *session.Session
	ctx  *sql.Context
	cat  *catalog
	env  *expr.Env
	out  []bind.Output
	plan *opt.Plan
	op   exec.Op
	// mem is what it may keep in memory, from the constants that the planner evaluates to the rows
	// that wait to be sent.
	mem *exec.Mem
	// turn is its place among the statements that compute.
	turn admit.Turn
	// client: it is one of a client, which gets the binder's errors.
	client bool
	// page is LIMIT of a statement that counts all rows; nil: it does not.
	page *result.Page
	// opened: all expressions have been compiled, and rows may have been read.
	opened bool
	// locks: it has FOR UPDATE or FOR SHARE.
	locks bool
	shown bool // EXPLAIN
	in    *inside
	calls calls
	tree  bind.Stmt // what is run, in place of a text; nil: there is a text
	uuid  bool      // a tree calls UUID()
}

// inside is where a statement of a stored program stands; nil is the statement of a client.
type inside struct {
	local func(row, name string) (expr.Node, error)
	parse func(text string) (bind.Stmt, error)
	frame *program.Frame
}

// Try runs a statement of a client if it can; done is false if the engine has to. p is nil for
// text.
func (r *Runner) Try(ctx context.Context, s *session.Session, c *mysql.Conn, text string, p *mysql.PrepareData,
	sent *bool, send func(*sqltypes.Result) error) (done bool, err error) {
	if r.Off {
		return false, nil
	}
	kind := token.VerbOf(text)
	if kind == token.Calling {
		return r.call(ctx, s, c, text, p, sent, send)
	}
	if kind == token.Doing && p == nil {
		return r.do(ctx, s, c, text, sent, send)
	}
	if kind == token.Setting {
		binds := map[string]*querypb.BindVariable{}
		if p != nil {
			binds = p.BindVars
		}
		return r.set(ctx, s, c, text, given.Params(binds), sent, send)
	}
	if kind == token.Other {
		if x := explainOf(text); x != nil && p == nil {
			return r.explain(ctx, s, c, text, x, sent, send)
		}
		return false, nil
	}
	sctx, err := r.Sessions.NewContextWithQuery(ctx, c, text)
	if err != nil {
		return false, nil
	}
	_ = s.CommandBegin()
	var binds map[string]*querypb.BindVariable
	if p != nil {
		binds = p.BindVars
	}
	sctx, err = r.Engine.ProcessList.BeginQuery(sctx, text)
	if err != nil {
		return true, err
	}
	defer r.Engine.ProcessList.EndQuery(sctx)
	params := given.Params(binds)
	if kind == token.Changing {
		res, done, err := r.change(sctx, s, nil, text, true, params, func(rows *returning.Rows, fields []*querypb.Field) error {
			*sent = true
			return rows.Send(fields, send)
		})
		if err != nil {
			return done, clientError(err)
		}
		if !done {
			return false, nil
		}
		if res.Returned {
			return true, nil
		}
		*sent = true
		return true, send(res.Result())
	}
	in, err := intoOf(sctx, text)
	if err != nil {
		return true, err
	}
	if in != nil {
		text = in.Text
	}
	st, err := r.prepare(sctx, s, text, params, (*statement).makeClients)
	if st == nil && err != nil {
		return true, clientError(err)
	}
	if st == nil {
		return false, nil
	}
	defer st.close()
	if in != nil {
		res, done, err := st.into(in)
		if err != nil {
			return done, clientError(err)
		}
		if !done {
			return false, nil
		}
		*sent = true
		return true, send(res)
	}
	out := &sender{st: st, send: func(res *sqltypes.Result) error {
		*sent = true
		return send(res)
	}}
	done, err = st.run(out.batch)
	if err != nil {
		return done, sql.CastSQLError(interrupted(err))
	}
	if !done {
		return false, nil
	}
	st.count(out.total)
	return true, out.flush()
}

// prepare makes a statement that can be run; nil if the engine has to run it, which is counted, or
// if it is wrong in a way that the engine does not see.
func (r *Runner) prepare(ctx *sql.Context, s *session.Session, text string,
	params func(sql.CollationID) ([]expr.Node, error),
	build func(*statement, string, []expr.Node) error) (*statement, error) {
	return r.prepareIn(ctx, s, nil, text, params, build)
}

// prepareIn does so for a statement of a stored program.
func (r *Runner) prepareIn(ctx *sql.Context, s *session.Session, in *inside, text string,
	params func(sql.CollationID) ([]expr.Node, error),
	build func(*statement, string, []expr.Node) error) (*statement, error) {
	st := &statement{r: r, s: s, ctx: ctx, mem: r.Budget().Less(s.Listed), turn: r.Turn(ctx, s, text), in: in}
	idle := s.Txn() == nil
	err := st.ready()
	var given []expr.Node
	if err == nil {
		given, err = params(ctx.GetCollation())
	}
	if err == nil {
		err = build(st, text, given)
	}
	if err == nil {
		return st, nil
	}
	st.close()
	err = r.told(ctx, text, err)
	if err != nil && idle && s.Txn() != nil && !s.Explicit(ctx) {
		s.SetTransaction(nil) // SET TRANSACTION ... AS OF was for this statement
	}
	return nil, err
}

// told is what the client is told of an error of the binder or planner; nil: the engine runs the
// statement, which is counted.
func (r *Runner) told(ctx *sql.Context, text string, err error) error {
	var refused *bind.Refusal
	if errors.As(err, &refused) {
		if refused.Kind != nil {
			return &codedError{Kind: refused.Kind, Me: refused.Err.(*mysql.SQLError)}
		}
		return refused.Err
	}
	var me *mysql.SQLError
	if errors.As(err, &me) && seen[me.Num] {
		return err
	}
	if r.skipsLocks(ctx, text) {
		return session.ErrSkipsLocks(reasonOf(err)) // the engine would wait
	}
	r.Fallbacks.Add(reasonOf(err))
	return nil
}

// skipsLocks reports whether a statement has NOWAIT or SKIP LOCKED anywhere. Most have neither
// word, and are not parsed again.
func (r *Runner) skipsLocks(ctx *sql.Context, text string) bool {
	if !base.ContainsFold(text, "NOWAIT") && !base.ContainsFold(text, "LOCKED") {
		return false
	}
	tree, err := r.parsed(ctx, text)
	return err == nil && bind.SkipsLocks(tree)
}

// seen are the errors that the engine does not see: of strings that have no collation in common, of
// columns beside aggregates, of aggregates out of place, of DEFAULT() of a column without one, and
// of sql_safe_updates.
var seen = map[int]bool{1267: true, 1270: true, 1271: true, 1140: true, 1111: true, errNoDefault: true, session.CodeUnsafe: true}

// ready refuses sessions in states that only the engine knows.
func (st *statement) ready() error {
	t := st.s.Txn()
	switch {
	case st.in == nil && (st.s.Nested() || st.s.Speculation != nil):
		return left("in a procedure")
	case t != nil && (t.Over || t.Schema != nil && st.s.Fill == nil):
		return left("transaction with changes of the schema")
	}
	if st.s.LeavesAll {
		return left(session.OwnEngineVar)
	}
	return nil
}

// begin parses the text, and makes what binding and running it need.
func (st *statement) begin(text string) (bind.Stmt, error) {
	parse := func(text string) (bind.Stmt, error) { return st.r.parsed(st.ctx, text) }
	if st.tree != nil {
		parse = func(string) (bind.Stmt, error) { return st.tree, nil }
	} else if st.in != nil {
		parse = st.in.parse
	}
	tree, err := parse(text)
	if err != nil {
		return nil, err
	}
	st.cat = &catalog{
		command: commandOf(text, st.in),
		ctx:     st.ctx, cat: st.r.Engine.Analyzer.Catalog, reads: access.New(st.ctx), tables: map[tableKey]*access.Table{},
		db: st.r.Engine.Analyzer.Catalog.MySQLDb, caller: st,
	}
	if st.env, err = given.Environment(st.ctx, st.r.held); err != nil {
		return nil, err
	}
	st.env.Mem, st.env.Ctx = st.mem, st.paced()
	st.cat.facts = func() *bind.Session { return given.Facts(st.ctx, st.env.Ctx, st.cat, nil) }
	return tree, nil
}

// commandOf is the first word of a statement of a program; empty of one of a client.
func commandOf(text string, in *inside) string {
	if in == nil {
		return ""
	}
	word, _, _ := strings.Cut(strings.ToUpper(strings.TrimSpace(text)), " ")
	return word
}

// make binds and plans.
func (st *statement) make(text string, params []expr.Node) (err error) {
	defer st.s.Trace.Span().Step("plan").Over(&err)
	tree, err := st.begin(text)
	if err == nil {
		return st.makeTree(tree, params)
	}
	return err
}

// makeTree binds and plans a syntax tree.
func (st *statement) makeTree(tree bind.Stmt, params []expr.Node) error {
	q, err := bind.Bind(tree, st.facts(params))
	if err != nil {
		return err
	}
	if st.locks = q.Lock != algebra.NoLock; st.locks {
		st.turn.Locks()
	}
	if err := st.allowed(q.Uses); err != nil {
		return err
	}
	if err := st.mayLock(q.Updates); err != nil {
		return err
	}
	if (st.locks || st.s.Explicit(st.ctx)) && st.cat.ordered() {
		return left("ordering by timestamps")
	}
	st.uuid = st.tree != nil && algebra.Calls(q.Rel, "uuid")
	result.ShowTimestamps(q)
	st.out, st.page = q.Out, result.PageOf(q)
	options := st.r.Options
	options.Locking = st.locks || st.s.Explicit(st.ctx)
	return st.plans(q, options)
}

// facts are what the text hangs on.
func (st *statement) facts(params []expr.Node) *bind.Session {
	f := given.Facts(st.ctx, st.env.Ctx, st.cat, params)
	if usual, _ := sql.HasDefaultValue(st.ctx, st.s, "sql_select_limit"); !usual {
		if v, err := st.ctx.GetSessionVariable(st.ctx, "sql_select_limit"); err == nil {
			n, _ := schema.ToUint64(v)
			if i, ok := schema.ToInt64(v); ok {
				n = uint64(i)
			}
			f.Limit = expr.UintConst(n)
		}
	}
	if st.in != nil {
		f.Local = st.in.local
	}
	if st.client {
		f.MayRead = func(uses []bind.Use) bool { return st.allowed(uses) == nil }
	}
	return f
}

// makeClients binds and plans a statement of a client.
func (st *statement) makeClients(text string, params []expr.Node) error {
	st.client = true
	return st.make(text, params)
}

// makeShown binds and plans what EXPLAIN shows: it tells of the tables behind a view.
func (st *statement) makeShown(text string, params []expr.Node) error {
	st.shown = true
	return st.make(text, params)
}

// plans makes the operators of a query.
func (st *statement) plans(q *bind.Query, options opt.Options) (err error) {
	if st.plan, err = opt.Optimize(q, st.env, options); err == nil {
		st.op, err = opt.Build(st.plan)
	}
	return err
}

// allowed checks that the user may read all tables and views, also those behind views. If not, the
// engine decides, and words the error.
func (st *statement) allowed(uses []bind.Use) error {
	db := st.r.Engine.Analyzer.Catalog.MySQLDb
	if c := st.ctx.Client(); len(uses) == 0 && db.Enabled() {
		r := db.Reader()
		defer r.Close()
		if db.GetUser(r, c.User, c.Address, false) == nil {
			return left("privileges")
		}
	}
	mine := st.rights()
	var definers map[[2]string]rights.Set
	for _, u := range uses {
		if u.As == ([2]string{}) {
			if mine.System(u.DB) {
				continue
			}
			if !mine.SomeColumn(u.DB, u.Name, sql.PrivilegeType_Select) {
				if st.in != nil {
					return &bind.Refusal{Err: rights.Refusal(st.ctx, "SELECT", u.Name)}
				}
				return left("privileges")
			}
			if err := mine.Reads(st.ctx, u.DB, u.Name, u.Columns.Names, u.Columns.Star); err != nil {
				return &bind.Refusal{Err: err}
			}
			continue
		}
		if st.shown && !mine.Table(u.DB, u.Name, sql.PrivilegeType_Select) {
			return &bind.Refusal{Err: mysql.NewSQLError(1345, "HY000",
				"EXPLAIN/SHOW can not be issued; lacking privileges for underlying table")}
		}
		set, ok := definers[u.As]
		if !ok {
			var err error
			if set, err = rights.OfAccount(db, u.As[0], u.As[1]); err != nil {
				return &bind.Refusal{Err: err}
			}
			if definers == nil {
				definers = map[[2]string]rights.Set{}
			}
			definers[u.As] = set
		}
		if !set.System(u.DB) && (!set.SomeColumn(u.DB, u.Name, sql.PrivilegeType_Select) ||
			set.Reads(st.ctx, u.DB, u.Name, u.Columns.Names, nil) != nil) {
			return &bind.Refusal{Err: mysql.NewSQLError(1356, "HY000", "View '%s' references invalid table(s) or column(s) or "+
				"function(s) or definer/invoker of view lack rights to use them", u.Through[0])}
		}
	}
	return nil
}

// run executes the plan in the session's transaction, and commits it if it is the statement's own.
// done is false if nothing was done, because an expression cannot be evaluated here.
func (st *statement) run(take func(*expr.Batch) error) (done bool, err error) {
	s := st.s
	s.Stmt.Planned, s.Stmt.Writes, s.Stmt.Locks = true, st.calls.writes, st.locks
	t := s.Txn()
	if t == nil {
		t = session.NewTxn(s)
		s.SetTransaction(t)
	}
	sql.IncrementStatusVariable(st.ctx, "Questions", 1)
	st.clearWarnings()
	explicit := s.Explicit(st.ctx)
	undo, err := st.beginCalls(t)
	if err != nil {
		return true, err
	}
	defer func() { undo(err) }()
	if st.page != nil {
		take = st.page.Of(take)
	}
	err = st.drain(take)
	if reason, ok := st.refused(err); ok {
		if !explicit {
			t.Rollback()
			s.SetTransaction(nil)
		}
		st.r.Fallbacks.Add(reason)
		return false, nil
	}
	if err == nil && !explicit {
		err = t.Commit(st.ctx)
		s.SetTransaction(nil)
	}
	return true, err
}

// refused reports whether a plan could not be opened, before it read anything, because an
// expression of it cannot be evaluated here.
func (st *statement) refused(err error) (reason string, ok bool) {
	if err == nil || st.opened {
		return "", false
	}
	if strings.HasPrefix(err.Error(), "expr: ") || strings.HasPrefix(err.Error(), "exec: ") {
		return "expression", true
	}
	var me *mysql.SQLError
	return reasonOf(err), errors.As(err, &me) && me.Num == 1235
}

// drain runs the plan to its end.
func (st *statement) drain(take func(*expr.Batch) error) error {
	ec := st.paced()
	ec.Mem, ec.Env, ec.Work, ec.Workers = st.mem, st.env, &st.s.Work, st.s.Workers()
	defer st.op.Close()
	if err := st.op.Open(ec); err != nil {
		return err
	}
	st.opened = true
	for {
		if err := ec.Err(); err != nil {
			return cmp.Or(context.Cause(st.ctx), err)
		}
		b, err := st.op.Next()
		if err != nil || b == nil {
			return err
		}
		if len(b.Sel) == 0 {
			continue
		}
		if err := take(b); err != nil {
			return err
		}
	}
}

// paced is the statement's context. Who asks it whether the statement goes on waits for its turn.
func (st *statement) paced() *exec.Ctx { return &exec.Ctx{Context: st.ctx, Turn: &st.turn} }

func (st *statement) close() {
	st.calls.close()
	st.turn.End()
	if st.cat != nil {
		st.cat.close()
	}
	st.s.Work.Kept(st.mem.Done())
}

// count keeps what the session tells about its last statement.
func (st *statement) count(rows int) {
	info := st.ctx.GetLastQueryInfo()
	sql.IncrementStatusVariable(st.ctx, "Com_select", 1)
	if st.page != nil {
		rows = int(st.page.All)
	}
	info.FoundRows.Store(int64(rows))
	info.RowCount.Store(-1)
}

// TemporaryFiles is how many files of this process wait to be closed, most how many may.
func (*Runner) TemporaryFiles() (n, most int) { return tempfile.Waiting() }

// encoder makes the encoder of the result.
func (st *statement) encoder() *result.Encoder {
	e := &result.Encoder{Ctx: st.ctx}
	cols := st.op.Cols()
	at := make(map[expr.ColID]int, len(cols)) // there may be hundreds of thousands
	for i, id := range slices.Backward(cols) {
		at[id] = i + 1
	}
	for _, c := range st.out {
		e.At = append(e.At, at[c.ID]-1)
		e.Types = append(e.Types, c.Type)
		e.Wire = append(e.Wire, c.Type.ClientType().Type())
	}
	return e
}

// How many rows, and bytes of strings, are kept back until the statement is known to succeed, and
// how many bytes are encoded at once.
const (
	held        = 4096
	heldBytes   = 4 << 20
	encodeBytes = 1 << 20
)

// sender sends rows. The first ones wait: as long as nothing was sent, the statement may lose a
// conflict and be tried again.
type sender struct {
	st     *statement
	send   func(*sqltypes.Result) error
	enc    *result.Encoder
	fields []*querypb.Field
	rows   [][]sqltypes.Value
	bytes  int64 // of the strings in rows
	total  int
	begun  bool
}

func (o *sender) batch(b *expr.Batch) error {
	if o.enc == nil {
		o.enc = o.st.encoder()
	}
	whole := b.Sel
	defer func() { b.Sel = whole }()
	for rest := whole; len(rest) > 0; {
		n, size := result.Portion(b, rest, encodeBytes)
		b.Sel, rest = rest[:n], rest[n:]
		rows, err := o.enc.Rows(b)
		if err != nil {
			return err
		}
		if err := o.st.mem.Grow(size); err != nil {
			return err
		}
		o.total += len(rows)
		o.rows, o.bytes = append(o.rows, rows...), o.bytes+size
		if len(o.rows) >= held || o.bytes >= heldBytes {
			if err := o.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// flush sends what is kept back; the first time with the description of the columns, also without
// rows.
func (o *sender) flush() error {
	if o.begun && len(o.rows) == 0 {
		return nil
	}
	if o.fields == nil {
		o.fields = o.st.describe()
	}
	o.begun = true
	res := &sqltypes.Result{Fields: o.fields, Rows: o.rows, RowsAffected: uint64(len(o.rows))}
	o.rows = nil
	err := o.send(res)
	o.st.mem.Shrink(o.bytes)
	o.bytes = 0
	return err
}

// stored is the table of a name that the statement uses; nil if it is none.
func (c *catalog) stored(db, name string) *table.Table {
	if c == nil || name == "" {
		return nil
	}
	if t := c.tables[tableKey{db: strings.ToLower(db), name: strings.ToLower(name)}]; t != nil {
		return t.Stored()
	}
	return nil
}
