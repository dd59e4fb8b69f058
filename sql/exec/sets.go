package exec

import (
	"fmt"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/exec/hashing"
	"github.com/godwitdb/godwit/sql/expr"
	_ "github.com/godwitdb/godwit/sql/expr/fn" // the functions that plans call
)

// setOp is INTERSECT or EXCEPT over groups of equal rows with how many came from each side.
type setOp struct {
	columns
	in     Op // groups: the columns, then both counts
	repeat func(l, r int64) int64
	b      *expr.Batch
	at     int
	left   int64
	idx    []int32
	out    expr.Batch
}

// Names of columns inside of a set operation.
const (
	sideLeft expr.ColID = -1 - iota
	sideRight
	countLeft
	countRight
)

// NewIntersect keeps rows that both inputs have; with all, as often as both have them.
func NewIntersect(ids []expr.ColID, left, right Op, all bool) (Op, error) {
	return newSetOp(ids, left, right, func(l, r int64) int64 {
		if n := min(l, r); all || n == 0 {
			return n
		}
		return 1
	})
}

// NewExcept keeps rows of the left input that the right one does not have; with all, as many as
// it has fewer.
func NewExcept(ids []expr.ColID, left, right Op, all bool) (Op, error) {
	return newSetOp(ids, left, right, func(l, r int64) int64 {
		switch {
		case all:
			return max(l-r, 0)
		case l > 0 && r == 0:
			return 1
		}
		return 0
	})
}

func newSetOp(ids []expr.ColID, left, right Op, repeat func(l, r int64) int64) (Op, error) {
	side := func(op Op, l, r int64) Op {
		cols := make([]Column, 0, len(ids)+2)
		for i, id := range op.Cols() {
			cols = append(cols, Column{ids[i], &expr.Col{ID: id, T: op.Types()[i]}})
		}
		cols = append(cols, Column{sideLeft, expr.IntConst(l)}, Column{sideRight, expr.IntConst(r)})
		return NewProject(op, cols)
	}
	in := NewUnionAll(append(append([]expr.ColID(nil), ids...), sideLeft, sideRight), side(left, 1, 0), side(right, 0, 1))
	spec := AggSpec{In: in}
	for i, id := range ids {
		spec.Keys = append(spec.Keys, Column{id, &expr.Col{ID: id, T: left.Types()[i]}})
	}
	for _, c := range [][2]expr.ColID{{sideLeft, countLeft}, {sideRight, countRight}} {
		a, err := expr.NewAgg(expr.LookupAgg("sum"), []expr.Node{&expr.Col{ID: c[0], T: expr.TypeInt}}, false, nil, "")
		if err != nil {
			return nil, err
		}
		spec.Aggs = append(spec.Aggs, AggColumn{c[1], a.(*expr.Agg)})
	}
	return &setOp{columns: columns{ids, left.Types()}, in: NewHashAgg(spec), repeat: repeat}, nil
}

func (s *setOp) Open(ctx *Ctx) error {
	s.b = nil
	return s.in.Open(ctx)
}

func (s *setOp) Next() (*expr.Batch, error) {
	for {
		if s.b == nil {
			var err error
			if s.b, err = s.in.Next(); err != nil || s.b == nil {
				return nil, err
			}
			s.at = -1
			s.left = 0
		}
		s.idx = s.idx[:0]
		n := len(s.ids)
		for len(s.idx) < expr.BatchSize {
			if s.left > 0 {
				s.left--
				s.idx = append(s.idx, s.b.Sel[s.at])
				continue
			}
			if s.at++; s.at >= len(s.b.Sel) {
				break
			}
			i := s.b.Sel[s.at]
			s.left = s.repeat(s.b.Cols[n].I[i], s.b.Cols[n+1].I[i])
		}
		end := s.at >= len(s.b.Sel)
		if len(s.idx) > 0 {
			gatherAll(&s.out, s.b.Cols[:n], s.idx)
		}
		if end {
			s.b = nil
		}
		if len(s.idx) > 0 {
			return &s.out, nil
		}
	}
}

func (s *setOp) Close() error { return s.in.Close() }

// Shared keeps the rows of a plan that several readers use: a CTE.
type Shared struct {
	in    Op
	rows  *spool
	users int
	err   error
}

// NewShared wraps a plan. It runs when the first reader asks for rows.
func NewShared(in Op) *Shared { return &Shared{in: in} }

// owner keeps the rows of shared plans until the statement ends: their readers may come and go
// before, as those below an Apply do.
type owner struct {
	Op
	shared []*Shared
	open   bool
}

// NewOwner wraps the root of a plan that has readers of shared plans.
func NewOwner(in Op, shared []*Shared) Op { return &owner{Op: in, shared: shared} }

// Open implements Op.
func (o *owner) Open(ctx *Ctx) error {
	if !o.open {
		o.open = true
		for _, s := range o.shared {
			s.users++
		}
	}
	return o.Op.Open(ctx)
}

// Close implements Op.
func (o *owner) Close() error {
	err := o.Op.Close()
	if o.open {
		o.open = false
		for _, s := range o.shared {
			s.leave()
		}
	}
	return err
}

// leave says that a user is gone; the last one takes the rows with it.
func (s *Shared) leave() {
	if s.users--; s.users == 0 {
		s.rows.close()
		s.rows, s.err = nil, nil
	}
}

type sharedReader struct {
	columns
	s    *Shared
	ctx  *Ctx
	next func() (*expr.Batch, error)
	open bool
}

// Reader reads the rows of a shared plan from the beginning, under other names.
func (s *Shared) Reader(ids []expr.ColID) Op {
	return &sharedReader{columns: columns{ids, s.in.Types()}, s: s}
}

func (r *sharedReader) Open(ctx *Ctx) error {
	r.ctx, r.next = ctx, nil
	if !r.open {
		r.open = true
		r.s.users++
	}
	return nil
}

func (s *Shared) load(ctx *Ctx) error {
	if s.rows != nil || s.err != nil {
		return s.err
	}
	s.rows = newSpool(s.in.Types(), ctx)
	s.err = s.fill(ctx)
	return s.err
}

func (s *Shared) fill(ctx *Ctx) error {
	if err := s.in.Open(ctx); err != nil {
		return err
	}
	for {
		b, err := s.in.Next()
		if err != nil {
			return closing(s.in, err)
		}
		if b == nil {
			return s.in.Close()
		}
		if err := s.rows.add(b.Cols, b.Sel); err != nil {
			return closing(s.in, err)
		}
	}
}

func (r *sharedReader) Next() (*expr.Batch, error) {
	if err := r.ctx.Err(); err != nil {
		return nil, err
	}
	if r.next == nil {
		if err := r.s.load(r.ctx); err != nil {
			return nil, err
		}
		var err error
		if r.next, err = r.s.rows.rows(); err != nil {
			return nil, err
		}
	}
	return r.next()
}

func (r *sharedReader) Close() error {
	if !r.open {
		return nil
	}
	r.open = false
	r.s.leave()
	return nil
}

// Working is the leaf of a recursive plan that has the rows of the step before.
type Working struct {
	columns
	ctx  *Ctx
	rows *spool
	next func() (*expr.Batch, error)
}

// NewWorking makes the leaf.
func NewWorking(ids []expr.ColID, types []expr.Type) *Working {
	return &Working{columns: columns{ids, types}}
}

// Open implements Op.
func (w *Working) Open(ctx *Ctx) (err error) {
	w.ctx = ctx
	if w.rows == nil {
		return fmt.Errorf("exec: a recursive reference outside of its CTE")
	}
	w.next, err = w.rows.rows()
	return err
}

// Next implements Op.
func (w *Working) Next() (*expr.Batch, error) {
	if err := w.ctx.Err(); err != nil {
		return nil, err
	}
	return w.next()
}

// Close implements Op.
func (w *Working) Close() error { return nil }

// RecursiveSpec is WITH RECURSIVE.
type RecursiveSpec struct {
	IDs []expr.ColID
	// Seed gives the first rows. Step gives more, from those of the step before, which Work has.
	// Both have the types of Work.
	Seed, Step Op
	Work       *Working
	// Distinct drops rows that were there before.
	Distinct bool
}

type recursive struct {
	columns
	spec  RecursiveSpec
	ctx   *Ctx
	t     *hashing.Table
	held  int64
	depth int
	cur   Op
	fresh *spool
	gids  []int32
	sel   []int32
	out   expr.Batch
}

// NewRecursive runs the step until it gives no more rows. More steps than cte_max_recursion_depth
// are error 3636.
func NewRecursive(s RecursiveSpec) Op {
	return &recursive{columns: columns{s.IDs, s.Work.types}, spec: s}
}

func (r *recursive) Open(ctx *Ctx) error {
	r.ctx, r.depth, r.cur = ctx, 0, r.spec.Seed
	r.t = hashing.New(r.types, ctx.Err)
	r.fresh = newSpool(r.types, ctx)
	return r.spec.Seed.Open(ctx)
}

func (r *recursive) Next() (*expr.Batch, error) {
	for r.cur != nil {
		if err := r.ctx.Err(); err != nil {
			return nil, err
		}
		b, err := r.cur.Next()
		if err != nil {
			return nil, err
		}
		if b == nil {
			if err := r.turn(); err != nil {
				return nil, err
			}
			continue
		}
		sel := b.Sel
		if r.spec.Distinct {
			if sel, err = r.unseen(b); err != nil {
				return nil, err
			}
		}
		if len(sel) == 0 {
			continue
		}
		if err := r.fresh.add(b.Cols, sel); err != nil {
			return nil, err
		}
		r.out = expr.Batch{N: b.N, Cols: b.Cols, Sel: sel}
		return &r.out, nil
	}
	return nil, nil
}

func (r *recursive) unseen(b *expr.Batch) (_ []int32, err error) {
	n := r.t.Len()
	if r.gids, err = r.t.Assign(b.Cols, b.Sel, r.gids[:0], false); err != nil {
		return nil, err
	}
	r.sel = r.sel[:0]
	for k, i := range b.Sel {
		if r.gids[k] >= n {
			r.sel = append(r.sel, i)
			n++
		}
	}
	now := r.t.Bytes()
	err = r.ctx.Mem.Grow(now - r.held)
	if err == nil {
		r.held = now
	}
	return r.sel, err
}

// turn begins the next step with the rows of the one that ended.
func (r *recursive) turn() error {
	if err := r.cur.Close(); err != nil {
		return err
	}
	r.cur = nil
	r.spec.Work.rows.close()
	r.spec.Work.rows = r.fresh
	if r.fresh.mem.n == 0 && r.fresh.file == nil {
		return nil
	}
	r.fresh = newSpool(r.types, r.ctx)
	limit := r.ctx.Env.CTEDepth
	if limit == 0 {
		limit = 1000
	}
	if r.depth++; r.depth > limit {
		return mysql.NewSQLError(3636, "HY000",
			"Recursive query aborted after %d iterations. Try increasing @@cte_max_recursion_depth to a larger value.", limit+1)
	}
	r.cur = r.spec.Step
	return r.spec.Step.Open(r.ctx)
}

func (r *recursive) Close() error {
	r.fresh.close()
	r.spec.Work.rows.close()
	r.fresh, r.spec.Work.rows, r.cur = nil, nil, nil
	if r.ctx != nil {
		r.ctx.Mem.Shrink(r.held)
	}
	r.held = 0
	return closeAll(r.spec.Seed, r.spec.Step)
}
