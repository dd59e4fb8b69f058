package opt

import (
	"math"
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
)

// physical plans a relation; need are the columns wanted above.
func (o *optimizer) physical(r algebra.Rel, need set) *Plan {
	o.check()
	switch r := r.(type) {
	case *algebra.Scan:
		return o.scan(r, nil, need)
	case *algebra.Filter:
		return o.filterPlan(r, need)
	case *algebra.Project:
		return o.projectPlan(r, need)
	case *algebra.Join:
		return o.joinPlan(r, need)
	case *algebra.Apply:
		return o.applyPlan(r, need)
	case *algebra.GroupBy:
		return o.groupPlan(r, need)
	case *algebra.Sort:
		return o.sortPlan(r, need, nil, nil)
	case *algebra.Limit:
		return o.limitPlan(r, need)
	case *algebra.Distinct:
		in := o.physical(r.In, setOf(r.On))
		rows, cpu := o.distinctRows(r.On, in.Rows), in.CPU+in.Rows*groupRow
		return &Plan{Op: OpDistinct, In: []*Plan{in}, Cols: r.On, Rows: rows, Lat: in.Lat, CPU: cpu}
	}
	return o.otherPlan(r, need)
}

// distinctRows estimates how many combinations of values columns have.
func (o *optimizer) distinctRows(cols []expr.ColID, rows float64) float64 {
	n := 1.0
	for _, id := range cols {
		d, ok := o.ndv[id]
		if !ok {
			return max(1, rows/2)
		}
		n *= max(1, d)
	}
	return max(1, min(n, rows))
}

func (o *optimizer) otherPlan(r algebra.Rel, need set) *Plan {
	switch r := r.(type) {
	case *algebra.Values:
		return &Plan{Op: OpValues, Rowset: r, Cols: r.IDs, Rows: float64(len(r.Rows))}
	case *algebra.Window:
		return o.windowPlan(r, need)
	case *algebra.SetOp:
		return o.setPlan(r)
	case *algebra.Unfold:
		want := colsOf(r.Doc)
		for _, id := range r.In.Cols() {
			if need[id] {
				want[id] = true
			}
		}
		in := o.physical(r.In, want)
		return &Plan{Op: OpUnfold, Unfold: r, In: []*Plan{in}, Cols: slices.Concat(in.Cols, r.IDs), Rows: in.Rows * unfolded,
			Lat: in.Lat, CPU: in.CPU + in.Rows*unfoldRow}
	case *algebra.Max1Row:
		in := o.physical(r.In, setOf(r.In.Cols()))
		return &Plan{Op: OpMax1Row, In: []*Plan{in}, Cols: in.Cols, Rows: 1, Lat: in.Lat, CPU: in.CPU}
	case *algebra.RecursiveCTE:
		seed, step := o.physical(r.Seed, setOf(r.SeedCols)), o.physical(r.Step, setOf(r.StepCols))
		return &Plan{
			Op: OpRecursive, CTE: r, In: []*Plan{seed, step}, Cols: r.IDs,
			Rows: seed.Rows * 10, Lat: seed.Lat + 10*step.Lat, CPU: seed.CPU + 10*step.CPU,
		}
	case *algebra.Shared:
		return o.sharedPlan(r)
	case *algebra.CTERef:
		return &Plan{Op: OpCTERef, Ref: r, Cols: r.IDs, Rows: 10}
	}
	o.fail(left("operator without a plan"))
	return &Plan{Op: OpValues, Rowset: &algebra.Values{}}
}

// sharedPlan reads what runs once for all of its readers. The first reader counts what it costs.
func (o *optimizer) sharedPlan(r *algebra.Shared) *Plan {
	if in := o.kept[r.Number]; in != nil {
		return &Plan{Op: OpShared, Shared: r, Kept: in, Cols: r.IDs, Rows: in.Rows}
	}
	// It depends on nothing around it.
	outer := o.outer
	o.outer = set{}
	in := o.physical(o.rewrite(r.In), setOf(r.From))
	o.outer = outer
	o.kept[r.Number] = in
	return &Plan{Op: OpShared, Shared: r, In: []*Plan{in}, Kept: in, Cols: r.IDs, Rows: in.Rows, Lat: in.Lat, CPU: in.CPU}
}

// where checks conditions above a plan, cheap and selective ones first.
func (o *optimizer) where(p *Plan, conds []expr.Node, _ set) *Plan {
	if len(conds) == 0 {
		return p
	}
	if !anyVolatile(conds) {
		conds = slices.Clone(conds)
		slices.SortStableFunc(conds, func(a, b expr.Node) int {
			x, y := o.selectivity(a, p.Rows), o.selectivity(b, p.Rows)
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
	}
	rows := o.filtered(p.Rows, conds)
	if p.Op == OpScan && p.Index != "" { // the ranges said a part of it already
		rows = max(min(p.Rows, o.filtered(tableRows(p.Scan.Table), conds)), 0.1)
	}
	cpu := p.CPU + p.Rows*filterRow*float64(len(conds))
	return &Plan{Op: OpFilter, In: []*Plan{p}, Cols: p.Cols, Conds: conds, Rows: rows, Lat: p.Lat, CPU: cpu}
}

func (o *optimizer) filterPlan(f *algebra.Filter, need set) *Plan {
	switch in := f.In.(type) {
	case *algebra.Scan:
		return o.scan(in, f.Conds, need)
	case *algebra.Join:
		if in.Kind == algebra.Inner && !isNothing(f) && !in.Straight && !anyVolatile(f.Conds) {
			j := *in
			j.On = slices.Concat(in.On, f.Conds)
			return o.inner(&j, need)
		}
	}
	if isNothing(f) {
		return nothingPlan(f.In, need)
	}
	p := o.physical(f.In, need.clone().addNodes(f.Conds...))
	return o.where(p, f.Conds, need)
}

func (o *optimizer) projectPlan(r *algebra.Project, need set) *Plan {
	var items []algebra.Item
	below, pass := set{}, true
	for _, it := range r.Items {
		if !need[it.ID] && !volatile(it.Node) {
			continue
		}
		items = append(items, it)
		below.addNodes(it.Node)
		pass = pass && it.Pass()
	}
	in := o.physical(r.In, below)
	for _, it := range items {
		if !it.Pass() {
			o.ndv[it.ID] = o.distinct(it.Node, in.Rows)
		}
	}
	if pass {
		return in
	}
	cpu := in.CPU + in.Rows*filterRow*float64(len(items))
	p := &Plan{Op: OpProject, In: []*Plan{in}, Items: items, Rows: in.Rows, Lat: in.Lat, CPU: cpu}
	for _, it := range items {
		p.Cols = append(p.Cols, it.ID)
	}
	return p
}

func (o *optimizer) joinPlan(j *algebra.Join, need set) *Plan {
	if j.Kind == algebra.Inner {
		return o.inner(j, need)
	}
	ls, rs := setOf(j.L.Cols()), setOf(j.R.Cols())
	ln, rn := set{}, set{}
	for id := range need.clone().addNodes(j.Nodes()...) {
		if ls[id] {
			ln[id] = true
		}
		if rs[id] {
			rn[id] = true
		}
	}
	a, b := o.physical(j.L, ln), o.physical(j.R, rn)
	if j.Kind == algebra.Mark || j.Kind == algebra.NullAnti {
		return o.inJoin(j, a, b, need)
	}
	p := o.bestJoin(j.Kind, a, b, j.On, need, false)
	o.restrictGroups(p)
	return p
}

// inJoin plans NOT IN, and IN or EXISTS as a value.
func (o *optimizer) inJoin(j *algebra.Join, a, b *Plan, need set) *Plan {
	p := o.hashJoin(j.Kind, a, b, nil, need, o.resultRows(j.Kind, a, b, j.On))
	p.Conds = j.Also
	p.inKeys(j.On)
	if len(j.On) > 0 {
		p.Op, p.CPU = OpHashJoin, a.CPU+b.CPU+b.Rows*buildRow+a.Rows*probeRow
	} else if j.Kind == algebra.Mark { // EXISTS: the mark is tested for TRUE
		q := o.hashJoin(j.Kind, a, b, j.Also, need, p.Rows)
		p = q
	}
	if j.Kind == algebra.Mark {
		p.Mark = j.MarkID
		p.Cols = append(slices.Clone(p.Cols), j.MarkID)
	}
	return p
}

// inKeys takes comparisons apart.
func (p *Plan) inKeys(on []expr.Node) {
	for _, c := range on {
		eq := c.(*expr.Call)
		l, r := sameKeys(eq.Args[0], eq.Args[1])
		p.LeftKeys, p.RightKeys = append(p.LeftKeys, l), append(p.RightKeys, r)
	}
}

// sameKeys gives a NULL that is compared the type of the other side.
func sameKeys(l, r expr.Node) (expr.Node, expr.Node) {
	if a, b := l.Type(), r.Type(); a.Kind == expr.Null && b.Kind != expr.Null {
		l = &expr.Cast{Arg: l, T: b.AsNull()}
	} else if b.Kind == expr.Null && a.Kind != expr.Null {
		r = &expr.Cast{Arg: r, T: a.AsNull()}
	}
	return l, r
}

// bestJoin joins two plans in the cheapest way. swap: the sides may change places.
func (o *optimizer) bestJoin(kind algebra.JoinKind, a, b *Plan, conds []expr.Node, need set, swap bool) *Plan {
	rows := o.resultRows(kind, a, b, conds)
	best := o.hashJoin(kind, a, b, conds, need, rows)
	if p := o.lookupJoin(kind, a, b, conds, need, rows); p != nil && p.Cost() < best.Cost() {
		best = p
	}
	if !swap {
		return best
	}
	if p := o.hashJoin(kind, b, a, conds, need, rows); p.Cost() < best.Cost() {
		best = p
	}
	if p := o.lookupJoin(kind, b, a, conds, need, rows); p != nil && p.Cost() < best.Cost() {
		best = p
	}
	return best
}

func (o *optimizer) resultRows(kind algebra.JoinKind, a, b *Plan, conds []expr.Node) float64 {
	rows := o.joinRows(a.Rows, b.Rows, conds)
	switch kind {
	case algebra.Left, algebra.Single:
		return max(rows, a.Rows)
	case algebra.Mark:
		return a.Rows
	case algebra.Semi:
		return max(0.1, min(a.Rows*0.8, rows))
	case algebra.Anti, algebra.NullAnti:
		return max(0.1, a.Rows*0.3)
	}
	return rows
}

// hashJoin joins by equalities between the sides; without any, each row meets each.
func (o *optimizer) hashJoin(kind algebra.JoinKind, a, b *Plan, conds []expr.Node, need set, rows float64) *Plan {
	p := &Plan{Op: OpHashJoin, Kind: kind, In: []*Plan{a, b}, Rows: rows, Lat: max(a.Lat, b.Lat)}
	as, bs := setOf(a.Cols), setOf(b.Cols)
	for _, c := range conds {
		if l, r := keysOf(c, as, bs); l != nil {
			p.LeftKeys, p.RightKeys = append(p.LeftKeys, l), append(p.RightKeys, r)
			continue
		}
		p.Conds = append(p.Conds, c)
	}
	p.CPU = a.CPU + b.CPU + rows*outRow
	if len(p.LeftKeys) == 0 {
		p.Op = OpLoopJoin
		p.CPU += b.Rows*buildRow + a.Rows*b.Rows*loopPair
	} else {
		p.CPU += b.Rows*buildRow + a.Rows*probeRow
	}
	p.Cols = joinedCols(kind, a.Cols, b.Cols, need)
	return p
}

// joinedCols are the columns that operators that join yield: all of the sides.
func joinedCols(kind algebra.JoinKind, a, b []expr.ColID, _ set) []expr.ColID {
	if kind.Both() {
		return slices.Concat(a, b)
	}
	return a
}

// keysOf takes an equality between two sides apart; nil if it is none.
func keysOf(c expr.Node, as, bs set) (l, r expr.Node) {
	eq, ok := isCall(c, "=")
	if !ok || volatile(c) {
		return nil, nil
	}
	x, y := colsOf(eq.Args[0]), colsOf(eq.Args[1])
	switch {
	case len(x) == 0 || len(y) == 0:
	case x.within(as) && y.within(bs):
		return eq.Args[0], eq.Args[1]
	case x.within(bs) && y.within(as):
		return eq.Args[1], eq.Args[0]
	}
	return nil, nil
}

// tableOf is the table that a plan reads as a leaf, with its conditions; nil if it is none.
func tableOf(p *Plan) (*algebra.Scan, []expr.Node, []int) {
	if p.Op == OpFilter && p.In[0].Op == OpScan {
		return p.In[0].Scan, p.Conds, p.In[0].Reads
	}
	if p.Op == OpScan && p.Scan != nil {
		return p.Scan, nil, p.Reads
	}
	return nil, nil, nil
}

// lookupJoin joins by reading an index of the right table for the rows of the left side; nil if
// there is none.
func (o *optimizer) lookupJoin(kind algebra.JoinKind, a, b *Plan, conds []expr.Node, need set, rows float64) *Plan {
	s, tests, reads := tableOf(b)
	if s == nil || waitOf(s) == exec.WaitSkip || o.opts.NoLookup || len(s.Table.Indexes()) == 0 || kind == algebra.NullAnti || kind == algebra.Mark {
		return nil
	}
	as := setOf(a.Cols)
	var best *Plan
	for i, x := range s.Table.Indexes() {
		if !hinted(s, x.Name) {
			continue
		}
		l, r, matches := o.lookupKeys(s, x, conds, as)
		if len(l) == 0 {
			continue
		}
		p := &Plan{Op: OpLookupJoin, Kind: kind, In: []*Plan{a}, Scan: s, Index: x.Name, LeftKeys: l, RightKeys: r}
		p.Read.Index, p.Read.Lock, p.Read.Wait = i, lockOf(s.Lock), waitOf(s)
		p.Conds = slices.Concat(conds, tests)
		p.Reads, p.Read.Cols = reads, reads
		for _, id := range r { // keys must be read, too
			p.addRead(id.(*expr.Col).ID)
		}
		p.Covered = !x.Primary && !o.opts.Locking && p.Read.Lock == 0 && covers(x, p.Reads)
		o.lookupCost(p, x, matches)
		var cols []expr.ColID
		for _, c := range p.Reads {
			cols = append(cols, s.IDs[c])
		}
		p.Cols, p.Rows = joinedCols(kind, a.Cols, cols, need), rows
		if best == nil || p.Cost() < best.Cost() {
			best = p
		}
	}
	return best
}

func (p *Plan) addRead(id expr.ColID) {
	i := slices.Index(p.Scan.IDs, id)
	if !slices.Contains(p.Reads, i) {
		p.Reads = append(slices.Clone(p.Reads), i)
		p.Read.Cols = p.Reads
	}
}

// lookupKeys finds what the first columns of an index are equal to; matches estimates the rows of
// one look-up.
func (o *optimizer) lookupKeys(s *algebra.Scan, x algebra.Index, conds []expr.Node, as set) (l, r []expr.Node, matches float64) {
	matches = tableRows(s.Table)
	cols := s.Table.Columns()
	for _, ic := range x.Cols {
		id, t := s.IDs[ic.Col], cols[ic.Col].Type
		var key expr.Node
		for _, c := range conds {
			eq, ok := isCall(c, "=")
			if !ok || !comparesAs(eq.Cmp, t) {
				continue
			}
			for i := range 2 {
				col, ok := eq.Args[i].(*expr.Col)
				other := eq.Args[1-i]
				if ok && col.ID == id && other.Type().Same(t) &&
					colsOf(other).within(as) && len(colsOf(other)) > 0 && keyKind(t) {
					key = other
				}
			}
		}
		if key == nil || ic.Prefix > 0 || ic.Desc {
			break
		}
		l, r = append(l, key), append(r, &expr.Col{ID: id, Name: cols[ic.Col].Name, T: t})
		d := max(1, o.distinctOf(id))
		if len(l) > 1 {
			d = math.Sqrt(d) // the columns of an index are seldom independent
		}
		matches /= d
	}
	if len(l) == len(x.Cols) && (x.Unique || x.Primary) {
		matches = min(matches, 1)
	}
	return l, r, max(matches, 0.01)
}

func (o *optimizer) distinctOf(id expr.ColID) float64 { return max(1, o.ndv[id]) }

// keyKind reports whether look-ups by values of a type are known to find what = finds.
func keyKind(t expr.Type) bool {
	switch t.Kind {
	case expr.Int, expr.Uint, expr.Decimal, expr.Text, expr.Bytes, expr.Date, expr.Datetime, expr.Timestamp:
		return true
	}
	return false
}

// lookupCost estimates what the look-ups of a join take, each of which finds so many rows.
func (o *optimizer) lookupCost(p *Plan, x algebra.Index, matches float64) {
	a, s := p.In[0], p.Scan
	trips := 1.0
	if !x.Primary && !p.Covered {
		trips = 2
	}
	batches := 1 + math.Floor(max(0, a.Rows-16)/512/4)
	p.Lat = a.Lat + rtt(s.Table)*trips*batches
	seek, per := float64(lookupRow), float64(scanRow)
	if len(p.LeftKeys) < len(x.Cols) || !x.Unique && !x.Primary {
		seek = rangeSeek
	}
	if trips > 1 {
		per += lookupRow
	}
	p.CPU = a.CPU + a.Rows*seek + a.Rows*matches*(per+o.lockCost(s)) + 10
	if p.Lat > 0 {
		p.CPU += a.Rows * matches * s.Table.RowBytes() * byteCost
	}
}

func (o *optimizer) applyPlan(a *algebra.Apply, need set) *Plan {
	ls := setOf(a.L.Cols())
	ln := set{}
	for id := range need.clone().addNodes(a.Nodes()...).add(free(a.R).sorted()...) {
		if ls[id] {
			ln[id] = true
		}
	}
	l := o.physical(a.L, ln)
	saved := o.outer
	o.outer = o.outer.clone().add(a.L.Cols()...)
	r := o.physical(a.R, setOf(a.R.Cols()))
	o.outer = saved
	p := &Plan{Op: OpApply, Kind: a.Kind, In: []*Plan{l, r}, Conds: a.On, Mark: a.MarkID, Rows: l.Rows}
	if a.Kind == algebra.Mark || a.Kind == algebra.NullAnti {
		p.Conds = a.Also
		p.inKeys(a.On)
	}
	for _, id := range free(a.R).sorted() {
		if ls[id] {
			p.Outer = append(p.Outer, id)
		}
	}
	p.Lat, p.CPU = l.Lat+l.Rows*r.Lat, l.CPU+l.Rows*(r.CPU+20)
	switch {
	case a.Kind.Both():
		p.Cols = slices.Concat(l.Cols, r.Cols)
	case a.Kind == algebra.Mark:
		p.Cols = append(slices.Clone(l.Cols), a.MarkID)
	default:
		p.Cols = l.Cols
	}
	return p
}

func (o *optimizer) groupPlan(g *algebra.GroupBy, need set) *Plan {
	out := *g
	out.Aggs = nil
	below := set{}
	for _, k := range g.Keys {
		below.addNodes(k.Node)
	}
	for _, a := range g.Aggs {
		if need[a.ID] {
			out.Aggs = append(out.Aggs, a)
			below.addNodes(a.Call)
		}
	}
	in := o.physical(g.In, below)
	p := &Plan{Op: OpGroup, In: []*Plan{in}, Group: &out, Cols: out.Cols(), Rows: 1, Lat: in.Lat}
	p.CPU = in.CPU + in.Rows*(groupRow+0.05*float64(len(out.Aggs)))
	if len(g.Keys) > 0 {
		p.Rows = o.groups(in.Rows, g.Keys)
		for _, k := range g.Keys {
			o.ndv[k.ID] = min(o.distinct(k.Node, in.Rows), p.Rows)
		}
	}
	return p
}

func (o *optimizer) setPlan(s *algebra.SetOp) *Plan {
	l, r := o.physical(s.L, setOf(s.LeftCols)), o.physical(s.R, setOf(s.RightCols))
	return &Plan{
		Op: OpSetOp, Set: s, In: []*Plan{l, r}, Cols: s.IDs, Rows: l.Rows + r.Rows, Lat: max(l.Lat, r.Lat),
		CPU: l.CPU + r.CPU + (l.Rows+r.Rows)*groupRow,
	}
}

// sortPlan sorts; with count only the first rows are kept.
func (o *optimizer) sortPlan(s *algebra.Sort, need set, count, offset expr.Node) *Plan {
	below := need.clone()
	for _, k := range s.Keys {
		below.addNodes(k.Expr)
	}
	if n, ok := limitOf(count, offset); ok {
		if p := o.ordered(s, below, n); p != nil {
			return &Plan{
				Op: OpLimit, In: []*Plan{p}, Cols: p.Cols, Count: count, Offset: offset,
				Rows: min(n, p.Rows), Lat: p.Lat, CPU: p.CPU,
			}
		}
	}
	in := o.physical(s.In, below)
	cpu := in.CPU + in.Rows*sortRow
	p := &Plan{Op: OpSort, In: []*Plan{in}, Cols: in.Cols, Keys: s.Keys, Rows: in.Rows, Lat: in.Lat, CPU: cpu}
	if n, ok := limitOf(count, offset); ok {
		p.Op, p.Count, p.Offset, p.Rows = OpTopN, count, offset, min(n, in.Rows)
		p.CPU = in.CPU + in.Rows*probeRow
	}
	return p
}

// limitOf is the number of rows that LIMIT asks the operators below for.
func limitOf(count, offset expr.Node) (float64, bool) {
	c, ok := count.(*expr.Const)
	if !ok {
		return 0, false
	}
	n := float64(uint64(c.V.I))
	if offset != nil {
		k, ok := offset.(*expr.Const)
		if !ok {
			return 0, false
		}
		n += float64(uint64(k.V.I))
	}
	return n, n < 1<<31
}

// skipping is the scan with SKIP LOCKED below a plan that yields each of its rows once, and no
// other; nil if the plan is not of that kind. A LIMIT above the plan bounds how many rows the scan
// locks.
func skipping(p *Plan) *Plan {
	for p.Op == OpProject || p.Op == OpFilter && p.In[0].Op == OpScan {
		p = p.In[0]
	}
	if p.Op == OpScan && p.Read.Wait == exec.WaitSkip {
		return p
	}
	return nil
}

func (o *optimizer) limitPlan(l *algebra.Limit, need set) *Plan {
	if s, ok := l.In.(*algebra.Sort); ok && l.Count != nil {
		if _, ok := limitOf(l.Count, l.Offset); ok {
			return o.sortPlan(s, need, l.Count, l.Offset)
		}
	}
	in := o.physical(l.In, need)
	p := &Plan{
		Op: OpLimit, In: []*Plan{in}, Cols: in.Cols, Count: l.Count, Offset: l.Offset, Rows: in.Rows, Lat: in.Lat, CPU: in.CPU,
	}
	if n, ok := limitOf(l.Count, l.Offset); ok {
		p.Rows = min(n, in.Rows)
		if s := skipping(in); s != nil {
			s.Read.Want = max(1, int64(n))
		} else if in.Op == OpScan {
			in.Read.Limit = int64(n)
			in.CPU, p.CPU = in.CPU*p.Rows/max(1, in.Rows), p.CPU*p.Rows/max(1, in.Rows)
			if n == 0 {
				in.Read.Limit = 1
			}
		}
	}
	return p
}

// ordered reads a table in the order that is asked for, if that is cheaper than to sort for the
// first n rows; nil if not.
func (o *optimizer) ordered(s *algebra.Sort, need set, n float64) *Plan {
	var conds []expr.Node
	in := s.In
	var items []algebra.Item
	if p, ok := in.(*algebra.Project); ok {
		for _, it := range p.Items {
			if need[it.ID] {
				items = append(items, it)
			}
		}
		in = p.In
	}
	if f, ok := in.(*algebra.Filter); ok {
		conds, in = f.Conds, f.In
	}
	t, ok := in.(*algebra.Scan)
	if !ok || anyVolatile(conds) || o.opts.NoIndex {
		return nil
	}
	below := need
	if items != nil {
		below = set{}
		for _, it := range items {
			below.addNodes(it.Node)
		}
	}
	p := o.inOrder(t, s.Keys, conds, below, items, n)
	if p == nil || items == nil {
		return p
	}
	out := &Plan{Op: OpProject, In: []*Plan{p}, Items: items, Rows: p.Rows, Lat: p.Lat, CPU: p.CPU}
	for _, it := range items {
		out.Cols = append(out.Cols, it.ID)
	}
	return out
}

// inOrder finds an index whose order serves.
func (o *optimizer) inOrder(t *algebra.Scan, keys []algebra.Order, conds []expr.Node, need set, items []algebra.Item,
	n float64) *Plan {
	full := o.scan(t, conds, need)
	var best *Plan
	limit := full.Cost() + full.Rows*probeRow
	for i, x := range t.Table.Indexes() {
		reverse, ok := o.serves(t, x, keys, conds, items)
		if !ok || !hinted(t, x.Name) {
			continue
		}
		all := o.readAll(t, conds, need)
		p := all
		if q := o.byIndex(t, i, x, conds, all); q != nil {
			p = q
		} else {
			p.Read.Index, p.Index = i, x.Name
			if !x.Primary {
				p.CPU, p.Lat = p.Rows*(lookupRow+o.lockCost(t)), 2*p.Lat
			}
		}
		if len(p.Spans) > 1 {
			continue
		}
		p.Read.Ordered, p.Read.Reverse = true, reverse
		left := o.filtered(tableRows(t.Table), conds)
		asked := min(p.Rows, n*max(1, p.Rows/max(left, 1)))
		p.CPU = 5 + p.CPU*asked/max(1, p.Rows)
		switch {
		case p.Read.Wait == exec.WaitSkip:
			p.Read.Want = max(1, int64(n))
		case len(conds) == 0:
			p.Read.Limit = max(1, int64(n))
		}
		p = o.where(p, conds, need)
		if p.Cost() < limit {
			best, limit = p, p.Cost()
		}
	}
	return best
}

// serves reports whether an index has the order of the keys, behind columns that conditions fix to
// one value.
func (o *optimizer) serves(t *algebra.Scan, x algebra.Index, keys []algebra.Order, conds []expr.Node,
	items []algebra.Item) (reverse, ok bool) {
	cols := t.Table.Columns()
	i := 0
	for _, k := range keys {
		c, ok := k.Expr.(*expr.Col)
		if !ok {
			return false, false
		}
		id := c.ID
		if items != nil {
			if id, ok = source(items, id); !ok {
				return false, false
			}
		}
		for i < len(x.Cols) && t.IDs[x.Cols[i].Col] != id {
			b := o.boundsOf(t.IDs[x.Cols[i].Col], cols[x.Cols[i].Col].Type, conds)
			if b == nil || len(b.eq) != 1 || x.Cols[i].Prefix > 0 {
				return false, false
			}
			i++
		}
		if i >= len(x.Cols) || x.Cols[i].Prefix > 0 || x.Cols[i].Desc || !keyKind(cols[x.Cols[i].Col].Type) {
			return false, false
		}
		if k != keys[0] && k.Desc != keys[0].Desc {
			return false, false
		}
		i++
	}
	return keys[0].Desc, len(keys) > 0
}

// source is the column that an item hands on.
func source(items []algebra.Item, id expr.ColID) (expr.ColID, bool) {
	for _, it := range items {
		if it.ID == id {
			c, ok := it.Node.(*expr.Col)
			if !ok {
				return 0, false
			}
			return c.ID, true
		}
	}
	return 0, false
}
