package opt

import (
	"math"
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/expr"
)

// baseCol is a column of a table that is read.
type baseCol struct {
	scan *algebra.Scan
	pos  int
}

// learn notes the statistics of the columns of a table.
func (o *optimizer) learn(s *algebra.Scan) {
	rows := tableRows(s.Table)
	for i, c := range s.Table.Columns() {
		d := s.Table.Distinct(i) * rows / max(1, min(s.Table.Rows(), rows))
		if d <= 0 {
			d = max(1, rows/10)
			if c.Type.Kind == expr.Enum {
				d = float64(len(c.Type.Values))
			}
			for _, x := range s.Table.Indexes() {
				if (x.Unique || x.Primary) && len(x.Cols) == 1 && x.Cols[0].Col == i {
					d = rows
				}
			}
		}
		o.ndv[s.IDs[i]] = min(d, rows)
		o.base[s.IDs[i]] = baseCol{s, i}
	}
}

// distinct estimates the distinct values of an expression among rows.
func (o *optimizer) distinct(n expr.Node, rows float64) float64 {
	switch n := n.(type) {
	case *expr.Col:
		if d, ok := o.ndv[n.ID]; ok {
			return max(1, min(d, rows))
		}
	case *expr.Cast:
		return o.distinct(n.Arg, rows)
	case *expr.Const, *expr.Param:
		return 1
	}
	return max(1, min(rows/10, math.Sqrt(rows))) // functions have fewer values than columns
}

// selectivity estimates the share of rows for which a condition is TRUE.
func (o *optimizer) selectivity(n expr.Node, rows float64) float64 {
	if f, ok := o.sampled([]expr.Node{n}); ok {
		return f
	}
	switch n := n.(type) {
	case *expr.Const:
		if n.V.IsNull() || n.V.Kind == expr.Int && n.V.I == 0 {
			return 0
		}
		return 1
	case *expr.In:
		f := min(1, float64(len(n.List))/o.distinct(n.Left, rows))
		if n.Not {
			return 1 - f
		}
		return f
	case *expr.Call:
		return o.callSelectivity(n, rows)
	}
	return 0.33
}

func (o *optimizer) callSelectivity(n *expr.Call, rows float64) float64 {
	switch n.Fn.Name {
	case "=", "<=>":
		return 1 / max(o.distinct(n.Args[0], rows), o.distinct(n.Args[1], rows))
	case "<>":
		return 1 - 1/o.distinct(n.Args[0], rows)
	case "<", "<=", ">", ">=":
		return 0.3
	case "between":
		return 0.15
	case "and":
		return o.selectivity(n.Args[0], rows) * o.selectivity(n.Args[1], rows)
	case "or":
		a, b := o.selectivity(n.Args[0], rows), o.selectivity(n.Args[1], rows)
		return min(1, a+b-a*b)
	case "not":
		return 1 - o.selectivity(n.Args[0], rows)
	case "like":
		return 0.1
	case "isnull":
		return 0.05
	}
	return 0.33
}

// sampled is the share of rows for which conditions on one column are TRUE, by what is known of its
// values; ok is false if they are others, or nothing is known.
func (o *optimizer) sampled(conds []expr.Node) (share float64, ok bool) {
	c, ok := o.compares(conds[0])
	if !ok {
		return 0, false
	}
	id := c.scan.IDs[c.pos]
	b := o.boundsOf(id, c.scan.Table.Columns()[c.pos].Type, conds)
	if b == nil {
		return 0, false
	}
	switch {
	case b.eq == nil && b.begin != nil:
		return o.beginning(c.scan.Table, c.pos, b.begin)
	case b.eq == nil:
		return o.portion(c, b.lo, b.hi)
	}
	for i, v := range b.eq {
		o.atValue(i)
		f, ok := o.portion(c, v, v)
		if !ok {
			return 0, false
		}
		share += f
	}
	return min(share, 1), true
}

// portion is the share of rows between two constants, of which one may be missing.
func (o *optimizer) portion(c baseCol, lo, hi expr.Node) (share float64, ok bool) {
	var b [2]any
	for i, n := range []expr.Node{lo, hi} {
		if n == nil {
			continue
		}
		k, ok := n.(*expr.Const)
		if !ok {
			return 0, false
		}
		b[i] = k.V
	}
	return c.scan.Table.Fraction(c.pos, b[0], b[1])
}

// compares is the column that a condition compares with constants.
func (o *optimizer) compares(n expr.Node) (c baseCol, ok bool) {
	switch n := n.(type) {
	case *expr.In:
	case *expr.Call:
		if _, ok := flipped[n.Fn.Name]; !ok && n.Fn.Name != "between" && n.Fn.Name != "like" {
			return c, false
		}
	default:
		return c, false
	}
	cols := colsOf(n)
	if len(cols) != 1 {
		return c, false
	}
	for id := range cols {
		c, ok = o.base[id]
		if like, is := n.(*expr.Call); ok && is && like.Fn.Name == "like" {
			ok = (&bounds{}).like(like, id, c.scan.Table.Columns()[c.pos].Type)
		}
	}
	return c, ok
}

// filtered estimates the rows that conditions leave. Those that bound one column are one.
func (o *optimizer) filtered(rows float64, conds []expr.Node) float64 {
	var shares []float64
	byCol := map[expr.ColID][]expr.Node{}
	var cols []expr.ColID
	for _, n := range conds {
		if c, ok := o.compares(n); ok {
			id := c.scan.IDs[c.pos]
			if byCol[id] == nil {
				cols = append(cols, id)
			}
			byCol[id] = append(byCol[id], n)
			continue
		}
		shares = append(shares, o.selectivity(n, rows))
	}
	for _, id := range cols {
		if f, ok := o.sampled(byCol[id]); ok {
			shares = append(shares, f)
			continue
		}
		for _, n := range byCol[id] {
			shares = append(shares, o.selectivity(n, rows))
		}
	}
	slices.Sort(shares)
	f := 1.0
	for i, s := range shares {
		if i > 0 {
			s = math.Sqrt(s) // conditions are seldom independent
		}
		f *= s
	}
	return max(rows*f, min(rows, 0.1))
}

// joinRows estimates the rows of an inner join.
func (o *optimizer) joinRows(a, b float64, conds []expr.Node) float64 {
	rows := a * b
	keys := map[*algebra.Scan]*joinKeys{}
	for _, c := range conds {
		if eq, ok := isCall(c, "="); ok {
			d := max(o.distinct(eq.Args[0], max(a, b)), o.distinct(eq.Args[1], max(a, b)))
			rows /= d
			for _, x := range eq.Args {
				if col, ok := x.(*expr.Col); ok {
					o.joinKey(keys, col.ID, d)
				}
			}
			continue
		}
		rows *= o.beyondImplied(c, o.selectivity(c, max(a, b)))
	}
	// The columns of a key are not independent: together they have as many values as the table has
	// rows.
	most := 1.0
	for s, k := range keys {
		if n := tableRows(s.Table); k.distinct > n && unique(s, k.cols) {
			most = max(most, k.distinct/n)
		}
	}
	return max(min(rows*most, a*b), 0.1)
}

// beyondImplied is what is left of the share of a disjunction when what it implies of each table
// was tested before.
func (o *optimizer) beyondImplied(c expr.Node, share float64) float64 {
	if _, ok := isCall(c, "or"); !ok {
		return share
	}
	seen := map[*algebra.Scan]bool{}
	for _, id := range colsOf(c).sorted() {
		b, ok := o.base[id]
		if !ok || seen[b.scan] {
			continue
		}
		seen[b.scan] = true
		for _, n := range o.implied([]expr.Node{c}, setOf(b.scan.IDs)) {
			share /= max(o.selectivity(n, tableRows(b.scan.Table)), 1e-6)
		}
	}
	return min(share, 1)
}

// distinctIn estimates the distinct values of a column among the rows of a plan: no more than any
// operator that it comes through has rows, nor than what it was equated with.
func (o *optimizer) distinctIn(p *Plan, id expr.ColID) float64 {
	d := p.Rows
	if x, ok := o.ndv[id]; ok {
		d = min(d, x)
	}
	for _, in := range p.In {
		if slices.Contains(in.Cols, id) {
			d = min(d, o.distinctIn(in, id))
		}
	}
	if p.Kind != algebra.Inner || len(p.LeftKeys) != len(p.RightKeys) {
		return max(1, d)
	}
	for i := range p.LeftKeys {
		l, ok1 := p.LeftKeys[i].(*expr.Col)
		r, ok2 := p.RightKeys[i].(*expr.Col)
		if !ok1 || !ok2 || l.ID != id && r.ID != id {
			continue
		}
		other := l.ID
		if other == id {
			other = r.ID
		}
		for _, in := range p.In {
			if slices.Contains(in.Cols, other) {
				d = min(d, o.distinctIn(in, other))
			}
		}
	}
	return max(1, d)
}

// joinKeys are the columns of a table that a join compares, and the product of their values.
type joinKeys struct {
	cols     set
	distinct float64
}

func (o *optimizer) joinKey(keys map[*algebra.Scan]*joinKeys, id expr.ColID, d float64) {
	c, ok := o.base[id]
	if !ok {
		return
	}
	k := keys[c.scan]
	if k == nil {
		k = &joinKeys{set{}, 1}
		keys[c.scan] = k
	}
	k.cols[id] = true
	k.distinct *= d
}

// groups estimates the number of groups.
func (o *optimizer) groups(rows float64, keys []algebra.Item) float64 {
	g := 1.0
	for _, k := range keys {
		g *= o.distinct(k.Node, rows)
	}
	return max(1, min(g, rows))
}
