package opt

import (
	"slices"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/exec/exchange"
	"github.com/godwitdb/godwit/sql/expr"
)

// builder makes the operators of a plan. Its numbers of columns are beyond those of any statement.
type builder struct {
	next    expr.ColID
	working map[int]*exec.Working
	shared  map[int]*exec.Shared
	meter   *Meter // nil: nothing is measured
	// ordered: the order of the rows is seen by the client, so tables are read in the order of
	// their keys, as MySQL does.
	ordered bool
}

// Build makes the operators of a plan. The tables of its scans must be sources.
func Build(p *Plan) (exec.Op, error) { return BuildMeasured(p, nil) }

// BuildMeasured makes operators that are measured, if m is not nil.
func BuildMeasured(p *Plan, m *Meter) (exec.Op, error) {
	b := &builder{next: 1 << 24, ordered: true, shared: map[int]*exec.Shared{}, meter: m}
	op, err := b.op(p)
	if err == nil {
		op = exchange.New(op)
	}
	if err != nil || len(b.shared) == 0 {
		return op, err
	}
	var all []*exec.Shared
	for _, s := range b.shared {
		all = append(all, s)
	}
	return exec.NewOwner(op, all), nil
}

func (b *builder) newID() expr.ColID {
	b.next++
	return b.next
}

func (b *builder) op(p *Plan) (exec.Op, error) {
	op, err := b.bare(p)
	if b.meter != nil && err == nil {
		op = b.meter.watch(p, op)
	}
	return op, err
}

// bare makes the operator itself.
func (b *builder) bare(p *Plan) (exec.Op, error) {
	switch p.Op {
	case OpScan:
		return b.scan(p, nil)
	case OpValues:
		return b.values(p), nil
	case OpHashJoin, OpLoopJoin:
		return b.join(p)
	case OpLookupJoin:
		return b.lookup(p)
	case OpApply:
		return b.apply(p)
	case OpSetOp:
		return b.set(p)
	case OpRecursive:
		return b.recursive(p)
	case OpCTERef:
		return b.ref(p)
	case OpShared:
		return b.sharedRows(p)
	case OpFilter:
		if p.In[0].Op == OpScan && p.In[0].Read.Limit == 0 && !anyOrdered(p.Conds) {
			return b.scan(p.In[0], p.Conds)
		}
	}
	saved := b.ordered
	switch p.Op {
	case OpGroup:
		b.ordered = false
	}
	in, err := b.op(p.In[0])
	b.ordered = saved
	if err != nil {
		return nil, err
	}
	return b.unary(p, in)
}

func (b *builder) unary(p *Plan, in exec.Op) (exec.Op, error) {
	in = below(p, in)
	if ordered(p) {
		in = exec.NewSerial(in)
	}
	switch p.Op {
	case OpFilter:
		return exec.NewFilter(in, p.Conds), nil
	case OpProject:
		return exec.NewProject(in, columns(p.Items)), nil
	case OpGroup:
		if p.Group.Rollup {
			return b.rollup(p, in)
		}
		return b.group(p, in), nil
	case OpSort:
		return exec.NewSort(in, p.Keys), nil
	case OpTopN:
		return b.topN(p, in)
	case OpLimit:
		return exec.NewLimit(in, p.Offset, p.Count), nil
	case OpDistinct:
		return exec.NewDistinct(b.arrange(in, p.Cols)), nil
	case OpUnfold:
		return exec.NewUnfold(in, p.Unfold.Doc, p.Unfold.Table, p.Unfold.IDs), nil
	case OpMax1Row:
		return exec.NewMax1Row(in), nil
	case OpWindow:
		return b.window(p, in)
	}
	return nil, left("operator without a form in exec")
}

// ordered reports whether the expressions of an operator must see its rows one by one.
func ordered(p *Plan) bool { return anyOrdered(nodes(p)) }

// nodes are the expressions of an operator with one input.
func nodes(p *Plan) []expr.Node {
	ns := slices.Clone(p.Conds)
	for _, it := range p.Items {
		ns = append(ns, it.Node)
	}
	for _, k := range p.Keys {
		ns = append(ns, k.Expr)
	}
	if p.Group != nil {
		ns = append(ns, p.Group.Nodes()...)
	}
	if p.Unfold != nil {
		ns = append(ns, p.Unfold.Doc)
	}
	if p.Window != nil {
		ns = append(ns, p.Window.Nodes()...)
	}
	return ns
}

func anyOrdered(ns []expr.Node) bool { return slices.ContainsFunc(ns, expr.Ordered) }

func columns(items []algebra.Item) []exec.Column {
	out := make([]exec.Column, len(items))
	for i, it := range items {
		out[i] = exec.Column{ID: it.ID, Expr: it.Node}
	}
	return out
}

// mostTopN is how many rows are kept instead of a sort of all.
const mostTopN = 10_000

func (b *builder) topN(p *Plan, in exec.Op) (exec.Op, error) {
	n, _ := limitOf(p.Count, p.Offset)
	if n > mostTopN {
		return exec.NewLimit(exec.NewSort(in, p.Keys), p.Offset, p.Count), nil
	}
	top := exec.NewTopN(in, p.Keys, expr.IntConst(int64(n)))
	if p.Offset == nil {
		return top, nil
	}
	return exec.NewLimit(top, p.Offset, p.Count), nil
}

func (b *builder) scan(p *Plan, conds []expr.Node) (exec.Op, error) {
	src, ok := p.Scan.Table.(exec.Source)
	if !ok {
		return nil, left("table without a source")
	}
	s := exec.ScanSpec{Source: src, Read: p.Read, Spans: p.Spans, Within: p.Within, Filter: conds}
	s.Read.Cols = p.Reads
	s.Read.Ordered = s.Read.Ordered || b.ordered
	s.Cols, s.Types = tableCols(p.Scan, p.Reads)
	return exec.NewScan(s), nil
}

// tableCols are the numbers and types of columns of a table by position.
func tableCols(s *algebra.Scan, reads []int) (ids []expr.ColID, types []expr.Type) {
	cols := s.Table.Columns()
	for _, i := range reads {
		ids, types = append(ids, s.IDs[i]), append(types, cols[i].Type)
	}
	return ids, types
}

func (b *builder) values(p *Plan) exec.Op {
	v, types := p.Rowset, p.Types
	if types == nil {
		types = make([]expr.Type, len(v.IDs))
	}
	for i := range types {
		if len(v.Rows) > 0 {
			types[i] = valuesType(v, i)
		}
	}
	return exec.NewValues(v.IDs, types, v.Rows)
}

var kinds = map[algebra.JoinKind]exec.JoinKind{
	algebra.Inner: exec.Inner, algebra.Left: exec.Left, algebra.Semi: exec.Semi, algebra.Anti: exec.Anti,
	algebra.NullAnti: exec.NullAnti, algebra.Mark: exec.Mark,
}

func (b *builder) group(p *Plan, in exec.Op) exec.Op {
	s := exec.AggSpec{In: in, Keys: columns(p.Group.Keys)}
	for _, a := range p.Group.Aggs {
		s.Aggs = append(s.Aggs, exec.AggColumn{ID: a.ID, Agg: a.Call})
	}
	if p.Group.Keyed && len(s.Keys) == 0 { // by a constant: no rows, no group
		s.Keys = []exec.Column{{ID: b.newID(), Expr: expr.IntConst(1)}}
	}
	b.spread(&s)
	return exec.NewHashAgg(s)
}

// rollup groups rows that are repeated for each number of lost keys. As MySQL does, it yields the
// rows of a group before that of its super-aggregate.
func (b *builder) rollup(p *Plan, in exec.Op) (exec.Op, error) {
	g := p.Group
	level := expr.TypeInt
	level.NotNull = true
	spec := exec.RollupSpec{In: in, Level: b.newID()}
	agg := exec.AggSpec{}
	var order []exec.SortKey
	for i, k := range g.Keys {
		t := k.Node.Type().AsNull()
		id := b.newID()
		spec.Keys = append(spec.Keys, exec.Column{ID: id, Expr: k.Node})
		agg.Keys = append(agg.Keys, exec.Column{ID: k.ID, Expr: &expr.Col{ID: id, Name: k.Name, T: t}})
		lost, err := call(">=", &expr.Col{ID: g.Level, T: level}, expr.IntConst(int64(len(g.Keys)-i)))
		if err != nil {
			return nil, err
		}
		order = append(order, exec.SortKey{Expr: lost}, exec.SortKey{Expr: &expr.Col{ID: k.ID, Name: k.Name, T: t}})
	}
	agg.Keys = append(agg.Keys, exec.Column{ID: g.Level, Expr: &expr.Col{ID: spec.Level, T: level}})
	for _, a := range g.Aggs {
		agg.Aggs = append(agg.Aggs, exec.AggColumn{ID: a.ID, Agg: a.Call})
	}
	agg.In = exec.NewRollup(spec)
	return exec.NewSort(exec.NewHashAgg(agg), order), nil
}

func (b *builder) pair(p *Plan) (l, r exec.Op, err error) {
	if l, err = b.op(p.In[0]); err != nil {
		return nil, nil, err
	}
	saved := b.ordered
	b.ordered = b.ordered && p.Op == OpSetOp
	r, err = b.op(p.In[1])
	b.ordered = saved
	return l, r, err
}

func (b *builder) join(p *Plan) (exec.Op, error) {
	l, r, err := b.pair(p)
	if err != nil {
		return nil, err
	}
	s := exec.JoinSpec{
		Kind: kinds[p.Kind], Left: l, Right: r, LeftKeys: p.LeftKeys, RightKeys: p.RightKeys, On: p.Conds, Mark: p.Mark,
		BuildLeft: p.BuildLeft,
	}
	s.NullSafe = make([]bool, len(p.LeftKeys))
	if p.Op != OpHashJoin {
		s.Left, s.Right = exchange.New(l), exchange.New(r)
		return exec.NewNestedJoin(s), nil
	}
	kept, streamed := &s.Right, &s.Left
	if s.BuildLeft {
		kept, streamed = streamed, kept
	}
	*kept = exchange.New(*kept)
	*streamed = exchange.Below(*streamed, slices.Concat(s.LeftKeys, s.RightKeys, s.On)...)
	return exec.NewHashJoin(s)
}

func (b *builder) lookup(p *Plan) (exec.Op, error) {
	l, err := b.op(p.In[0])
	if err != nil {
		return nil, err
	}
	src, ok := p.Scan.Table.(exec.Source)
	if !ok {
		return nil, left("table without a source")
	}
	s := exec.LookupSpec{
		Kind: kinds[p.Kind], Left: exchange.New(l), Source: src, Read: p.Read, LeftKeys: p.LeftKeys, RightKeys: p.RightKeys,
		On: p.Conds, Mark: p.Mark, Ordered: b.ordered,
	}
	s.Read.Cols = p.Reads
	if (s.Kind == exec.Semi || s.Kind == exec.Anti) && p.anyMatches() {
		s.Read.Each = 1
	}
	s.Cols, s.Types = tableCols(p.Scan, p.Reads)
	return exec.NewLookupJoin(s), nil
}

func (b *builder) apply(p *Plan) (exec.Op, error) {
	l, r, err := b.pair(p)
	if err != nil {
		return nil, err
	}
	s := exec.ApplySpec{Left: exchange.New(l), Right: r, Outer: p.Outer, On: p.Conds, Mark: p.Mark, LeftKeys: p.LeftKeys,
		RightKeys: p.RightKeys}
	if p.Kind == algebra.Single {
		s.Kind, s.One = exec.Left, true
	} else {
		s.Kind = kinds[p.Kind]
	}
	return exec.NewApply(s), nil
}

func (b *builder) recursive(p *Plan) (exec.Op, error) {
	c := p.CTE
	seed, err := b.op(p.In[0])
	if err != nil {
		return nil, err
	}
	ref := refOf(p.In[1], c.Number)
	if ref == nil {
		return nil, left("recursive CTE without a reference")
	}
	w := exec.NewWorking(ref.IDs, ref.Types)
	if b.working == nil {
		b.working = map[int]*exec.Working{}
	}
	b.working[c.Number] = w
	step, err := b.op(p.In[1])
	if err != nil {
		return nil, err
	}
	return exec.NewRecursive(exec.RecursiveSpec{
		IDs: c.IDs, Seed: b.arrange(seed, c.SeedCols), Step: b.arrange(step, c.StepCols), Work: w, Distinct: c.Distinct,
	}), nil
}

// refOf finds the reference of a recursive CTE in its step.
func refOf(p *Plan, number int) *algebra.CTERef {
	if p.Op == OpCTERef && p.Ref.Number == number {
		return p.Ref
	}
	for _, in := range p.In {
		if r := refOf(in, number); r != nil {
			return r
		}
	}
	return nil
}

func (b *builder) ref(p *Plan) (exec.Op, error) {
	w := b.working[p.Ref.Number]
	if w == nil {
		return nil, left("recursive CTE out of its step")
	}
	return w, nil
}

// sharedRows reads what one plan yields for all of its readers.
func (b *builder) sharedRows(p *Plan) (exec.Op, error) {
	s := b.shared[p.Shared.Number]
	if s == nil {
		in, err := b.op(p.Kept)
		if err != nil {
			return nil, err
		}
		s = exec.NewShared(exchange.New(b.arrange(in, p.Shared.From)))
		b.shared[p.Shared.Number] = s
	}
	return s.Reader(p.Shared.IDs), nil
}

// set makes a set operation of the sides' columns in its order.
func (b *builder) set(p *Plan) (exec.Op, error) {
	l, r, err := b.pair(once(p))
	if err != nil {
		return nil, err
	}
	l, r = exchange.New(b.arrange(l, p.Set.LeftCols)), exchange.New(b.arrange(r, p.Set.RightCols))
	switch p.Set.Kind {
	case algebra.Intersect:
		return exec.NewIntersect(p.Set.IDs, l, r, p.Set.All)
	case algebra.Except:
		return exec.NewExcept(p.Set.IDs, l, r, p.Set.All)
	}
	u := exec.NewUnionAll(p.Set.IDs, l, r)
	if p.Set.All {
		return u, nil
	}
	return exec.NewDistinct(u), nil
}

// once lets a UNION alone look for rows that are equal, of those that make up its input: else each
// row of a chain of n is looked for n times, and kept as often.
func once(p *Plan) *Plan {
	if p.Set.Kind != algebra.Union || p.Set.All {
		return p
	}
	out := *p
	out.In = slices.Clone(p.In)
	for i, in := range out.In {
		if in.Op == OpSetOp && in.Set.Kind == algebra.Union && !in.Set.All {
			all, set := *in, *in.Set
			set.All = true
			all.Set, all.In = &set, once(in).In
			out.In[i] = &all
		}
	}
	return &out
}

// arrange yields columns in an order, some perhaps twice.
func (b *builder) arrange(op exec.Op, want []expr.ColID) exec.Op {
	have := op.Cols()
	if slices.Equal(have, want) {
		return op
	}
	var out []exec.Column
	seen := map[expr.ColID]bool{}
	for _, id := range want {
		i := slices.Index(have, id)
		c := exec.Column{ID: id, Expr: &expr.Col{ID: id, T: op.Types()[i]}}
		if seen[id] {
			c.ID = b.newID()
		}
		seen[id] = true
		out = append(out, c)
	}
	return exec.NewProject(op, out)
}
