package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// push puts conditions as far down as they keep their meaning. Conditions with effects stay. What
// has no rows by them becomes such a relation (nothing.go).
func (o *optimizer) push(r algebra.Rel, conds []expr.Node) algebra.Rel {
	o.check()
	above := o.above
	switch r.(type) {
	case *algebra.Filter, *algebra.Project, *algebra.Join:
	default:
		o.above = nil // which rows come here makes a difference to those that pass
	}
	r = o.pushed(r, conds)
	o.above = above
	if yieldsNothing(r) {
		return nothing(r)
	}
	return r
}

func (o *optimizer) pushed(r algebra.Rel, conds []expr.Node) algebra.Rel {
	switch r := r.(type) {
	case *algebra.Filter:
		return o.pushFilter(r, conds)
	case *algebra.Project:
		return o.pushProject(r, conds)
	case *algebra.Join:
		return o.pushJoin(r, conds)
	case *algebra.Apply:
		return o.pushApply(r, conds)
	case *algebra.GroupBy:
		return o.pushGroup(r, conds)
	case *algebra.Window:
		return o.pushWindow(r, conds)
	case *algebra.SetOp:
		return o.pushSet(r, conds)
	case *algebra.Sort:
		return &algebra.Sort{In: o.push(r.In, conds), Keys: r.Keys}
	case *algebra.Distinct:
		return &algebra.Distinct{In: o.push(r.In, conds), On: r.On}
	}
	in := r.Inputs()
	if len(in) > 0 {
		out := make([]algebra.Rel, len(in))
		for i, x := range in {
			out[i] = o.push(x, nil)
		}
		r = r.WithInputs(out)
	}
	return filter(r, conds)
}

// part splits conditions by whether they use columns of a set only.
func part(conds []expr.Node, s set) (in, out []expr.Node) {
	for _, c := range conds {
		if cs := colsOf(c); !volatile(c) && cs.within(s) {
			in = append(in, c)
		} else {
			out = append(out, c)
		}
	}
	return in, out
}

func (o *optimizer) pushFilter(f *algebra.Filter, conds []expr.Node) algebra.Rel {
	var stay []expr.Node
	all := slices.Clone(conds)
	for _, c := range split(f.Conds...) {
		if volatile(c) {
			stay = append(stay, c)
			continue
		}
		all = append(all, o.factor(c)...)
	}
	if len(stay) > 0 {
		// What came from above is evaluated for the rows that pass here.
		return filter(&algebra.Filter{In: o.push(f.In, all[len(conds):]), Conds: stay}, conds)
	}
	return o.push(f.In, all)
}

func (o *optimizer) pushProject(p *algebra.Project, conds []expr.Node) algebra.Rel {
	by := map[expr.ColID]expr.Node{}
	for _, it := range p.Items {
		if !volatile(it.Node) {
			by[it.ID] = it.Node
		}
	}
	var down, stay []expr.Node
	made := setOf(p.Cols())
	for _, c := range conds {
		ok := !volatile(c)
		for id := range colsOf(c) {
			if made[id] && by[id] == nil {
				ok = false
			}
		}
		if ok {
			if n, err := substitute(c, by); err == nil {
				down = append(down, split(n)...)
				continue
			}
		}
		stay = append(stay, c)
	}
	return filter(&algebra.Project{In: o.push(p.In, down), Items: p.Items}, stay)
}

func (o *optimizer) pushJoin(j *algebra.Join, conds []expr.Node) algebra.Rel {
	l, r := setOf(j.L.Cols()), setOf(j.R.Cols())
	out := *j
	if j.Kind == algebra.Left && (o.rejectsAny(conds, r) || o.rejectsAny(o.above, r)) || j.Kind == algebra.Semi && o.matchesOnce(j) {
		out.Kind = algebra.Inner
	}
	onl, onr := o.reach(l), o.reach(r)
	var down, rdown []expr.Node
	switch out.Kind {
	case algebra.Inner:
		var all, stay []expr.Node
		for _, c := range slices.Concat(split(j.On...), conds) {
			if volatile(c) {
				stay = append(stay, c)
				continue
			}
			all = append(all, o.factor(c)...)
		}
		if all = o.derive(all); slices.ContainsFunc(all, never) {
			return nothing(&out)
		}
		down, all = part(all, onl)
		rdown, all = part(all, onr)
		down, rdown = append(down, o.implied(all, onl)...), append(rdown, o.implied(all, onr)...)
		out.On = all
		above := o.above
		o.above = slices.Concat(above, all)
		out.L, out.R = o.push(j.L, down), o.push(j.R, rdown)
		o.above = above
		return filter(&out, stay)
	case algebra.Left, algebra.Semi, algebra.Anti:
		on := split(j.On...)
		rdown, on = part(on, onr)
		if out.Kind == algebra.Semi {
			var more []expr.Node
			more, on = part(on, onl)
			down = append(down, more...)
		}
		out.On = on
	}
	fit, stay := part(conds, onl)
	down = append(down, fit...)
	if out.Kind != algebra.Anti && out.Kind != algebra.NullAnti && out.Kind != algebra.Mark {
		rdown = append(rdown, o.derived(down, out.On, onl, onr)...)
	}
	held := o.above
	o.above = slices.Concat(held, stay)
	out.L = o.push(j.L, down)
	o.above = nil // a row of the right side that is left out may let one of the left side pass
	out.R = o.push(j.R, rdown)
	o.above = held
	return filter(&out, stay)
}

// matchesOnce reports whether a row of the left side of a semi join matches one row of the right
// side at most: then it is an inner join, which can be ordered with others.
func (o *optimizer) matchesOnce(j *algebra.Join) bool {
	if anyVolatile(j.On) || algebra.Volatile(j.R) {
		return false
	}
	return o.uniqueBy(pulled{rel: j.R, conds: split(j.On...)})
}

// reach is what conditions below an operator may use: its columns, and those of outer queries.
func (o *optimizer) reach(s set) set { return s.clone().add(o.outer.sorted()...) }

func (o *optimizer) pushApply(a *algebra.Apply, conds []expr.Node) algebra.Rel {
	down, stay := part(conds, o.reach(setOf(a.L.Cols())))
	out := *a
	out.L = o.push(a.L, down)
	saved := o.outer
	o.outer = o.outer.clone().add(a.L.Cols()...)
	out.R = o.push(a.R, nil)
	o.outer = saved
	return filter(&out, stay)
}

func (o *optimizer) pushGroup(g *algebra.GroupBy, conds []expr.Node) algebra.Rel {
	out := *g
	if len(g.Keys) == 0 || g.Rollup {
		out.In = o.push(g.In, nil)
		return filter(&out, conds)
	}
	by := map[expr.ColID]expr.Node{}
	keys := o.reach(set{})
	for _, k := range g.Keys {
		if textual(k.Node.Type()) {
			continue // a group has several spellings
		}
		by[k.ID], keys[k.ID] = k.Node, true
	}
	down, stay := part(conds, keys)
	for i, c := range down {
		n, err := substitute(c, by)
		if err != nil {
			o.fail(err)
			return g
		}
		down[i] = n
	}
	out.In = o.push(g.In, down)
	return filter(&out, stay)
}

// textualCols reports whether a condition uses a column of text.
func textualCols(n expr.Node) bool {
	found := false
	expr.Walk(n, func(n expr.Node) bool {
		if c, ok := n.(*expr.Col); ok && textual(c.T) {
			found = true
		}
		return !found
	})
	return found
}

// textual reports whether values may be equal and differ.
func textual(t expr.Type) bool { return t.Kind == expr.Text }

func (o *optimizer) pushWindow(w *algebra.Window, conds []expr.Node) algebra.Rel {
	by := o.reach(set{})
	for _, n := range w.Partition {
		if c, ok := n.(*expr.Col); ok && !textual(c.T) {
			by[c.ID] = true
		}
	}
	down, stay := part(conds, by)
	out := *w
	out.In = o.push(w.In, down)
	return filter(&out, stay)
}

func (o *optimizer) pushSet(s *algebra.SetOp, conds []expr.Node) algebra.Rel {
	out := *s
	var stay []expr.Node
	down := [2][]expr.Node{}
	for _, c := range conds {
		ok := !volatile(c) && !textualCols(c)
		var both [2]expr.Node
		for i, ids := range [][]expr.ColID{s.LeftCols, s.RightCols} {
			by := map[expr.ColID]expr.Node{}
			t := typesOf([]algebra.Rel{s.L, s.R}[i])
			for k, id := range s.IDs {
				by[id] = &expr.Col{ID: ids[k], T: t[ids[k]]}
			}
			n, err := substitute(c, by)
			ok = ok && err == nil
			both[i] = n
		}
		if !ok {
			stay = append(stay, c)
			continue
		}
		down[0], down[1] = append(down[0], both[0]), append(down[1], both[1])
	}
	out.L, out.R = o.push(s.L, down[0]), o.push(s.R, down[1])
	return filter(&out, stay)
}

// rejectsAny reports whether one of the conditions is never TRUE where the columns of s are NULL.
func (o *optimizer) rejectsAny(conds []expr.Node, s set) bool {
	for _, c := range conds {
		if !volatile(c) && rejects(c, s) {
			return true
		}
	}
	return false
}

// rejects reports whether a condition is not TRUE for rows in which all columns of s are NULL.
func rejects(n expr.Node, s set) bool {
	c, ok := n.(*expr.Call)
	if !ok {
		return strict(n, s)
	}
	switch c.Fn.Name {
	case "and":
		return rejects(c.Args[0], s) || rejects(c.Args[1], s)
	case "or":
		return rejects(c.Args[0], s) && rejects(c.Args[1], s)
	case "istrue", "isfalse", "isnotnull":
		return strict(c.Args[0], s)
	case "not":
		if x, ok := isCall(c.Args[0], "isnull"); ok {
			return strict(x.Args[0], s)
		}
	}
	return strict(n, s)
}

// strictFuncs yield NULL when an argument is NULL.
var strictFuncs = map[string]bool{
	"=": true, "<>": true, "<": true, "<=": true, ">": true, ">=": true, "+": true, "-": true, "*": true, "/": true,
	"div": true, "%": true,
	"neg": true, "not": true, "like": true, "regexp_like": true, "xor": true, "between": false,
	"upper": true, "lower": true, "length": true, "char_length": true, "substring": true, "abs": true, "year": true,
	"month": true, "day": true,
}

// strict reports whether an expression is NULL where all columns of s are NULL.
func strict(n expr.Node, s set) bool {
	switch n := n.(type) {
	case *expr.Col:
		return s[n.ID]
	case *expr.Cast:
		return strict(n.Arg, s)
	case *expr.In:
		return strict(n.Left, s)
	case *expr.Call:
		switch {
		case n.Fn.Name == "and", n.Fn.Name == "or":
			return strict(n.Args[0], s) && strict(n.Args[1], s)
		case n.Fn.Name == "between":
			return strict(n.Args[0], s)
		case !strictFuncs[n.Fn.Name]:
			return false
		}
		for _, a := range n.Args {
			if strict(a, s) {
				return true
			}
		}
	}
	return false
}

// factor takes what all branches of an OR have in common out of it.
func (o *optimizer) factor(n expr.Node) []expr.Node {
	c, ok := isCall(n, "or")
	if !ok || volatile(n) || hasSub(n) {
		return split(n)
	}
	var branches [][]expr.Node
	for _, b := range disjuncts(c) {
		branches = append(branches, split(b))
	}
	var common []expr.Node
	for _, x := range branches[0] {
		all := true
		for _, b := range branches[1:] {
			all = all && slices.ContainsFunc(b, func(y expr.Node) bool { return expr.Equal(x, y) })
		}
		if all {
			common = append(common, x)
		}
	}
	if len(common) == 0 {
		return []expr.Node{n}
	}
	var rest []expr.Node
	for _, b := range branches {
		b = slices.DeleteFunc(b, func(y expr.Node) bool {
			return slices.ContainsFunc(common, func(x expr.Node) bool { return expr.Equal(x, y) })
		})
		if len(b) == 0 {
			return common
		}
		one, err := joinAnd(b)
		if err != nil {
			o.fail(err)
			return []expr.Node{n}
		}
		rest = append(rest, one)
	}
	or, err := joinOr(rest)
	if err != nil {
		o.fail(err)
		return []expr.Node{n}
	}
	return append(common, or)
}

// implied are conditions on the columns of a set that follow from disjunctions of which each branch
// says something of them. The disjunctions stay: what is implied only drops rows early.
func (o *optimizer) implied(conds []expr.Node, s set) (out []expr.Node) {
	for _, c := range conds {
		or, ok := isCall(c, "or")
		if !ok || hasSub(c) {
			continue
		}
		var branches []expr.Node
		for _, b := range disjuncts(or) {
			mine, _ := part(split(b), s)
			if len(mine) == 0 {
				branches = nil
				break
			}
			one, err := joinAnd(mine)
			if err != nil {
				o.fail(err)
				return nil
			}
			branches = append(branches, one)
		}
		if branches == nil {
			continue
		}
		n, err := joinOr(branches)
		if err != nil {
			o.fail(err)
			return nil
		}
		out = append(out, o.factor(n)...)
	}
	return out
}

func disjuncts(n expr.Node) []expr.Node {
	c, ok := isCall(n, "or")
	if !ok {
		return []expr.Node{n}
	}
	return append(disjuncts(c.Args[0]), disjuncts(c.Args[1])...)
}

// derive adds comparisons with constants that follow from equalities between columns.
func (o *optimizer) derive(conds []expr.Node) []expr.Node {
	out := slices.Clone(conds)
	for _, e := range conds {
		a, b := columnsEqual(e)
		if a == nil {
			continue
		}
		for _, c := range conds {
			for _, p := range [][2]*expr.Col{{a, b}, {b, a}} {
				n := o.rename(c, p[0], p[1])
				same := func(x expr.Node) bool { return expr.Equal(x, n) }
				if n != nil && !slices.ContainsFunc(out, same) {
					out = append(out, n)
				}
			}
		}
	}
	return out
}

// derived are conditions on the right side of a join that follow from those on the left and
// equalities between both.
func (o *optimizer) derived(down, on []expr.Node, l, r set) (out []expr.Node) {
	for _, e := range on {
		a, b := columnsEqual(e)
		if a == nil {
			continue
		}
		if l[b.ID] && !l[a.ID] {
			a, b = b, a
		}
		if !l[a.ID] || !r[b.ID] {
			continue
		}
		for _, c := range down {
			if n := o.rename(c, a, b); n != nil {
				out = append(out, n)
			}
		}
	}
	return out
}

// columnsEqual are the columns that a condition makes equal; nil if it is none such.
func columnsEqual(n expr.Node) (a, b *expr.Col) {
	c, ok := isCall(n, "=")
	if !ok {
		return nil, nil
	}
	a, ok1 := c.Args[0].(*expr.Col)
	b, ok2 := c.Args[1].(*expr.Col)
	if !ok1 || !ok2 || a.ID == b.ID || !a.T.Same(b.T) {
		return nil, nil
	}
	return a, b
}

// seesEqual reports whether a comparison cannot tell a value of a column from one that equals it.
// Texts that are equal by their collation differ in length, in another collation, and so on.
func seesEqual(n expr.Node, c *expr.Col) bool {
	if !textual(c.T) && c.T.Kind != expr.JSON {
		return true
	}
	var cmp expr.Type
	switch n := n.(type) {
	case *expr.Call:
		cmp = n.Cmp
	case *expr.In:
		cmp = n.Cmp
	}
	return cmp.Same(c.T) && slices.ContainsFunc(n.Children(), func(x expr.Node) bool {
		k, ok := x.(*expr.Col)
		return ok && k.ID == c.ID
	})
}

// plain reports whether an expression is a column, as it is or in another type that has all its
// values: nothing that fails, or warns, for a row that no other one matches.
func plain(n expr.Node) bool {
	c, ok := n.(*expr.Cast)
	if !ok {
		_, ok = n.(*expr.Col)
		return ok
	}
	if _, ok := c.Arg.(*expr.Col); !ok {
		return false
	}
	switch from := c.Arg.Type(); from.Kind {
	case expr.Text, expr.Bytes, expr.JSON, expr.Opaque, expr.Duration:
		return from.Same(c.T)
	case expr.Decimal, expr.Float:
		return !c.T.Integer()
	}
	return true
}

// rename makes a condition on one column one on another that equals it; nil if it is no comparison
// of that column itself with constants.
func (o *optimizer) rename(c expr.Node, from, to *expr.Col) expr.Node {
	switch x := c.(type) {
	case *expr.Call:
		switch x.Fn.Name {
		case "=", "<", "<=", ">", ">=":
		default:
			return nil
		}
	case *expr.In:
		if x.Not {
			return nil
		}
	default:
		return nil
	}
	cs := colsOf(c)
	if len(cs) != 1 || !cs[from.ID] || hasSub(c) || !seesEqual(c, from) || !slices.ContainsFunc(c.Children(), plain) {
		return nil
	}
	if slices.ContainsFunc(c.Children(), func(n expr.Node) bool { return len(colsOf(n)) > 0 && !plain(n) }) {
		return nil
	}
	n, err := substitute(c, map[expr.ColID]expr.Node{from.ID: to})
	if err != nil {
		return nil
	}
	return n
}
