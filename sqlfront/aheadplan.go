package sqlfront

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/plan"
	"github.com/dolthub/go-mysql-server/sql/transform"

	"github.com/godwitdb/godwit/base"
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
			r.join, child = n, n.Child // it counts the rows that match: the engine looks for it by its type
		default:
			r.node = n
			return r
		}
	}
}

// steady reports whether the rows may be read ahead of what triggers do with those before them; known, whether all is known that triggers may do.
// Of what a procedure does, only variables are feared: MySQL refuses to change tables that the statement reads.
func (r changeRows) steady(ctx *sql.Context, s *Session, change sql.Node) (steady, known bool) {
	bodies := r.before
	ins, _ := change.(*plan.InsertInto)
	if s.change == change {
		bodies = append(bodies, s.after...)
	}
	if len(bodies) == 0 && (ins == nil || !ins.HasAfterTrigger) {
		return true, false
	}
	known = s.change == change
	written := map[base.TableID]bool{}
	for _, body := range bodies {
		known = rehearsable(ctx, body, written) && known
	}
	return !dependsOn(ctx, r.node, written), known
}

// aheadInsert looks at the rows to insert: their own keys, if duplicates matter row by row, and those that they refer to.
func (b *builder) aheadInsert(ctx *sql.Context, s *Session, n *plan.InsertInto) {
	if b.g.noAhead {
		return
	}
	dest, err := plan.GetInsertable(n.Destination)
	if err != nil || n.Source == nil {
		return
	}
	st := tableOf(dest)
	if st == nil || st.t.of != nil {
		return
	}
	var fk *plan.ForeignKeyEditor
	keys := s.perRow
	if h, ok := dest.(*plan.ForeignKeyHandler); ok {
		fk = h.Editor
		for _, r := range fk.References {
			// Looking for the parent of a row makes the editor send those before it.
			keys = keys || r.ForeignKey.IsSelfReferential() && !s.blind
		}
	}
	from := sourceOf(n.Source)
	source := from.node
	steady, _ := from.steady(ctx, s, n)
	s.stable = steady && stableSubqueries(ctx, n.Source, []*sqlTable{st}, fk)
	if fk == nil && !keys && !st.t.fulltext() || !steady {
		return
	}
	dups := n.OnDupExprs != nil && n.OnDupExprs.HasUpdates()
	var updates []sql.Expression
	if dups {
		updates = n.OnDupExprs.AllExpressions()
	}
	if usesVariables(ctx, updates) && nodeUsesVariables(ctx, source) {
		return // a row may depend on what became of the one before it
	}
	dups = dups && plainExpressions(ctx, updates)
	var side *sql.Context
	if dups {
		side = sql.NewEmptyContext() // keeps warnings to itself
	}
	s.ahead = &aheadPlan{node: source, blind: s.blind, forecast: func(ctx *sql.Context, row sql.Row) []aheadTask {
		if len(row) < len(st.t.cols) {
			return nil
		}
		row = st.t.converted(ctx.Context, row[len(row)-len(st.t.cols):], n.Ignore)
		t := aheadTask{st: st, fk: fk, row: row, keys: keys}
		switch {
		case n.IsReplace && (fk != nil && len(fk.RefActions) > 0 || st.t.fulltext()):
			t.exists = func(_ *forecast, old sql.Row) []aheadTask { return []aheadTask{{st: st, fk: fk, old: old}} }
		case dups:
			t.exists = func(f *forecast, old sql.Row) []aheadTask {
				next := onDuplicate(side, updates, f.latest(side, st.t, old), row)
				if next == nil {
					return nil
				}
				f.becomes(side, st.t, old, next)
				return []aheadTask{{st: st, fk: fk, old: old, row: next, keys: true}}
			}
		}
		return []aheadTask{t}
	}}
}

// converted is a row to insert as the engine will convert it to the types of the table.
func (t *table) converted(ctx context.Context, row sql.Row, ignore bool) sql.Row {
	out := row.Copy()
	for i, c := range t.cols {
		if out[i] == nil {
			if ignore && !c.desc.Nullable {
				out[i] = c.typ.Zero()
			}
			continue
		}
		var v any
		var in sql.ConvertInRange
		var err error
		if r, ok := c.typ.(sql.RoundingNumberType); ok {
			v, in, err = r.ConvertRound(ctx, out[i])
		} else {
			v, in, err = c.typ.Convert(ctx, out[i])
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

// plainExpressions reports whether expressions can be evaluated twice without anybody noticing.
func plainExpressions(ctx *sql.Context, exprs []sql.Expression) bool {
	plain := true
	for _, e := range exprs {
		sql.Inspect(ctx, e, func(_ *sql.Context, e sql.Expression) bool {
			switch e.(type) {
			case nil, *expression.GetField, *expression.SetField, *expression.Literal, *expression.Arithmetic, *expression.UnaryMinus, *function.Values:
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
func (b *builder) aheadDelete(ctx *sql.Context, s *Session, n *plan.DeleteFrom) {
	if b.g.noAhead {
		return
	}
	type part struct {
		task     aheadTask
		from, to int
	}
	var parts []part
	sch := n.Child.Schema(ctx)
	for _, target := range n.GetDeleteTargets() {
		var t aheadTask
		if h, ok := target.(*plan.ForeignKeyHandler); ok {
			t.st, t.fk = tableOf(h.Table), h.Editor
		} else if d, err := plan.GetDeletable(target); err == nil {
			t.st = tableOf(d)
		}
		if t.st == nil || (t.fk == nil || len(t.fk.RefActions) == 0) && !t.st.t.fulltext() {
			continue
		}
		name := t.st.Name()
		transform.InspectWithOpaque(ctx, target, func(_ *sql.Context, n sql.Node) bool {
			if a, ok := n.(*plan.TableAlias); ok {
				name = a.Name()
				return false
			}
			return true
		})
		p := part{task: t, from: -1}
		for i, c := range sch {
			if strings.EqualFold(c.Source, name) {
				if p.from < 0 {
					p.from = i
				}
				p.to = i + 1
			}
		}
		if p.from >= 0 && p.to-p.from == len(t.st.t.cols) {
			parts = append(parts, p)
		}
	}
	source := sourceOf(n.Child)
	steady, _ := source.steady(ctx, s, n)
	if len(parts) == 0 {
		s.stable = steady && stableSubqueries(ctx, n.Child, tablesIn(n.Child))
	}
	if len(parts) == 0 || !steady {
		return
	}
	s.ahead = &aheadPlan{node: source.node, forecast: func(_ *sql.Context, row sql.Row) (out []aheadTask) {
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

// aheadUpdate looks at the rows to update: their new keys, those that they refer to, and those that refer to them.
func (b *builder) aheadUpdate(ctx *sql.Context, s *Session, n *plan.Update) {
	if b.g.noAhead {
		return
	}
	from := sourceOf(n.Child)
	steady, _ := from.steady(ctx, s, n)
	if from.join != nil {
		if steady {
			b.aheadUpdateJoin(ctx, s, from.join)
		}
		return
	}
	t := aheadTask{fk: from.fk}
	dest, err := plan.GetUpdatable(n.Child)
	if err != nil {
		return
	}
	t.st, t.keys = tableOf(dest), true
	source, ok := from.node.(*plan.UpdateSource)
	s.stable = ok && steady && stableSubqueries(ctx, source, tablesIn(source), t.fk)
	if !ok || !steady || t.st == nil || t.st.t.of != nil || t.fk == nil && !n.Ignore && !t.st.t.fulltext() || b.dependent(ctx, source, t.fk) {
		return
	}
	s.ahead = &aheadPlan{node: source, forecast: func(_ *sql.Context, row sql.Row) []aheadTask {
		t := t
		t.old, t.row = row[:len(row)/2], row[len(row)/2:]
		if len(t.row) != len(t.st.t.cols) {
			return nil
		}
		return []aheadTask{t}
	}}
}

func (b *builder) aheadUpdateJoin(ctx *sql.Context, s *Session, j *plan.UpdateJoin) {
	source, ok := j.Child.(*plan.UpdateSource)
	if !ok {
		return
	}
	targets := map[string]aheadTask{}
	for name, n := range j.UpdateTargets {
		h, ok := n.(*plan.ForeignKeyHandler)
		if !ok {
			continue
		}
		if st := tableOf(h.Table); st != nil && !b.dependent(ctx, source, h.Editor) {
			targets[strings.ToLower(name)] = aheadTask{st: st, fk: h.Editor, keys: true}
		}
	}
	if len(targets) == 0 {
		return
	}
	sch := source.Child.Schema(ctx)
	s.ahead = &aheadPlan{node: source, forecast: func(_ *sql.Context, row sql.Row) (out []aheadTask) {
		if len(row) != 2*len(sch) {
			return nil
		}
		was, is := plan.SplitRowIntoTableRowMap(row[:len(sch)], sch), plan.SplitRowIntoTableRowMap(row[len(sch):], sch)
		for name, t := range targets {
			t.old, t.row = was[name], is[name]
			if len(t.old) == len(t.st.t.cols) && len(t.row) == len(t.st.t.cols) {
				out = append(out, t)
			}
		}
		return out
	}}
}

// dependent reports whether new values of a row may depend on what became of the row before it: subqueries over what a foreign key changes.
func (b *builder) dependent(ctx *sql.Context, n *plan.UpdateSource, fk *plan.ForeignKeyEditor) bool {
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

// newKey is a foreign key that is being made for the rows that there are.
type newKey struct {
	st *sqlTable
	fk *plan.ForeignKeyEditor
}

// aheadForeignKey looks at the parents of all rows of a table that gets a foreign key.
func (b *builder) aheadForeignKey(ctx *sql.Context, s *Session, d sql.ForeignKeyConstraint) {
	snap, err := s.snapshot(ctx)
	if err != nil || b.g.noAhead {
		return
	}
	child, parent := snap.table(d.Database, d.Table), snap.table(d.ParentDatabase, d.ParentTable)
	if child == nil || parent == nil || len(d.Columns) != len(d.ParentColumns) {
		return
	}
	ct, pt := newSQLTable(b.g, child), newSQLTable(b.g, parent)
	ix, ok, err := plan.FindFKIndexWithPrefix(ctx, pt, d.ParentColumns, true)
	if err != nil || !ok {
		return
	}
	m := plan.ForeignKeyRowMapper{Index: ix, Updater: pt.editor(ctx), SourceSch: ct.full}
	if m.IndexPositions, m.AppendTypes, err = plan.FindForeignKeyColMapping(ctx, d.Name, ct, d.Columns, d.ParentColumns, ix); err != nil {
		return
	}
	if m.TargetTypeConversions, err = plan.GetForeignKeyTypeConversions(pt.full, ct.full, d, plan.ChildToParent); err != nil {
		return
	}
	s.newKey = &newKey{ct, &plan.ForeignKeyEditor{Schema: ct.full, References: []*plan.ForeignKeyReferenceHandler{{ForeignKey: d, RowMapper: m}}}}
}

// checked reads the rows of a table for the check of a foreign key that it gets.
func (k *newKey) checked(s *Session, t *sqlTable, it sql.RowIter) sql.RowIter {
	if k == nil || t.t.desc.ID != k.st.t.desc.ID || t.cols != nil {
		return it
	}
	return &aheadIter{RowIter: it, s: s, p: &aheadPlan{forecast: func(_ *sql.Context, row sql.Row) []aheadTask {
		return []aheadTask{{st: k.st, fk: k.fk, row: row}}
	}}}
}
