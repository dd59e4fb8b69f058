package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// decorrelate makes joins of Apply where it can. What remains is evaluated for each row of the
// left side.
func (o *optimizer) decorrelate(r algebra.Rel) algebra.Rel {
	return algebra.Rewrite(r, func(r algebra.Rel) algebra.Rel {
		a, ok := r.(*algebra.Apply)
		if !ok {
			return r
		}
		return o.unapply(a)
	})
}

func (o *optimizer) unapply(a *algebra.Apply) algebra.Rel {
	l := setOf(a.L.Cols())
	if !free(a.R).meets(l) {
		return o.independent(a)
	}
	var out algebra.Rel
	switch a.Kind {
	case algebra.Single:
		out = o.scalarJoin(a, l)
	case algebra.Left, algebra.Inner:
		out = o.plainJoin(a, l)
	default:
		out = o.testJoin(a, l)
	}
	if out != nil {
		return out
	}
	if a.Kind == algebra.Single && !oneRow(a.R) {
		c := *a
		c.R = &algebra.Max1Row{In: a.R}
		a = &c
	}
	return a
}

// independent makes a join of an Apply whose right side is the same for all rows.
func (o *optimizer) independent(a *algebra.Apply) algebra.Rel {
	j := &algebra.Join{Kind: a.Kind, L: a.L, R: a.R, On: a.On, Also: a.Also, MarkID: a.MarkID}
	switch {
	case a.Kind == algebra.Left || a.Kind == algebra.Inner:
	case a.Kind == algebra.Single:
		j.Kind = algebra.Left
		if !oneRow(a.R) {
			j.R = &algebra.Max1Row{In: a.R}
		}
	case len(a.On)+len(a.Also) == 0: // EXISTS
		j.R = &algebra.Limit{In: a.R, Count: expr.IntConst(1)}
	}
	return j
}

// plainJoin makes a join of an Apply that yields the columns of both sides; nil if it cannot.
func (o *optimizer) plainJoin(a *algebra.Apply, l set) algebra.Rel {
	p, ok := o.pull(a.R, l)
	if !ok {
		return unfolding(a)
	}
	return onlyCols(&algebra.Join{Kind: a.Kind, L: a.L, R: p.rel, On: slices.Concat(p.conds, a.On)}, a.Cols())
}

// unfolding makes the rows of JSON_TABLE beside those of the table whose documents it reads; nil if
// the right side is something else.
func unfolding(a *algebra.Apply) algebra.Rel {
	r, conds := a.R, a.On
	if f, ok := r.(*algebra.Filter); ok {
		r, conds = f.In, slices.Concat(f.Conds, conds)
	}
	u, ok := r.(*algebra.Unfold)
	if !ok || a.Kind != algebra.Inner {
		return nil
	}
	if v, ok := u.In.(*algebra.Values); !ok || len(v.Rows) != 1 || len(v.IDs) > 0 {
		return nil
	}
	return filter(u.WithInputs([]algebra.Rel{a.L}), conds)
}

// pulled is a relation without the conditions that use columns of an outer query.
type pulled struct {
	rel   algebra.Rel
	conds []expr.Node
}

// pull takes conditions that use columns of l out of a relation; ok is false if something else
// does.
func (o *optimizer) pull(r algebra.Rel, l set) (p pulled, ok bool) {
	if !free(r).meets(l) {
		return pulled{rel: r}, true
	}
	switch r := r.(type) {
	case *algebra.Filter:
		p, ok := o.pull(r.In, l)
		if !ok {
			return p, false
		}
		var keep []expr.Node
		for _, c := range r.Conds {
			if colsOf(c).meets(l) {
				if volatile(c) {
					return p, false
				}
				p.conds = append(p.conds, c)
			} else {
				keep = append(keep, c)
			}
		}
		p.rel = filter(p.rel, keep)
		return p, true
	case *algebra.Join:
		return o.pullJoin(r, l)
	case *algebra.Project:
		return o.pullProject(r, l)
	case *algebra.Sort:
		return o.pull(r.In, l) // no order matters to a join
	}
	return pulled{}, false
}

func (o *optimizer) pullJoin(r *algebra.Join, l set) (pulled, bool) {
	a, ok := o.pull(r.L, l)
	if !ok {
		return a, false
	}
	j := *r
	j.L = a.rel
	if r.Kind != algebra.Inner {
		if free(r.R).meets(l) {
			return a, false
		}
		for _, c := range slices.Concat(r.On, r.Also) {
			if colsOf(c).meets(l) {
				return a, false
			}
		}
		// What was pulled must use columns that the join still yields: those of its left side.
		return pulled{&j, a.conds}, true
	}
	b, ok := o.pull(r.R, l)
	if !ok {
		return b, false
	}
	j.R, j.On = b.rel, nil
	conds := slices.Concat(a.conds, b.conds)
	for _, c := range r.On {
		if colsOf(c).meets(l) {
			conds = append(conds, c)
		} else {
			j.On = append(j.On, c)
		}
	}
	return pulled{&j, conds}, true
}

// pullProject hands on the columns that pulled conditions use.
func (o *optimizer) pullProject(r *algebra.Project, l set) (pulled, bool) {
	for _, it := range r.Items {
		if colsOf(it.Node).meets(l) {
			return pulled{}, false
		}
	}
	p, ok := o.pull(r.In, l)
	if !ok {
		return p, false
	}
	out := &algebra.Project{In: p.rel, Items: slices.Clone(r.Items)}
	have := setOf(out.Cols())
	t := typesOf(p.rel)
	for _, c := range p.conds {
		for id := range colsOf(c) {
			if ty, ok := t[id]; ok && !have[id] {
				have[id] = true
				out.Items = append(out.Items, algebra.Item{ID: id, Node: &expr.Col{ID: id, T: ty}})
			}
		}
	}
	p.rel = out
	return p, true
}

// testJoin makes a join of a correlated EXISTS, IN, ANY or ALL; nil if it cannot.
func (o *optimizer) testJoin(a *algebra.Apply, l set) algebra.Rel {
	r, on, also := a.R, a.On, a.Also
	if p, ok := r.(*algebra.Project); ok {
		var both []expr.Node
		r, both = o.throughProject(p, slices.Concat(on, also))
		on, also = both[:len(on)], both[len(on):]
	}
	exists := len(a.On)+len(a.Also) == 0
	if exists {
		r = existence(r)
	}
	p, ok := o.pull(r, l)
	if !ok || (a.Kind == algebra.NullAnti || a.Kind == algebra.Mark) && comparesLeft(on, l) {
		return nil
	}
	j := &algebra.Join{Kind: a.Kind, L: a.L, R: p.rel, MarkID: a.MarkID}
	switch {
	case a.Kind == algebra.NullAnti && !anyNull(on):
		j.Kind, j.On = algebra.Anti, slices.Concat(p.conds, on)
	case a.Kind == algebra.NullAnti || a.Kind == algebra.Mark && !exists:
		j.On, j.Also = on, slices.Concat(p.conds, also)
	case a.Kind == algebra.Mark:
		j.Also = p.conds
	default:
		j.On = slices.Concat(p.conds, on)
	}
	return j
}

// comparesLeft reports whether the list of IN has columns of the left side itself.
func comparesLeft(on []expr.Node, l set) bool {
	return slices.ContainsFunc(on, func(c expr.Node) bool { return colsOf(c.(*expr.Call).Args[1]).meets(l) })
}

func anyNull(ns []expr.Node) bool {
	return slices.ContainsFunc(ns, mayNull)
}

func mayNull(n expr.Node) bool { return !n.Type().NotNull }

// throughProject lets conditions on the columns of a projection use what they are made of.
func (o *optimizer) throughProject(p *algebra.Project, on []expr.Node) (algebra.Rel, []expr.Node) {
	by := map[expr.ColID]expr.Node{}
	for _, it := range p.Items {
		if volatile(it.Node) {
			return p, on
		}
		by[it.ID] = it.Node
	}
	out := make([]expr.Node, len(on))
	for i, c := range on {
		n, err := substitute(c, by)
		if err != nil {
			return p, on
		}
		out[i] = n
	}
	return p.In, out
}

// existence drops what does not matter to whether there are rows.
func existence(r algebra.Rel) algebra.Rel {
	for {
		switch x := r.(type) {
		case *algebra.Project:
			r = x.In
		case *algebra.Sort:
			r = x.In
		case *algebra.Distinct:
			r = x.In
		case *algebra.Limit:
			c, ok := x.Count.(*expr.Const)
			if !ok || c.V.I < 1 || x.Offset != nil {
				return r
			}
			r = x.In
		default:
			return r
		}
	}
}

// scalarJoin makes a join of a correlated scalar subquery; nil if it cannot.
func (o *optimizer) scalarJoin(a *algebra.Apply, l set) algebra.Rel {
	items := []algebra.Item(nil)
	r := a.R
	if p, ok := r.(*algebra.Project); ok {
		items, r = p.Items, p.In
	}
	if g, ok := r.(*algebra.GroupBy); ok && len(g.Keys) == 0 && !g.Keyed {
		return o.aggregateJoin(a, g, items, l)
	}
	p, ok := o.pull(a.R, l)
	if !ok || !o.uniqueBy(p) {
		return nil
	}
	j := &algebra.Join{Kind: algebra.Left, L: a.L, R: p.rel, On: p.conds}
	return onlyCols(j, a.Cols())
}

// onlyCols hides columns beyond those wanted.
func onlyCols(r algebra.Rel, want []expr.ColID) algebra.Rel {
	have := r.Cols()
	if len(have) == len(want) {
		return r
	}
	return narrow(r, want, r)
}

// uniqueBy reports whether the equalities among pulled conditions find one row at most.
func (o *optimizer) uniqueBy(p pulled) bool {
	in := setOf(p.rel.Cols())
	fixed := set{}
	for _, c := range p.conds {
		eq, ok := isCall(c, "=")
		if !ok {
			continue
		}
		for i := range 2 {
			col, ok := eq.Args[i].(*expr.Col)
			if ok && in[col.ID] && comparesAs(eq.Cmp, col.T) && !colsOf(eq.Args[1-i]).meets(in) {
				fixed[col.ID] = true
			}
		}
	}
	return unique(p.rel, fixed)
}

// unique reports whether rows that agree in some columns, which are not NULL, are one at most. They
// agree as the columns compare: by another collation, or as numbers, several texts may be equal.
func unique(r algebra.Rel, by set) bool {
	switch r := r.(type) {
	case *algebra.Project:
		return unique(r.In, by)
	case *algebra.Filter:
		by = by.clone()
		for _, c := range r.Conds {
			if eq, ok := isCall(c, "="); ok {
				if col, ok := eq.Args[0].(*expr.Col); ok && comparesAs(eq.Cmp, col.T) && len(colsOf(eq.Args[1])) == 0 {
					by[col.ID] = true
				}
			}
		}
		return unique(r.In, by)
	case *algebra.Scan:
		for _, x := range r.Table.Indexes() {
			all := (x.Unique || x.Primary) && len(x.Cols) > 0
			for _, c := range x.Cols {
				all = all && c.Prefix == 0 && by[r.IDs[c.Col]]
			}
			if all {
				return true
			}
		}
	case *algebra.GroupBy:
		if r.Rollup {
			return false
		}
		for _, k := range r.Keys {
			if !by[k.ID] {
				return false
			}
		}
		return true
	}
	return oneRow(r)
}

// aggregateJoin groups the rows of a subquery by what they are compared with. The subquery has a
// row for each outer one, also where there is no group.
func (o *optimizer) aggregateJoin(a *algebra.Apply, g *algebra.GroupBy, items []algebra.Item, l set) algebra.Rel {
	p, ok := o.pull(g.In, l)
	if !ok || len(p.conds) == 0 {
		return nil
	}
	for _, x := range g.Aggs {
		if colsOf(x.Call).meets(l) || x.Call.Fn.Zero && x.Call.Fn.Name != "count" {
			return nil
		}
	}
	grouped := &algebra.GroupBy{In: p.rel, Aggs: g.Aggs, Keyed: true}
	j := &algebra.Join{Kind: algebra.Left, L: a.L, R: grouped}
	in := setOf(p.rel.Cols())
	for _, c := range p.conds {
		inner, outer := sides(c, in, l)
		if inner == nil {
			return nil
		}
		k := algebra.Item{ID: o.newID(), Node: inner}
		grouped.Keys = append(grouped.Keys, k)
		eq, err := call("=", &expr.Col{ID: k.ID, T: inner.Type()}, outer)
		if err != nil {
			o.fail(err)
			return nil
		}
		j.On = append(j.On, eq)
	}
	return o.overGroups(a, j, g, items)
}

// sides takes an equality between a subquery and an outer query apart; nil if it is none.
func sides(c expr.Node, in, l set) (inner, outer expr.Node) {
	eq, ok := isCall(c, "=")
	if !ok || volatile(c) {
		return nil, nil
	}
	for i := range 2 {
		x, y := colsOf(eq.Args[i]), colsOf(eq.Args[1-i])
		if len(x) > 0 && x.within(in) && !y.meets(in) && y.meets(l) {
			return eq.Args[i], eq.Args[1-i]
		}
	}
	return nil, nil
}

// overGroups computes the columns of the subquery of the aggregates of its group: COUNT is 0 where
// there is none.
func (o *optimizer) overGroups(a *algebra.Apply, j *algebra.Join, g *algebra.GroupBy, items []algebra.Item) algebra.Rel {
	t := typesOf(a.L)
	out := &algebra.Project{In: j}
	for _, id := range a.L.Cols() {
		out.Items = append(out.Items, algebra.Item{ID: id, Node: &expr.Col{ID: id, T: t[id]}})
	}
	by := map[expr.ColID]expr.Node{}
	for _, x := range g.Aggs {
		var n expr.Node = &expr.Col{ID: x.ID, Name: x.Name, T: x.Call.T.AsNull()}
		if x.Call.Fn.Zero {
			var err error
			if n, err = call("coalesce", n, expr.IntConst(0)); err != nil {
				o.fail(err)
				return nil
			}
		}
		by[x.ID] = n
	}
	if items == nil {
		for _, x := range g.Aggs {
			items = append(items, algebra.Item{ID: x.ID, Node: &expr.Col{ID: x.ID, T: x.Call.T}})
		}
	}
	fresh := map[expr.ColID]bool{}
	for _, it := range items {
		n, err := substitute(it.Node, by)
		if err != nil {
			return nil
		}
		if fresh[it.ID] {
			continue
		}
		fresh[it.ID] = true
		out.Items = append(out.Items, algebra.Item{ID: it.ID, Name: it.Name, Node: n})
	}
	return out
}
