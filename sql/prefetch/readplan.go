package prefetch

import (
	"context"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/rules"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
	"github.com/godwitdb/godwit/sql/table"
)

// changeRows is where the rows of a change come from: what triggers do with them comes row by row.
type changeRows struct {
	node   sql.Node
	before []sql.Node // bodies of the triggers that see the rows first
	fk     *plan.ForeignKeyEditor
	join   *plan.UpdateJoin
}

// sourceOf finds the rows below a change.
func sourceOf(child sql.Node) (r changeRows) {
	for {
		switch n := child.(type) {
		case *plan.TriggerExecutor:
			r.before = append(r.before, n.Right())
			child = n.Left()
		case *plan.ForeignKeyHandler:
			r.fk, child = n.Editor, n.OriginalNode
		case *plan.UpdateJoin:
			// it counts the rows that match: the engine looks for it by its type
			r.join, child = n, n.Child
		default:
			r.node = n
			return r
		}
	}
}

// steady reports whether the rows may be read ahead of what triggers do with those before them;
// known, whether all is known that triggers may do. Of what a procedure does, only variables are
// feared: MySQL refuses to change tables that the statement reads.
func (r changeRows) steady(ctx *sql.Context, s *session.Session, change sql.Node) (steady, known bool) {
	bodies := r.before
	ins, _ := change.(*plan.InsertInto)
	if aheadOf(s).change == change {
		bodies = append(bodies, aheadOf(s).after...)
	}
	if len(bodies) == 0 && (ins == nil || !ins.HasAfterTrigger) {
		return true, false
	}
	known = aheadOf(s).change == change
	written := map[base.TableID]bool{}
	for _, body := range bodies {
		known = speculable(ctx, body, written) && known
	}
	return !dependsOn(ctx, r.node, written), known
}

func newInsertPlan(s *session.Session, n *plan.InsertInto, dest sql.InsertableTable) insertPlan {
	i := insertPlan{n: n, st: table.Of(dest), keys: s.Stmt.PerRow}
	if h, ok := dest.(*plan.ForeignKeyHandler); ok {
		i.fk = h.Editor
		// Looking for the parent of a row makes the editor send those before it.
		i.keys = i.keys || !s.Stmt.Blind && slices.ContainsFunc(i.fk.References, func(r *plan.ForeignKeyReferenceHandler) bool {
			return r.ForeignKey.IsSelfReferential()
		})
	}
	return i
}

// aheadInsert looks at the rows to insert: their own keys, if duplicates matter row by row, and
// those that they refer to.
func (pl *Planner) aheadInsert(ctx *sql.Context, s *session.Session, n *plan.InsertInto) {
	if pl.Off {
		return
	}
	dest, err := plan.GetInsertable(n.Destination)
	if err != nil || n.Source == nil {
		return
	}
	i := newInsertPlan(s, n, dest)
	if i.st == nil || i.st.Def.HomesOf != nil {
		return
	}
	from := sourceOf(n.Source)
	steady, _ := from.steady(ctx, s, n)
	aheadOf(s).stable = steady && stableSubqueries(ctx, n.Source, []*table.Table{i.st}, i.fk)
	if !steady || i.fk == nil && !i.keys && !i.st.Def.HasFulltext() {
		return
	}
	if n.OnDupExprs != nil && n.OnDupExprs.HasUpdates() && !i.onDuplicate(ctx, n.OnDupExprs.AllExpressions(), from.node) {
		return
	}
	aheadOf(s).ahead = &readPlan{node: from.node, blind: s.Stmt.Blind, predict: i.predict}
}

// insertPlan is an INSERT whose rows are read ahead.
type insertPlan struct {
	n    *plan.InsertInto
	st   *table.Table
	fk   *plan.ForeignKeyEditor // nil: no foreign keys
	keys bool                   // the rows' keys will be looked at
	// updates are those of ON DUPLICATE KEY UPDATE, if they can be evaluated ahead of time; side is
	// the context for that, which keeps warnings to itself.
	updates []sql.Expression
	side    *sql.Context
}

// onDuplicate takes the updates of ON DUPLICATE KEY UPDATE; false if a row may depend on what
// became of the one before it.
func (i *insertPlan) onDuplicate(ctx *sql.Context, updates []sql.Expression, source sql.Node) bool {
	if usesVariables(ctx, updates) && nodeUsesVariables(ctx, source) {
		return false
	}
	if plainExpressions(ctx, updates) {
		i.updates, i.side = updates, sql.NewEmptyContext()
	}
	return true
}

// predict says what becomes of a row to insert.
func (i *insertPlan) predict(ctx *sql.Context, row sql.Row) []rowTask {
	if len(row) < len(i.st.Def.Cols) {
		return nil
	}
	row = converted(i.st.Def, ctx.Context, row[len(row)-len(i.st.Def.Cols):], i.n.Ignore)
	t := rowTask{st: i.st, fk: i.fk, row: row, keys: i.keys}
	switch {
	case i.n.IsReplace && (i.fk != nil && len(i.fk.RefActions) > 0 || i.st.Def.HasFulltext()):
		t.exists = func(_ *prediction, old sql.Row) []rowTask { return []rowTask{{st: i.st, fk: i.fk, old: old}} }
	case i.updates != nil:
		t.exists = func(f *prediction, old sql.Row) []rowTask {
			next := onDuplicate(i.side, i.updates, f.latest(i.side, i.st.Def, old), row)
			if next == nil {
				return nil
			}
			f.becomes(i.side, i.st.Def, old, next)
			return []rowTask{{st: i.st, fk: i.fk, old: old, row: next, keys: true}}
		}
	}
	return []rowTask{t}
}

// converted is a row to insert as the engine will convert it to the types of the table.
func converted(t *schema.Table, ctx context.Context, row sql.Row, ignore bool) sql.Row {
	out := row.Copy()
	for i, c := range t.Cols {
		if out[i] == nil {
			if ignore && !c.Desc.Nullable {
				out[i] = c.Type.Zero()
			}
			continue
		}
		var v any
		var in sql.ConvertInRange
		var err error
		if r, ok := c.Type.(sql.RoundingNumberType); ok {
			v, in, err = r.ConvertRound(ctx, out[i])
		} else {
			v, in, err = c.Type.Convert(ctx, out[i])
		}
		if err == nil && in == sql.InRange {
			out[i] = v
		}
	}
	return out
}

// onDuplicate is what ON DUPLICATE KEY UPDATE will make of a row; nil if that cannot be said.
func onDuplicate(ctx *sql.Context, updates []sql.Expression, old, row sql.Row) sql.Row {
	acc := old.Append(row)
	for _, e := range updates {
		v, err := e.Eval(ctx, acc)
		if err != nil {
			return nil
		}
		var ok bool
		if acc, ok = v.(sql.Row); !ok || len(acc) < len(old) {
			return nil
		}
	}
	return acc[:len(old)]
}

// plainExpressions reports whether expressions can be evaluated twice without a difference.
func plainExpressions(ctx *sql.Context, exprs []sql.Expression) bool {
	plain := true
	for _, e := range exprs {
		sql.Inspect(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
			switch e.(type) {
			case nil, *expression.GetField, *expression.SetField, *expression.Literal, *expression.Arithmetic,
				*expression.UnaryMinus, *function.Values,
				*rules.Integers, *rules.Fits:
			default:
				plain = false
			}
			return plain
		})
	}
	return plain
}

func usesVariables(ctx *sql.Context, exprs []sql.Expression) bool {
	uses := false
	for _, e := range exprs {
		sql.Inspect(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
			_, v := e.(*expression.UserVar)
			uses = uses || v
			return !uses
		})
	}
	return uses
}

func nodeUsesVariables(ctx *sql.Context, n sql.Node) bool {
	uses := false
	inspectAll(ctx, n, func(sql.Node) {}, func(e sql.Expression) {
		_, v := e.(*expression.UserVar)
		uses = uses || v
	})
	return uses
}

// aheadDelete looks for the rows that refer to those to delete.
func (pl *Planner) aheadDelete(ctx *sql.Context, s *session.Session, n *plan.DeleteFrom) {
	if pl.Off {
		return
	}
	var parts []deletedPart
	sch := n.Child.Schema(ctx)
	for _, target := range n.GetDeleteTargets() {
		if p, ok := deletedPartOf(ctx, target, sch); ok {
			parts = append(parts, p)
		}
	}
	source := sourceOf(n.Child)
	steady, _ := source.steady(ctx, s, n)
	if len(parts) == 0 {
		aheadOf(s).stable = steady && stableSubqueries(ctx, n.Child, tablesIn(n.Child))
	}
	if len(parts) == 0 || !steady {
		return
	}
	aheadOf(s).ahead = &readPlan{node: source.node, predict: func(_ *sql.Context, row sql.Row) (out []rowTask) {
		if len(row) < len(sch) {
			return nil
		}
		row = row[len(row)-len(sch):]
		for _, p := range parts {
			t := p.task
			t.old = row[p.from:p.to]
			out = append(out, t)
		}
		return out
	}}
}

// deletedPart is where the rows of one target stand in the rows of a DELETE.
type deletedPart struct {
	task     rowTask
	from, to int
}

// deletedPartOf finds the columns of a target; ok is false if deleting its rows leads to nothing,
// or not all columns are there.
func deletedPartOf(ctx *sql.Context, target sql.Node, sch sql.Schema) (p deletedPart, ok bool) {
	t := &p.task
	if h, ok := target.(*plan.ForeignKeyHandler); ok {
		t.st, t.fk = table.Of(h.Table), h.Editor
	} else if d, err := plan.GetDeletable(target); err == nil {
		t.st = table.Of(d)
	}
	if t.st == nil || (t.fk == nil || len(t.fk.RefActions) == 0) && !t.st.Def.HasFulltext() {
		return p, false
	}
	name := t.st.Name()
	transform.InspectWithOpaque(ctx, target, func(_ *sql.Context, n sql.Node) bool {
		if a, ok := n.(*plan.TableAlias); ok {
			name = a.Name()
			return false
		}
		return true
	})
	p.from = -1
	for i, c := range sch {
		if strings.EqualFold(c.Source, name) {
			if p.from < 0 {
				p.from = i
			}
			p.to = i + 1
		}
	}
	return p, p.from >= 0 && p.to-p.from == len(t.st.Def.Cols)
}

// aheadUpdate looks at the rows to update: their new keys, those that they refer to, and those that
// refer to them.
func (pl *Planner) aheadUpdate(ctx *sql.Context, s *session.Session, n *plan.Update) {
	if pl.Off {
		return
	}
	from := sourceOf(n.Child)
	steady, _ := from.steady(ctx, s, n)
	if from.join != nil {
		if steady {
			pl.aheadUpdateJoin(ctx, s, from.join)
		}
		return
	}
	t := rowTask{fk: from.fk}
	dest, err := plan.GetUpdatable(n.Child)
	if err != nil {
		return
	}
	t.st, t.keys = table.Of(dest), true
	source, ok := from.node.(*plan.UpdateSource)
	aheadOf(s).stable = ok && steady && stableSubqueries(ctx, source, tablesIn(source), t.fk)
	if !ok || !steady || !t.leads(n.Ignore) || pl.dependent(ctx, source, t.fk) {
		return
	}
	aheadOf(s).ahead = &readPlan{node: source, predict: func(_ *sql.Context, row sql.Row) []rowTask {
		t := t
		t.old, t.row = row[:len(row)/2], row[len(row)/2:]
		if len(t.row) != len(t.st.Def.Cols) {
			return nil
		}
		return []rowTask{t}
	}}
}

// leads reports whether changing rows of the task's table leads to other rows or keys.
func (t *rowTask) leads(ignore bool) bool {
	return t.st != nil && t.st.Def.HomesOf == nil && (t.fk != nil || ignore || t.st.Def.HasFulltext())
}

// aheadUpdateJoin looks at the rows of an UPDATE of several tables.
func (pl *Planner) aheadUpdateJoin(ctx *sql.Context, s *session.Session, j *plan.UpdateJoin) {
	source, ok := j.Child.(*plan.UpdateSource)
	if !ok {
		return
	}
	targets := map[string]rowTask{}
	for name, n := range j.UpdateTargets {
		h, ok := n.(*plan.ForeignKeyHandler)
		if !ok {
			continue
		}
		if st := table.Of(h.Table); st != nil && !pl.dependent(ctx, source, h.Editor) {
			targets[strings.ToLower(name)] = rowTask{st: st, fk: h.Editor, keys: true}
		}
	}
	if len(targets) == 0 {
		return
	}
	sch := source.Child.Schema(ctx)
	aheadOf(s).ahead = &readPlan{node: source, predict: func(_ *sql.Context, row sql.Row) (out []rowTask) {
		if len(row) != 2*len(sch) {
			return nil
		}
		was, is := plan.SplitRowIntoTableRowMap(row[:len(sch)], sch), plan.SplitRowIntoTableRowMap(row[len(sch):], sch)
		for name, t := range targets {
			t.old, t.row = was[name], is[name]
			if len(t.old) == len(t.st.Def.Cols) && len(t.row) == len(t.st.Def.Cols) {
				out = append(out, t)
			}
		}
		return out
	}}
}

// dependent reports whether new values of a row may depend on what became of the row before it:
// subqueries over what a foreign key changes.
func (pl *Planner) dependent(ctx *sql.Context, n *plan.UpdateSource, fk *plan.ForeignKeyEditor) bool {
	if fk == nil || len(fk.RefActions) == 0 {
		return false
	}
	sub := false
	for _, e := range n.UpdateExprs.AllExpressions() {
		sql.Inspect(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
			_, s := e.(*plan.Subquery)
			sub = sub || s
			return !sub
		})
	}
	return sub
}

// schemaOnly is a table of which the engine asks nothing but the columns.
type schemaOnly struct {
	sql.ForeignKeyTable
	sch sql.Schema
}

// Schema implements sql.Table.
func (t schemaOnly) Schema(*sql.Context) sql.Schema { return t.sch }

// newKey is a foreign key that is being made for the rows that there are.
type newKey struct {
	pl *Planner
	st *table.Table
	fk *plan.ForeignKeyEditor
}

// ForeignKey looks at the parents of all rows of a table that gets a foreign key.
func (pl *Planner) ForeignKey(ctx *sql.Context, s *session.Session, d sql.ForeignKeyConstraint) {
	snap, err := s.Snapshot(ctx)
	if err != nil || pl.Off {
		return
	}
	child, parent := snap.Table(d.Database, d.Table), snap.Table(d.ParentDatabase, d.ParentTable)
	if child == nil || parent == nil || len(d.Columns) != len(d.ParentColumns) {
		return
	}
	ct, pt := table.New(pl.env, child), table.New(pl.env, parent)
	ix, ok, err := plan.FindFKIndexWithPrefix(ctx, pt, d.ParentColumns, true)
	if err != nil || !ok {
		return
	}
	m := plan.ForeignKeyRowMapper{Index: ix, Updater: pt.Editor(ctx), SourceSch: ct.Full}
	if m.IndexPositions, m.AppendTypes, err = plan.FindForeignKeyColMapping(ctx, d.Name, schemaOnly{sch: ct.Full},
		d.Columns, d.ParentColumns, ix); err != nil {
		return
	}
	if m.TargetTypeConversions, err = plan.GetForeignKeyTypeConversions(pt.Full, ct.Full, d, plan.ChildToParent); err != nil {
		return
	}
	k := &newKey{pl, ct, &plan.ForeignKeyEditor{Schema: ct.Full,
		References: []*plan.ForeignKeyReferenceHandler{{ForeignKey: d, RowMapper: m}}}}
	s.Stmt.CheckKey = func(id base.TableID, it sql.RowIter) sql.RowIter { return k.checked(s, id, it) }
}

// checked reads the rows of a table for the check of a foreign key that it gets.
func (k *newKey) checked(s *session.Session, id base.TableID, it sql.RowIter) sql.RowIter {
	if id != k.st.Def.Desc.ID {
		return it
	}
	return &aheadIter{RowIter: it, pl: k.pl, s: s, p: &readPlan{predict: func(_ *sql.Context, row sql.Row) []rowTask {
		return []rowTask{{st: k.st, fk: k.fk, row: row}}
	}}}
}
