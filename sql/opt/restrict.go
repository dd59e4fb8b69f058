package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// restrictGroups has groups computed only for the keys that a join asks for, where that is cheaper.
// A correlated aggregate has become a join with the groups of the whole table; if the other side
// has few rows, they are kept, and the table is joined with their distinct keys before it is
// grouped. That is what evaluating the subquery for each row would read, in batches.
func (o *optimizer) restrictGroups(p *Plan) {
	if len(o.outer) > 0 { // the rows that are kept would be those of one outer row
		return
	}
	for _, in := range p.In {
		if p.Op != OpGroup && p.Op != OpSetOp && p.Op != OpShared {
			before := in.Cost()
			o.restrictGroups(in)
			p.CPU -= before - in.Cost()
		}
	}
	if p.Op != OpHashJoin || p.Kind != algebra.Inner && p.Kind != algebra.Left {
		return
	}
	for i := range p.In {
		if i == 0 && p.Kind == algebra.Left {
			continue
		}
		if o.restrict(p, i) {
			return
		}
	}
}

// mostRestricted is how many rows are kept at most to restrict groups.
const mostRestricted = 100_000

// restrict tries it for one side of a hash join.
func (o *optimizer) restrict(p *Plan, side int) bool {
	g, other := p.In[side], p.In[1-side]
	if g.Op != OpGroup || g.Group.Rollup || other.Op == OpShared || other.Rows > mostRestricted || other.Rows > g.In[0].Rows || usesWorking(other) {
		return false
	}
	mine, theirs := p.RightKeys, p.LeftKeys
	if side == 0 {
		mine, theirs = theirs, mine
	}
	number := 1<<20 + len(o.kept)
	kept := &algebra.Shared{Number: number, Name: "the rows to join", From: other.Cols, IDs: slices.Clone(other.Cols)}
	keys := &algebra.Shared{Number: number, Name: kept.Name, From: other.Cols}
	fresh := map[expr.ColID]expr.ColID{}
	for _, id := range other.Cols {
		fresh[id] = o.newID()
		keys.IDs = append(keys.IDs, fresh[id])
		o.ndv[fresh[id]] = o.distinctIn(other, id)
	}
	few, on := &algebra.Project{In: keys}, []expr.Node(nil)
	for k, n := range mine {
		inner := groupKey(g.Group, n)
		if inner == nil || !inner.Type().Same(theirs[k].Type()) {
			continue
		}
		outer, err := substitute(theirs[k], columnsTo(theirs[k], fresh))
		if err != nil {
			return false
		}
		it := algebra.Item{ID: o.newID(), Node: outer}
		eq, err := call("=", &expr.Col{ID: it.ID, T: outer.Type()}, inner)
		if err != nil {
			return false
		}
		few.Items, on = append(few.Items, it), append(on, eq)
	}
	if len(on) == 0 {
		return false
	}
	o.kept[number] = other
	return o.restricted(p, side, kept, few, on)
}

// restricted plans the groups of few keys, and takes the plan if it is cheaper.
func (o *optimizer) restricted(p *Plan, side int, kept *algebra.Shared, few *algebra.Project, on []expr.Node) bool {
	g, other := p.In[side], p.In[1-side]
	group := *g.Group
	group.In = &algebra.Join{Kind: algebra.Inner, L: &algebra.Distinct{In: few, On: few.Cols()}, R: g.Group.In, On: on}
	q := o.groupPlan(&group, setOf(g.Cols))
	reader := &Plan{Op: OpShared, Shared: kept, In: []*Plan{other}, Kept: other, Cols: kept.IDs, Rows: other.Rows, Lat: other.Lat,
		CPU: other.CPU + other.Rows*buildRow}
	if q.CPU+q.Lat+other.Rows*buildRow+other.Lat >= g.CPU+g.Lat {
		return false
	}
	p.CPU -= g.CPU - q.CPU - other.Rows*buildRow
	p.Lat = other.Lat + q.Lat
	p.In = slices.Clone(p.In)
	p.In[side], p.In[1-side] = q, reader
	return true
}

// groupKey is what a key of a group is made of, if n is a column of such a key.
func groupKey(g *algebra.GroupBy, n expr.Node) expr.Node {
	c, ok := n.(*expr.Col)
	if !ok {
		return nil
	}
	for _, k := range g.Keys {
		if k.ID == c.ID {
			return k.Node
		}
	}
	return nil
}

// columnsTo renames the columns of an expression.
func columnsTo(n expr.Node, to map[expr.ColID]expr.ColID) map[expr.ColID]expr.Node {
	by := map[expr.ColID]expr.Node{}
	expr.Walk(n, func(n expr.Node) bool {
		if c, ok := n.(*expr.Col); ok && to[c.ID] != 0 {
			d := *c
			d.ID = to[c.ID]
			by[c.ID] = &d
		}
		return true
	})
	return by
}

// usesWorking reports whether rows differ from one round of a recursive CTE to the next.
func usesWorking(p *Plan) bool {
	found := false
	p.Each(func(p *Plan) { found = found || p.Op == OpCTERef })
	return found
}
