package prefetch

import (
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// What the triggers of a statement read depends on their code, so they are executed speculatively.
// The statement is planned a second time, from its syntax tree and for a session of its own, and
// run for the rows read ahead, over a view of the transaction that knows only what is at hand. A
// row that asks for more ends there. What such rows have asked for is fetched together, and they
// are executed again, until nothing is missing. Then all writes of the speculative execution are
// rolled back, and the statement runs as ever.
//
// Only what a row asks for first is noted, because the statement will ask for that, too. What comes
// behind it is seen in the next round, with the answer known. So nothing is locked on a guess,
// except by rows that see what rows before them have not been able to write yet. A statement whose
// rows cost no trips is not executed speculatively.

// maxRounds bounds how often the rows are executed speculatively, and so how many look-ups of a
// trigger may depend on each other.
const maxRounds = 12

// maxSteps bounds how many nodes a speculative execution runs in all its rounds: a loop whose end
// is not seen must not go on for ever.
const maxSteps = 500_000

// speculationPlan is what it takes to execute a statement speculatively.
type speculationPlan struct {
	pl    *Planner
	stmt  sqlparser.Statement
	binds map[string]*querypb.BindVariable
	kind  reflect.Type // of the change
	table base.TableID
	sch   sql.Schema // of the rows
}

// speculation is a speculative execution under way. It implements session.Speculation, and yields
// the row at hand in the place of the rows of the plan.
type speculation struct {
	s    *session.Session // whose statement it is
	own  *session.Session
	ctx  *sql.Context
	kv   *speculativeTxn
	tx   *session.Txn
	plan sql.Node
	from sql.Node // where the rows come in
	row  sql.Row
	left int // steps
	vars map[string]userVar
	auto map[schema.CounterID]int // values used of those reserved
}

type userVar struct {
	typ sql.Type
	val any
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

// planSpeculation has the rows of a statement with triggers read ahead if it can be executed
// speculatively.
func (pl *Planner) planSpeculation(ctx *sql.Context, s *session.Session, n sql.Node) {
	if aheadOf(s).change != n || s.Speculation != nil || s.HasTemporary() || s.Stmt.Tree == nil || pl.Off || len(pl.env.DB.Topology().Regions) == 1 {
		return
	}
	from := rowsOf(n)
	if len(from.before)+len(aheadOf(s).after) == 0 || from.node == nil || aheadOf(s).ahead != nil &&
		aheadOf(s).ahead.node != from.node {
		return
	}
	if steady, known := from.steady(ctx, s, n); !steady || !known {
		return
	}
	p := &speculationPlan{pl: pl, stmt: s.Stmt.Tree, binds: s.Stmt.Binds, kind: reflect.TypeOf(n), sch: from.node.Schema(ctx)}
	if t := targetOf(n); t != nil {
		p.table = t.Def.Desc.ID
	}
	if aheadOf(s).ahead == nil {
		aheadOf(s).ahead = &readPlan{node: from.node}
	}
	aheadOf(s).ahead.speculation = p
}

func targetOf(n sql.Node) *table.Table {
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
	return table.Of(t)
}

// speculate fetches what the triggers of rows will ask for.
func speculate(ctx *sql.Context, s *session.Session, p *speculationPlan, rows []sql.Row) error {
	tx := s.Txn()
	if tx == nil {
		return nil
	}
	if _, err := tx.Begin(ctx); err != nil {
		return err
	}
	r, err := newSpeculation(ctx, p.pl.env, s, tx)
	if err != nil || !r.analyze(p) {
		return nil // without one, then
	}
	mark := tx.Mark()
	defer r.tx.EndPast()
	for range maxRounds {
		r.begin(tx)
		rows, err = r.round(ctx, p.pl, rows)
		tx.KV.RollbackTo(mark)
		if err != nil {
			return err
		}
		if done, err := r.fetch(ctx, tx); done || err != nil {
			return err
		}
		if r.left < 0 {
			break
		}
	}
	return nil
}

// round executes all rows once. It returns those that the next round is about: the statement is
// going to fail at the last one of them if they are fewer.
func (r *speculation) round(ctx *sql.Context, pl *Planner, rows []sql.Row) ([]sql.Row, error) {
	for i, row := range rows {
		if err := ctx.Err(); err != nil {
			return rows, err
		}
		if err := r.run(pl, row); err != nil && !r.kv.missed {
			return rows[:i+1], nil
		}
	}
	return rows, nil
}

// fetch reads what a round has asked for; done says that nothing was missing, or that it is too
// much.
func (r *speculation) fetch(ctx *sql.Context, tx *session.Txn) (done bool, err error) {
	done = true
	for _, lock := range []kv.LockMode{kv.LockExclusive, kv.LockShared} {
		w := r.kv.want[lock]
		if len(w.keys)+len(w.spans) == 0 {
			continue
		}
		done = false
		if ok, err := tx.KV.Ahead(r.s.KVContext(ctx), w.keys, w.spans, lock); err != nil {
			return true, tx.Fail(err)
		} else if !ok {
			return true, nil
		}
	}
	return done, nil
}

func newSpeculation(ctx *sql.Context, env *table.Env, s *session.Session, tx *session.Txn) (*speculation, error) {
	r := &speculation{s: s, kv: &speculativeTxn{inner: tx.KV, seen: map[string]bool{}}, left: maxSteps}
	snap, err := s.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	r.kv.small = func(id base.TableID) bool {
		t := snap.ByID[id]
		return t != nil && env.Stats.Rows(t) <= smallTable
	}
	r.own, r.ctx, r.tx, err = s.Speculate(ctx, r, r.kv)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// analyze plans the statement anew: nothing of a plan is shared with the one that runs.
func (r *speculation) analyze(p *speculationPlan) bool {
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
	n, err := p.pl.Engine.BoundQueryPlan(r.ctx, r.ctx.Query(), p.stmt, binds)
	if err != nil {
		return false
	}
	change, _ := changeOf(n)
	if reflect.TypeOf(change) != p.kind {
		return false
	}
	if t := targetOf(change); t != nil && t.Def.Desc.ID != p.table {
		return false
	}
	r.from = rowsOf(change).node
	r.plan = n
	return r.from != nil && slices.EqualFunc(r.from.Schema(r.ctx), p.sch, func(a, b *sql.Column) bool {
		return strings.EqualFold(a.Name, b.Name) && strings.EqualFold(a.Source, b.Source)
	})
}

// begin starts a round with the state that the statement is in.
func (r *speculation) begin(tx *session.Txn) {
	r.tx.Resume(tx)
	r.kv.want, r.kv.seen = [kv.LockExclusive + 1]wanted{}, map[string]bool{}
	r.vars, r.auto = map[string]userVar{}, map[schema.CounterID]int{}
	r.own.GetLastQueryInfo().LastInsertId.Store(r.s.GetLastQueryInfo().LastInsertId.Load())
}

// run executes a row speculatively.
func (r *speculation) run(pl *Planner, row sql.Row) error {
	t := r.tx
	r.own.BeginSpeculative(t)
	r.kv.missed, r.row = false, row.Copy()
	mark := t.Mark()
	it, err := pl.base.ExecBuilder.Build(r.ctx, r.plan, nil)
	if err == nil {
		for err == nil || errors.As(err, new(sql.IgnorableError)) {
			_, err = it.Next(r.ctx)
		}
		if cerr := it.Close(r.ctx); err == io.EOF {
			err = cerr
		}
	}
	if err != nil || r.kv.missed {
		t.Undo(mark)
	}
	return err
}

// step counts a node that is executed.
func (r *speculation) step() error {
	if r.left--; r.left < 0 {
		r.kv.missed = true
		return errMissed
	}
	return nil
}

// Next implements sql.RowIter: the row that is being executed.
func (r *speculation) Next(*sql.Context) (sql.Row, error) {
	row := r.row
	if r.row = nil; row == nil {
		return nil, io.EOF
	}
	return row, nil
}

// Session implements session.Speculation.
func (r *speculation) Session() *session.Session { return r.s }

// UserVariable implements session.Speculation.
func (r *speculation) UserVariable(name string) (sql.Type, any, bool) {
	v, ok := r.vars[strings.ToLower(name)]
	return v.typ, v.val, ok
}

// SetUserVariable implements session.Speculation.
func (r *speculation) SetUserVariable(name string, typ sql.Type, value any) {
	r.vars[strings.ToLower(name)] = userVar{typ, value}
}

// NextReserved implements session.Speculation.
func (r *speculation) NextReserved(id schema.CounterID) int {
	n := r.auto[id]
	r.auto[id]++
	return n
}

// Close implements sql.RowIter.
func (r *speculation) Close(*sql.Context) error { return nil }
