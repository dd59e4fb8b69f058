package exec

import (
	"container/heap"
	"math"
	"slices"

	"github.com/godwitdb/godwit/sql/exec/sorting"
	"github.com/godwitdb/godwit/sql/expr"
)

// sorter orders rows: the columns of the input, and after them the keys.
type sorter struct {
	*sorting.Keys
	es    []expr.Expr
	types []expr.Type // of the row with its keys
	ncols int
	row   []*expr.Vec
	ctx   *Ctx
}

func newSorter(in Op, keys []SortKey, ctx *Ctx) (*sorter, error) {
	s := &sorter{ncols: len(in.Cols())}
	s.types = append(s.types, in.Types()...)
	for _, k := range keys {
		e, err := expr.Compile(k.Expr, in.Cols(), ctx.Env)
		if err != nil {
			return nil, err
		}
		s.es = append(s.es, e)
		s.types = append(s.types, e.Type())
	}
	s.Keys = sorting.New(keys, s.types[s.ncols:], s.ncols)
	return s, nil
}

func (s *sorter) begin(ctx *Ctx) {
	s.ctx = ctx
	s.Begin(ctx.Err)
}

// with evaluates the keys of a batch: its columns and they are a row.
func (s *sorter) with(b *expr.Batch) ([]*expr.Vec, error) {
	s.row = append(s.row[:0], b.Cols...)
	for _, e := range s.es {
		v, err := e.Eval(b, b.Sel)
		if err != nil {
			return nil, err
		}
		s.row = append(s.row, v)
	}
	return s.row, nil
}

// order is the sequence of the rows of a store.
func (s *sorter) order(m *store) ([]int32, error) { return s.Order(m.cols, m.n, s.ctx.lend) }

// sortOp sorts in memory; runs that do not fit go to files, which are merged.
type sortOp struct {
	columns
	in   Op
	keys []SortKey
	ctx  *Ctx
	env  *expr.Env
	s    *sorter
	mem  *store
	read *reader
	runs []*spill
	m    *merge
	done bool
	out  expr.Batch
}

// NewSort orders rows by keys. Rows with equal keys keep their order.
func NewSort(in Op, keys []SortKey) Op { return &sortOp{columns: columnsOf(in), in: in, keys: keys} }

func (s *sortOp) Open(ctx *Ctx) (err error) {
	s.ctx, s.done, s.read, s.m = ctx, false, nil, nil
	if s.env != ctx.Env {
		if s.s, err = newSorter(s.in, s.keys, ctx); err != nil {
			return err
		}
		s.env = ctx.Env
	}
	s.s.begin(ctx)
	s.mem = newStore(s.s.types, ctx.Mem)
	return s.in.Open(ctx)
}

func (s *sortOp) load() error {
	for {
		if err := s.ctx.Err(); err != nil {
			return err
		}
		b, err := s.in.Next()
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		row, err := s.s.with(b)
		if err != nil {
			return err
		}
		if s.mem.tryAdd(row, b.Sel) {
			continue
		}
		if s.ctx.NoSpill {
			return s.mem.add(row, b.Sel)
		}
		if err := s.spillRun(row, b.Sel); err != nil {
			return err
		}
	}
	if len(s.runs) == 0 {
		s.ctx.Work.Sort(s.mem.n)
		idx, err := s.s.order(s.mem)
		s.read = &reader{s: s.mem, idx: idx}
		return err
	}
	if err := s.spillRun(nil, nil); err != nil {
		return err
	}
	s.ctx.Work.Merge()
	var err error
	s.m, err = newMerge(s.ctx, s.s, s.runs)
	return err
}

// spillRun writes what is in memory, in order, and begins anew with more rows.
func (s *sortOp) spillRun(row []*expr.Vec, sel []int32) error {
	if s.mem.n > 0 {
		f, err := newSpill(s.ctx, s.s.types)
		if err != nil {
			return err
		}
		s.runs = append(s.runs, f)
		s.ctx.Work.Run(s.mem.n)
		idx, err := s.s.order(s.mem)
		if err != nil {
			return err
		}
		for r := (&reader{s: s.mem, idx: idx}); ; {
			b := r.next()
			if b == nil {
				break
			}
			if err := f.write(b.Cols, b.Sel); err != nil {
				return err
			}
		}
		s.mem.clear()
	}
	if len(sel) == 0 || s.mem.tryAdd(row, sel) {
		return nil
	}
	// Not even one batch fits: it becomes a run of its own, outside of the budget.
	s.mem.append(row, sel, 0)
	return s.spillRun(nil, nil)
}

func (s *sortOp) Next() (*expr.Batch, error) {
	if s.done {
		return nil, nil
	}
	if s.read == nil && s.m == nil {
		if err := s.load(); err != nil {
			return nil, err
		}
	}
	var b *expr.Batch
	err := s.ctx.Err()
	if s.m != nil && err == nil {
		b, err = s.m.next()
	} else if err == nil {
		b = s.read.next()
	}
	if b == nil || err != nil {
		s.done = true
		return nil, err
	}
	s.out = expr.Batch{N: b.N, Sel: b.Sel, Cols: b.Cols[:s.s.ncols]}
	return &s.out, nil
}

func (s *sortOp) Close() error {
	if s.mem != nil {
		s.mem.clear()
	}
	for _, r := range s.runs {
		r.close()
	}
	s.runs, s.read, s.m, s.done = nil, nil, nil, true
	return s.in.Close()
}

// merge gives out the rows of sorted files in order.
type merge struct {
	ctx  *Ctx
	s    *sorter
	runs []*run
	out  *store
	b    expr.Batch
}

type run struct {
	r   *spillReader
	b   *expr.Batch
	at  int32
	num int
}

func newMerge(ctx *Ctx, s *sorter, files []*spill) (*merge, error) {
	m := &merge{ctx: ctx, s: s, out: newStore(s.types, nil)}
	for n, f := range files {
		r, err := f.read()
		if err != nil {
			return nil, err
		}
		x := &run{r: r, num: n}
		if x.b, err = r.next(); err != nil {
			return nil, err
		}
		if x.b != nil {
			m.runs = append(m.runs, x)
		}
	}
	heap.Init(m)
	return m, nil
}

// Len implements heap.Interface.
func (m *merge) Len() int { return len(m.runs) }

// Less implements heap.Interface.
func (m *merge) Less(i, j int) bool {
	a, b := m.runs[i], m.runs[j]
	if c := m.s.Compare(a.b.Cols, a.at, b.b.Cols, b.at); c != 0 {
		return c < 0
	}
	return a.num < b.num
}

// Swap implements heap.Interface.
func (m *merge) Swap(i, j int) { m.runs[i], m.runs[j] = m.runs[j], m.runs[i] }

// Push implements heap.Interface.
func (m *merge) Push(x any) { m.runs = append(m.runs, x.(*run)) }

// Pop implements heap.Interface.
func (m *merge) Pop() any {
	x := m.runs[len(m.runs)-1]
	m.runs = m.runs[:len(m.runs)-1]
	return x
}

func (m *merge) next() (*expr.Batch, error) {
	if err := m.ctx.Err(); err != nil {
		return nil, err
	}
	m.out.clear()
	one := make([]int32, 1)
	for m.out.n < expr.BatchSize && len(m.runs) > 0 {
		r := m.runs[0]
		one[0] = r.at
		m.out.append(r.b.Cols, one, 0)
		if r.at++; int(r.at) == r.b.N {
			var err error
			if r.b, err = r.r.next(); err != nil {
				return nil, err
			}
			r.at = 0
			if r.b == nil {
				heap.Pop(m)
				continue
			}
		}
		heap.Fix(m, 0)
	}
	if err := m.s.Ended(); err != nil || m.out.n == 0 {
		return nil, err
	}
	m.b = expr.Batch{N: m.out.n, Cols: m.out.cols, Sel: expr.All(m.out.n)}
	return &m.b, nil
}

// topN keeps the first rows only. If they do not fit into memory, it becomes a sort.
type topN struct {
	columns
	in   Op
	keys []SortKey
	n    expr.Node
	ctx  *Ctx
	env  *expr.Env
	s    *sorter
	mem  *store
	read *reader
	max  int
	sort *sortOp
	done int // rows that the sort gave out
	out  expr.Batch
}

// NewTopN gives the first n rows in the order of the keys. It is meant for small n.
func NewTopN(in Op, keys []SortKey, n expr.Node) Op {
	return &topN{columns: columnsOf(in), in: in, keys: keys, n: n}
}

func (t *topN) Open(ctx *Ctx) (err error) {
	t.ctx, t.read, t.sort, t.done = ctx, nil, nil, 0
	if t.env != ctx.Env {
		if t.s, err = newSorter(t.in, t.keys, ctx); err != nil {
			return err
		}
		t.env = ctx.Env
	}
	n, err := count(t.n, ctx.Env, math.MaxInt32)
	if err != nil {
		return err
	}
	t.max = int(min(n, math.MaxInt32))
	t.s.begin(ctx)
	t.mem = newStore(t.s.types, ctx.Mem)
	return t.in.Open(ctx)
}

func (t *topN) load() error {
	var last []*expr.Vec // the row that others must be before, once there are enough
	var sel []int32
	for {
		if err := t.ctx.Err(); err != nil {
			return err
		}
		b, err := t.in.Next()
		if err != nil {
			return err
		}
		if b == nil {
			break
		}
		row, err := t.s.with(b)
		if err != nil {
			return err
		}
		sel = b.Sel
		if last != nil {
			sel = make([]int32, 0, len(b.Sel))
			for _, i := range b.Sel {
				if t.s.Compare(row, i, last, 0) < 0 {
					sel = append(sel, i)
				}
			}
		}
		if !t.mem.tryAdd(row, sel) {
			if t.ctx.NoSpill {
				return t.mem.add(row, sel)
			}
			t.sort = &sortOp{columns: t.columns, in: t.in, ctx: t.ctx, env: t.env, s: t.s, mem: t.mem}
			if err := t.sort.spillRun(row, sel); err != nil {
				return err
			}
			return t.sort.load()
		}
		if t.mem.n >= 2*t.max+expr.BatchSize {
			if last, err = t.prune(); err != nil {
				return err
			}
		}
	}
	idx, err := t.first()
	t.ctx.Work.Sort(len(idx))
	t.read = &reader{s: t.mem, idx: idx}
	return err
}

func (t *topN) first() ([]int32, error) {
	idx, err := t.s.order(t.mem)
	return idx[:min(len(idx), t.max)], err
}

// prune keeps the first rows, and returns the last one of them.
func (t *topN) prune() ([]*expr.Vec, error) {
	idx, err := t.first()
	if err != nil {
		return nil, err
	}
	if len(idx) == 0 {
		t.mem.clear()
		return nil, nil
	}
	slices.Sort(idx) // the order of arrival decides between equal rows
	var b expr.Batch
	gatherAll(&b, t.mem.cols, idx)
	t.mem.clear()
	if err := t.mem.add(b.Cols, b.Sel); err != nil {
		return nil, err
	}
	end, err := t.first()
	if err != nil {
		return nil, err
	}
	var last expr.Batch
	gatherAll(&last, t.mem.cols, end[len(end)-1:])
	return last.Cols, nil
}

func (t *topN) Next() (*expr.Batch, error) {
	if t.max == 0 {
		return nil, nil
	}
	if t.read == nil && t.sort == nil {
		if err := t.load(); err != nil {
			return nil, err
		}
	}
	if t.sort != nil {
		return t.sorted()
	}
	b := t.read.next()
	if err := t.ctx.Err(); b == nil || err != nil {
		return nil, err
	}
	t.out = expr.Batch{N: b.N, Sel: b.Sel, Cols: b.Cols[:t.s.ncols]}
	return &t.out, nil
}

// sorted gives out the first rows of the sort.
func (t *topN) sorted() (*expr.Batch, error) {
	if t.done >= t.max {
		return nil, nil
	}
	b, err := t.sort.Next()
	if b == nil || err != nil {
		return nil, err
	}
	n := min(len(b.Sel), t.max-t.done)
	t.done += n
	t.out = expr.Batch{N: b.N, Cols: b.Cols, Sel: b.Sel[:n]}
	return &t.out, nil
}

func (t *topN) Close() error {
	if t.mem != nil {
		t.mem.clear()
	}
	t.read = nil
	if t.sort != nil { // it closes the input, too
		return t.sort.Close()
	}
	return t.in.Close()
}
