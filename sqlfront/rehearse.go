package sqlfront

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// What the triggers of a statement read depends on their code. So it is rehearsed: the statement is planned a
// second time, from its syntax tree and for a session of its own, and run for the rows read ahead, over a view of the transaction that knows only what is at hand. A row
// that asks for more ends there; what such rows have asked for is fetched together, and they are rehearsed again, until
// nothing is missing. Then all writes of the rehearsal are rolled back, and the statement runs as ever.
//
// Only what a row asks for first is noted, since that is what the statement will ask for, too. What comes behind it is
// seen in the next round, with the answer known: nothing is locked on a guess, except by rows that see what rows before them
// have not been able to write yet. A statement that pays no trips for its rows is not rehearsed.

// maxRounds bounds how often the rows are rehearsed, and so how many lookups of a trigger may depend on each other.
const maxRounds = 12

// maxSteps bounds how many nodes a rehearsal executes in all its rounds: a loop whose end is not seen must not go on for ever.
const maxSteps = 500_000

// rehearsalPlan is what it takes to rehearse a statement.
type rehearsalPlan struct {
	b     *builder
	stmt  sqlparser.Statement
	binds map[string]*querypb.BindVariable
	kind  reflect.Type // of the change
	table base.TableID
	sch   sql.Schema // of the rows
}

// rehearsal is one in progress.
type rehearsal struct {
	s    *Session // whose statement it is
	own  *Session
	ctx  *sql.Context
	kv   *rehearsedTxn
	tx   *Txn
	plan sql.Node
	from sql.Node // where the rows come in
	row  sql.Row
	left int // steps
	vars map[string]userVar
	auto map[counterID]int // values used of those reserved
}

type userVar struct {
	typ sql.Type
	val any
}

// runner runs the statements of stored procedures, which come as syntax trees.
type runner struct{ *sqle.Engine }

// QueryWithBindings implements sql.StatementRunner.
func (r runner) QueryWithBindings(ctx *sql.Context, query string, parsed sqlparser.Statement, bindings map[string]sqlparser.Expr, flags *sql.QueryFlags) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	if s := sessionOf(ctx); s != nil && parsed != nil {
		s.stmt, s.binds = parsed, nil
	}
	return r.Engine.QueryWithBindings(ctx, query, parsed, bindings, flags)
}

// changeOf is the change that a plan is about, and the bodies of the triggers that come after it.
func changeOf(n sql.Node) (change sql.Node, after []sql.Node) {
	for n != nil {
		switch t := n.(type) {
		case *plan.InsertInto, *plan.Update, *plan.DeleteFrom:
			return n, after
		case *plan.TriggerExecutor:
			after = append(after, t.Right())
			n = t.Left()
		default:
			c := n.Children()
			if len(c) != 1 {
				return nil, nil
			}
			n = c[0]
		}
	}
	return nil, nil
}

// rowsOf is where a change has its rows from.
func rowsOf(change sql.Node) (r changeRows) {
	switch n := change.(type) {
	case *plan.InsertInto:
		if n.Source != nil {
			r = sourceOf(n.Source)
		}
	case *plan.DeleteFrom:
		r = sourceOf(n.Child)
	case *plan.Update:
		r = sourceOf(n.Child)
	}
	return r
}

// planRehearsal has the rows of a statement with triggers read ahead if it can be rehearsed.
func (b *builder) planRehearsal(ctx *sql.Context, s *Session, n sql.Node) {
	if s.change != n || s.rehearsal != nil || s.stmt == nil || b.g.noAhead || len(b.g.db.Topology().Regions) == 1 {
		return
	}
	from := rowsOf(n)
	if len(from.before)+len(s.after) == 0 || from.node == nil || s.ahead != nil && s.ahead.node != from.node {
		return
	}
	if steady, known := from.steady(ctx, s, n); !steady || !known {
		return
	}
	p := &rehearsalPlan{b: b, stmt: s.stmt, binds: s.binds, kind: reflect.TypeOf(n), sch: from.node.Schema(ctx)}
	if t := targetOf(n); t != nil {
		p.table = t.t.desc.ID
	}
	if s.ahead == nil {
		s.ahead = &aheadPlan{node: from.node}
	}
	s.ahead.rehearsal = p
}

func targetOf(n sql.Node) *sqlTable {
	var t sql.Table
	switch n := n.(type) {
	case *plan.InsertInto:
		if d, err := plan.GetInsertable(n.Destination); err == nil {
			t = d
		}
	case *plan.Update:
		if d, err := plan.GetUpdatable(n.Child); err == nil {
			t = d
		}
	case *plan.DeleteFrom:
		if d, err := plan.GetDeletable(n.Child); err == nil {
			t = d
		}
	}
	if t == nil {
		return nil
	}
	return tableOf(t)
}

// rehearse fetches what the triggers of rows will ask for.
func (s *Session) rehearse(ctx *sql.Context, p *rehearsalPlan, rows []sql.Row) error {
	tx := s.txn()
	if tx == nil {
		return nil
	}
	if _, err := tx.begun(ctx); err != nil {
		return err
	}
	r, err := newRehearsal(ctx, s, tx)
	if err != nil || !r.analyze(p) {
		return nil // without one, then
	}
	mark := tx.save()
	defer r.tx.endPast()
	for range maxRounds {
		r.begin(tx)
		for i, row := range rows {
			if err := ctx.Err(); err != nil {
				tx.kv.RollbackTo(mark)
				return err
			}
			if err := r.run(p.b, row); err != nil && !r.kv.missed {
				rows = rows[:i+1] // the statement is going to fail here
				break
			}
		}
		tx.kv.RollbackTo(mark)
		done := true
		for _, lock := range []kv.LockMode{kv.LockExclusive, kv.LockShared} {
			w := r.kv.want[lock]
			if len(w.keys)+len(w.spans) == 0 {
				continue
			}
			done = false
			if ok, err := tx.kv.Ahead(s.kvctx(ctx), w.keys, w.spans, lock); err != nil {
				return tx.fail(err)
			} else if !ok {
				return nil // too much
			}
		}
		if done || r.left < 0 {
			break
		}
	}
	return nil
}

func newRehearsal(ctx *sql.Context, s *Session, tx *Txn) (*rehearsal, error) {
	r := &rehearsal{s: s, kv: &rehearsedTxn{Txn: tx.kv}, left: maxSteps}
	snap, err := s.snapshot(ctx)
	if err != nil {
		return nil, err
	}
	r.kv.small = func(id base.TableID) bool {
		t := snap.byID[id]
		return t != nil && s.g.stats.rows(t) <= smallTable
	}
	o := newSession(sql.NewBaseSessionWithClientServer(s.Address(), s.Client(), s.ID()), s.g)
	r.own, o.trace = o, s.trace
	r.ctx = ctx.WithContext(ctx.Context)
	r.ctx.Session, r.ctx.ProcessList = o, sql.EmptyProcessList{}
	mine := o.GetAllSessionVariables()
	for name, v := range s.GetAllSessionVariables() {
		if m, ok := mine[name]; !ok || fmt.Sprint(m) != fmt.Sprint(v) {
			if err := o.BaseSession.InitSessionVariable(r.ctx, name, v); err != nil && !sql.ErrSystemVariableReadOnly.Is(err) {
				return nil, err
			}
		}
	}
	o.SetCurrentDatabase(s.GetCurrentDatabase())
	o.SetTransactionDatabase(s.GetTransactionDatabase())
	o.SetIgnoreAutoCommit(s.GetIgnoreAutoCommit())
	o.SetIndexRegistry(s.GetIndexRegistry())
	o.SetViewRegistry(s.GetViewRegistry())
	o.SetPrivilegeSet(s.GetPrivilegeSet())
	o.remoteState, o.staleState, o.prepared = s.remoteState, s.staleState, s.prepared
	o.snap, o.triggered, o.astLock, o.level, o.strict, o.fresh = s.snap, s.triggered, s.astLock, s.level, s.strict, s.fresh
	o.rehearsal = r
	r.tx = &Txn{s: o, kv: r.kv}
	o.BaseSession.SetTransaction(r.tx)
	return r, nil
}

// analyze plans the statement anew: nothing of a plan is shared with the one that runs.
func (r *rehearsal) analyze(p *rehearsalPlan) bool {
	binds := make(map[string]sqlparser.Expr, len(p.binds))
	for name, v := range p.binds {
		val, err := sqltypes.BindVariableToValue(v)
		if err != nil {
			return false
		}
		if binds[name], err = sqlparser.ExprFromValue(val); err != nil {
			return false
		}
	}
	n, err := p.b.g.engine.BoundQueryPlan(r.ctx, r.ctx.Query(), p.stmt, binds)
	if err != nil {
		return false
	}
	change, _ := changeOf(n)
	if reflect.TypeOf(change) != p.kind {
		return false
	}
	if t := targetOf(change); t != nil && t.t.desc.ID != p.table {
		return false
	}
	r.from = rowsOf(change).node
	r.plan = n
	return r.from != nil && slices.EqualFunc(r.from.Schema(r.ctx), p.sch, func(a, b *sql.Column) bool {
		return strings.EqualFold(a.Name, b.Name) && strings.EqualFold(a.Source, b.Source)
	})
}

// begin starts a round with the state that the statement is in.
func (r *rehearsal) begin(tx *Txn) {
	t := r.tx
	t.level, t.strict, t.snap, t.made, t.top = tx.level, tx.strict, tx.snap, tx.made, tx.top
	t.homes, t.advice, t.located = maps.Clone(tx.homes), maps.Clone(tx.advice), maps.Clone(tx.located)
	t.hidden = make(map[string][]rowRef, len(tx.hidden))
	for k, refs := range tx.hidden {
		t.hidden[k] = slices.Clone(refs)
	}
	r.kv.want, r.kv.seen = [kv.LockExclusive + 1]wanted{}, map[string]bool{}
	r.vars, r.auto = map[string]userVar{}, map[counterID]int{}
	r.own.GetLastQueryInfo().LastInsertId.Store(r.s.GetLastQueryInfo().LastInsertId.Load())
}

// run rehearses a row.
func (r *rehearsal) run(b *builder, row sql.Row) error {
	t := r.tx
	t.over, t.discarded, t.editors, r.own.keeps = false, false, nil, 0
	r.own.built, r.own.writes, r.own.ahead, r.own.outer = false, true, nil, nil
	r.own.BaseSession.SetTransaction(t)
	r.kv.missed, r.row = false, row.Copy()
	mark := t.save()
	it, err := b.base.ExecBuilder.Build(r.ctx, r.plan, nil)
	if err == nil {
		for err == nil || errors.As(err, new(sql.IgnorableError)) {
			_, err = it.Next(r.ctx)
		}
		if cerr := it.Close(r.ctx); err == io.EOF {
			err = cerr
		}
	}
	if err != nil || r.kv.missed {
		t.editors, t.over = nil, false
		t.rollTo(mark)
	}
	return err
}

// step counts a node that is executed.
func (r *rehearsal) step() error {
	if r.left--; r.left < 0 {
		r.kv.missed = true
		return errMissed
	}
	return nil
}

// Next implements sql.RowIter: the row that is being rehearsed.
func (r *rehearsal) Next(*sql.Context) (sql.Row, error) {
	row := r.row
	if r.row = nil; row == nil {
		return nil, io.EOF
	}
	return row, nil
}

// Close implements sql.RowIter.
func (r *rehearsal) Close(*sql.Context) error { return nil }

// GetUserVariable implements sql.Session.
func (s *Session) GetUserVariable(ctx *sql.Context, name string) (sql.Type, any, error) {
	if r := s.rehearsal; r != nil {
		if v, ok := r.vars[strings.ToLower(name)]; ok {
			return v.typ, v.val, nil
		}
		return r.s.BaseSession.GetUserVariable(ctx, name)
	}
	return s.BaseSession.GetUserVariable(ctx, name)
}

// SetUserVariable implements sql.Session.
func (s *Session) SetUserVariable(ctx *sql.Context, name string, v any, typ sql.Type) error {
	if r := s.rehearsal; r != nil {
		r.vars[strings.ToLower(name)] = userVar{typ, v}
		return nil
	}
	return s.BaseSession.SetUserVariable(ctx, name, v, typ)
}
