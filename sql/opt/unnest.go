package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// unnest makes Apply of all subqueries in expressions.
func (o *optimizer) unnest(r algebra.Rel) algebra.Rel {
	return algebra.Rewrite(r, func(r algebra.Rel) algebra.Rel {
		if !anySub(r) {
			return r
		}
		switch r := r.(type) {
		case *algebra.Filter:
			return o.unnestFilter(r)
		case *algebra.Join:
			return o.unnestJoin(r)
		case *algebra.Project, *algebra.GroupBy, *algebra.Sort, *algebra.Window, *algebra.Unfold:
			return o.unnestOver(r)
		case *algebra.Values:
			return o.unnestValues(r)
		}
		o.fail(left("subquery in another place"))
		return r
	})
}

func anySub(r algebra.Rel) bool {
	for _, n := range r.Nodes() {
		if hasSub(n) {
			return true
		}
	}
	return false
}

// unnestOver computes the subqueries of an operator below it.
func (o *optimizer) unnestOver(r algebra.Rel) algebra.Rel {
	defer o.apart()()
	in := r.Inputs()[0]
	cols := r.Cols()
	_, agg := r.(*algebra.GroupBy)
	out := r.MapNodes(func(n expr.Node) expr.Node {
		var m expr.Node
		in, m = o.replaceSubs(in, n, false)
		return m
	})
	out = out.WithInputs([]algebra.Rel{in})
	if _, project := r.(*algebra.Project); project || agg {
		return out
	}
	return narrow(out, cols, r.Inputs()[0])
}

// narrow hides what an operator hands on of the columns that were added below it.
func narrow(r algebra.Rel, cols []expr.ColID, types algebra.Rel) algebra.Rel {
	t := typesOf(types)
	p := &algebra.Project{In: r}
	for _, id := range cols {
		p.Items = append(p.Items, algebra.Item{ID: id, Node: &expr.Col{ID: id, T: t[id]}})
	}
	return p
}

func (o *optimizer) unnestValues(r *algebra.Values) algebra.Rel {
	if len(r.Rows) != 1 {
		o.fail(left("subquery in VALUES"))
		return r
	}
	p := &algebra.Project{In: &algebra.Values{Rows: [][]expr.Node{{}}}}
	for i, id := range r.IDs {
		p.Items = append(p.Items, algebra.Item{ID: id, Node: r.Rows[0][i]})
	}
	return o.unnestOver(p)
}

func (o *optimizer) unnestJoin(j *algebra.Join) algebra.Rel {
	var plain, subs []expr.Node
	for _, c := range j.On {
		if hasSub(c) {
			subs = append(subs, c)
		} else {
			plain = append(plain, c)
		}
	}
	out := *j
	out.On = plain
	switch {
	case j.Kind == algebra.Inner:
		return o.unnestFilter(&algebra.Filter{In: &out, Conds: subs})
	case j.Kind == algebra.Left:
		return o.unnestOuter(j, plain, subs)
	}
	o.fail(left("subquery in ON"))
	return j
}

// unnestOuter handles conditions of an outer join that have subqueries: those that ask the right
// side alone filter it, and the value of a subquery that asks one side is a column of that side.
// What asks both sides at once is evaluated for each row of the left one.
func (o *optimizer) unnestOuter(j *algebra.Join, plain, subs []expr.Node) algebra.Rel {
	defer o.apart()()
	l, r := setOf(j.L.Cols()), setOf(j.R.Cols())
	for _, c := range subs {
		if asksBoth(c, l, r) {
			return o.outerApply(j, l)
		}
	}
	out := *j
	out.On = plain
	var right []expr.Node
	for _, c := range subs {
		if !colsOf(c).meets(l) {
			right = append(right, c)
			continue
		}
		m := o.replaceOn(&out, r, c, false)
		out.On = append(out.On, m)
	}
	if len(right) > 0 {
		out.R = o.unnestFilter(&algebra.Filter{In: out.R, Conds: right})
	}
	if o.err != nil {
		return j
	}
	return onlyCols(&out, j.Cols())
}

// replaceOn makes columns of the subqueries in a condition of a join: of its right side, whose
// columns r are, if they ask that one, else of its left side.
func (o *optimizer) replaceOn(j *algebra.Join, r set, n expr.Node, branch bool) expr.Node {
	if !hasSub(n) || o.err != nil {
		return n
	}
	if s, ok := n.(*expr.Sub); ok {
		side := &j.L
		if colsOf(s).meets(r) {
			side = &j.R
		}
		in, col := o.column(*side, s, branch)
		*side = in
		return col
	}
	ch := n.Children()
	fresh := make([]expr.Node, len(ch))
	for i, c := range ch {
		fresh[i] = o.replaceOn(j, r, c, branch || i > 0 && lazy(n))
	}
	m, err := n.With(fresh)
	if err != nil {
		o.fail(err)
		return n
	}
	return m
}

// asksBoth reports whether a subquery in a condition uses columns of both sides.
func asksBoth(c expr.Node, l, r set) bool {
	both := false
	expr.Walk(c, func(n expr.Node) bool {
		if s, ok := n.(*expr.Sub); ok {
			cols := colsOf(s)
			both = both || cols.meets(l) && cols.meets(r)
		}
		return !both
	})
	return both
}

// outerApply joins each row of the left side with the rows of the right one for which the
// conditions hold.
func (o *optimizer) outerApply(j *algebra.Join, l set) algebra.Rel {
	a := &algebra.Apply{Kind: algebra.Left, L: j.L, R: o.unnestFilter(&algebra.Filter{In: j.R, Conds: j.On})}
	for _, id := range free(a.R).sorted() {
		if l[id] {
			a.Outer = append(a.Outer, id)
		}
	}
	return onlyCols(a, j.Cols())
}

// unnestFilter makes joins of subqueries that are conditions, and columns of the others.
func (o *optimizer) unnestFilter(f *algebra.Filter) algebra.Rel {
	defer o.apart()()
	in := f.In
	cols := in.Cols()
	var plain, subs, later []expr.Node
	for _, c := range split(f.Conds...) {
		if hasSub(c) {
			subs = append(subs, c)
		} else {
			plain = append(plain, c)
		}
	}
	in = filter(in, plain)
	in, subs, added := o.constantSubs(in, subs)
	for _, c := range subs {
		if a := o.condition(in, c); a != nil {
			in = a
			continue
		}
		later = append(later, c)
	}
	if len(later) == 0 {
		if added {
			return narrow(in, cols, f.In)
		}
		return in
	}
	var conds []expr.Node
	for _, c := range later {
		var m expr.Node
		in, m = o.replaceSubs(in, c, false)
		conds = append(conds, m)
	}
	return narrow(filter(in, conds), cols, f.In)
}

// constantSubs tests the conditions first whose subqueries have one value for all rows: that costs
// one row each, and fewer rows are left to look up for the others.
func (o *optimizer) constantSubs(in algebra.Rel, subs []expr.Node) (out algebra.Rel, rest []expr.Node, added bool) {
	var conds []expr.Node
	for _, c := range subs {
		once := !volatile(c)
		expr.Walk(c, func(n expr.Node) bool {
			if s, ok := n.(*expr.Sub); ok {
				once = once && s.Kind == expr.SubScalar && len(s.Outer) == 0
			}
			return once
		})
		if !once {
			rest = append(rest, c)
			continue
		}
		var m expr.Node
		in, m = o.replaceSubs(in, c, false)
		conds = append(conds, m)
	}
	return filter(in, conds), rest, len(conds) > 0
}

var negated = map[string]string{"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}

// condition makes a join of a subquery that is a whole condition; nil if it is none of those.
func (o *optimizer) condition(in algebra.Rel, c expr.Node) algebra.Rel {
	neg := false
	for {
		n, ok := isCall(c, "not")
		if !ok {
			break
		}
		neg, c = !neg, n.Args[0]
	}
	s, ok := c.(*expr.Sub)
	if !ok || s.Kind == expr.SubScalar || subsIn(s.Left) {
		return nil
	}
	rel := o.unnest(s.Rel.(algebra.Rel))
	a := &algebra.Apply{Kind: algebra.Semi, L: in, R: rel, Outer: s.Outer}
	if s.Kind == expr.SubExists {
		if neg {
			a.Kind = algebra.Anti
		}
		return a
	}
	cmp := s.Cmp
	// ALL is "no row for which the contrary holds"; NOT ANY "no row for which it holds".
	if s.Kind == expr.SubAll {
		cmp = negated[cmp]
		neg = !neg
	}
	a.On = o.compare(cmp, s.Left, rel)
	if !neg {
		return a
	}
	a.Kind = algebra.NullAnti
	if cmp != "=" {
		a.Kind, a.On = algebra.Anti, o.notFalse(a.On)
	}
	return a
}

// notFalse is the condition that others are TRUE or unknown.
func (o *optimizer) notFalse(on []expr.Node) []expr.Node {
	if o.err != nil {
		return nil
	}
	c, err := joinAnd(on)
	if err == nil && mayNull(c) {
		c, err = call("isnotfalse", c)
	}
	o.fail(err)
	return []expr.Node{c}
}

func subsIn(ns []expr.Node) bool {
	for _, n := range ns {
		if hasSub(n) {
			return true
		}
	}
	return false
}

// compare compares the left sides with the columns of a subquery.
func (o *optimizer) compare(cmp string, left []expr.Node, rel algebra.Rel) (on []expr.Node) {
	t := typesOf(rel)
	ids := rel.Cols()
	for i, l := range left {
		n, err := call(cmp, l, &expr.Col{ID: ids[i], T: t[ids[i]]})
		if err != nil {
			o.fail(err)
			return nil
		}
		on = append(on, n)
	}
	if len(on) > 1 && cmp != "=" {
		// A row differs if one of its columns does.
		n, err := joinOr(on)
		if err != nil {
			o.fail(err)
			return nil
		}
		return []expr.Node{n}
	}
	return on
}

// replaceSubs makes columns of the subqueries in an expression, computed above in.
func (o *optimizer) replaceSubs(in algebra.Rel, n expr.Node, branch bool) (algebra.Rel, expr.Node) {
	if !hasSub(n) {
		return in, n
	}
	if s, ok := n.(*expr.Sub); ok {
		return o.column(in, s, branch)
	}
	ch := n.Children()
	fresh := make([]expr.Node, len(ch))
	for i, c := range ch {
		in, fresh[i] = o.replaceSubs(in, c, branch || i > 0 && lazy(n))
	}
	m, err := n.With(fresh)
	if err != nil {
		o.fail(err)
		return in, n
	}
	return in, m
}

// lazy reports whether arguments but the first are evaluated for some rows only.
func lazy(n expr.Node) bool {
	switch n := n.(type) {
	case *expr.Case:
		return true
	case *expr.Call:
		switch n.Fn.Name {
		case "and", "or", "if", "ifnull", "coalesce", "nullif":
			return true
		}
	}
	return false
}

// column makes a column of a subquery.
func (o *optimizer) column(in algebra.Rel, s *expr.Sub, branch bool) (algebra.Rel, expr.Node) {
	if n := o.made[s.Number]; n != nil {
		return in, n
	}
	out, n := o.newColumn(in, s, branch)
	if s.Number != 0 && o.made != nil {
		o.made[s.Number] = n
	}
	return out, n
}

// apart begins an operator whose subqueries are columns of its own.
func (o *optimizer) apart() (restore func()) {
	was := o.made
	o.made = map[expr.ColID]expr.Node{}
	return func() { o.made = was }
}

func (o *optimizer) newColumn(in algebra.Rel, s *expr.Sub, branch bool) (algebra.Rel, expr.Node) {
	rel := o.unnest(s.Rel.(algebra.Rel))
	a := &algebra.Apply{L: in, R: rel, Outer: s.Outer}
	if s.Kind == expr.SubScalar {
		if branch && !oneRow(rel) {
			return o.oneOfMany(a, s)
		}
		a.Kind = algebra.Single
		id := rel.Cols()[0]
		return a, &expr.Col{ID: id, T: s.T.AsNull()}
	}
	sides := slices.Clone(s.Left)
	for i, l := range sides {
		a.L, sides[i] = o.replaceSubs(a.L, l, branch)
	}
	a.Kind, a.MarkID = algebra.Mark, o.newID()
	var out algebra.Rel = a
	var mark expr.Node = &expr.Col{ID: a.MarkID, T: expr.TypeBool}
	var err error
	switch s.Kind {
	case expr.SubExists:
		mark, err = call("istrue", mark)
	case expr.SubAny:
		out, mark = o.marks(a, s.Cmp, sides, rel)
	default:
		if out, mark = o.marks(a, negated[s.Cmp], sides, rel); o.err == nil {
			mark, err = call("not", mark)
		}
	}
	if err != nil {
		o.fail(err)
	}
	return out, mark
}

// oneOfMany is the value of a scalar subquery that may not be asked for: that it has several rows
// is an error only where it is. It counts them.
func (o *optimizer) oneOfMany(a *algebra.Apply, s *expr.Sub) (algebra.Rel, expr.Node) {
	id := a.R.Cols()[0]
	g := &algebra.GroupBy{In: a.R}
	var cols []expr.Node
	for _, x := range []struct {
		name string
		args []expr.Node
	}{{"any_value", []expr.Node{&expr.Col{ID: id, T: s.T.AsNull()}}}, {"count", nil}} {
		n, err := expr.NewAgg(expr.LookupAgg(x.name), x.args, false, nil, "")
		if err != nil {
			o.fail(err)
			return a.L, s
		}
		agg := algebra.Agg{ID: o.newID(), Name: x.name, Call: n.(*expr.Agg)}
		g.Aggs = append(g.Aggs, agg)
		cols = append(cols, &expr.Col{ID: agg.ID, T: n.Type().AsNull()})
	}
	a.Kind, a.R = algebra.Single, g
	n, err := call("$one_row", cols...)
	o.fail(err)
	return a, n
}

// marks lets a mark join compare; the result is the value of ANY.
func (o *optimizer) marks(a *algebra.Apply, cmp string, sides []expr.Node, rel algebra.Rel) (algebra.Rel, expr.Node) {
	var mark expr.Node = &expr.Col{ID: a.MarkID, T: expr.TypeBool}
	on := o.compare(cmp, sides, rel)
	if cmp == "=" {
		a.On = on
		return a, mark
	}
	a.Also = on
	switch {
	case o.err != nil:
		return a, mark
	case anyNull(on):
		return o.unknownMark(a, on, mark)
	}
	// It is unknown where an equality of the subquery's own conditions is: no such row counts.
	mark, err := call("istrue", mark)
	o.fail(err)
	return a, mark
}

// unknownMark adds a second mark: whether a comparison of ANY is unknown, where none is TRUE.
func (o *optimizer) unknownMark(a *algebra.Apply, on []expr.Node, mark expr.Node) (algebra.Rel, expr.Node) {
	if algebra.Volatile(a.R) {
		o.fail(left("ANY or ALL over what is evaluated once"))
		return a, mark
	}
	b := &algebra.Apply{Kind: algebra.Mark, L: a, R: a.R, Outer: a.Outer, MarkID: o.newID()}
	unknown, err := joinAnd(on)
	if err == nil {
		unknown, err = call("isnull", unknown)
	}
	var is, may, value expr.Node
	if err == nil {
		b.Also = []expr.Node{unknown}
		is, err = call("istrue", mark)
	}
	if err == nil {
		may, err = call("istrue", &expr.Col{ID: b.MarkID, T: expr.TypeBool})
	}
	if err == nil {
		value, err = expr.NewCase([]expr.Node{is, may}, []expr.Node{expr.Bool(true), expr.NullConst()}, expr.Bool(false))
	}
	if err != nil {
		o.fail(err)
		return a, mark
	}
	return b, value
}

// oneRow reports whether a relation has one row at most.
func oneRow(r algebra.Rel) bool {
	switch r := r.(type) {
	case *algebra.Project:
		return oneRow(r.In)
	case *algebra.Filter:
		return oneRow(r.In)
	case *algebra.Sort:
		return oneRow(r.In)
	case *algebra.Distinct:
		return oneRow(r.In)
	case *algebra.Window:
		return oneRow(r.In)
	case *algebra.Max1Row:
		return true
	case *algebra.GroupBy:
		return len(r.Keys) == 0
	case *algebra.Values:
		return len(r.Rows) <= 1
	case *algebra.Limit:
		c, ok := r.Count.(*expr.Const)
		return ok && c.V.I <= 1 || oneRow(r.In)
	}
	return false
}
