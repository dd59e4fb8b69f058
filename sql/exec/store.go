package exec

import (
	"github.com/godwitdb/godwit/sql/expr"
)

// store keeps rows in memory, column by column, and accounts for them.
type store struct {
	types []expr.Type
	cols  []*expr.Vec
	n     int
	mem   *Mem
	held  int64
}

func newStore(types []expr.Type, mem *Mem) *store {
	s := &store{types: types, mem: mem}
	s.clear()
	return s
}

// clear forgets the rows and gives the memory back.
func (s *store) clear() {
	s.mem.Shrink(s.held)
	s.held, s.n = 0, 0
	s.cols = make([]*expr.Vec, len(s.types))
	for i, t := range s.types {
		s.cols[i] = &expr.Vec{}
		s.cols[i].Reset(t, 0)
	}
}

func rowBytes(cols []*expr.Vec, sel []int32) int64 {
	size := int64(0)
	for _, c := range cols {
		size += c.Bytes(sel)
	}
	return size
}

// tryAdd adds the selected rows of the vectors, or nothing if there is no memory for them.
func (s *store) tryAdd(cols []*expr.Vec, sel []int32) bool {
	size := rowBytes(cols, sel)
	if !s.mem.TryGrow(size) {
		return false
	}
	s.append(cols, sel, size)
	return true
}

func (s *store) add(cols []*expr.Vec, sel []int32) error {
	size := rowBytes(cols, sel)
	if err := s.mem.Grow(size); err != nil {
		return err
	}
	s.append(cols, sel, size)
	return nil
}

func (s *store) append(cols []*expr.Vec, sel []int32, size int64) {
	s.held += size
	for i, c := range cols {
		s.cols[i].Append(c, sel)
	}
	s.n += len(sel)
}

// reader gives out rows of a store in batches: those of idx in its order, or all.
type reader struct {
	s   *store
	idx []int32
	all bool
	at  int
	buf []int32
	out expr.Batch
}

// span is the list of n numbers from at on.
func span(buf []int32, at, n int) []int32 {
	buf = buf[:0]
	for i := range n {
		buf = append(buf, int32(at+i))
	}
	return buf
}

func (r *reader) next() *expr.Batch {
	total := len(r.idx)
	if r.all {
		total = r.s.n
	}
	if r.at >= total {
		return nil
	}
	n := min(expr.BatchSize, total-r.at)
	if each := r.s.held / int64(r.s.n); each > 0 { // long rows make small batches
		n = min(n, max(1, int(blockBytes/each)))
	}
	if r.all {
		r.buf = span(r.buf, r.at, n)
		gatherAll(&r.out, r.s.cols, r.buf)
	} else {
		gatherAll(&r.out, r.s.cols, r.idx[r.at:r.at+n])
	}
	r.at += n
	return &r.out
}

// each gives out the rows in batches.
func (s *store) each(f func(b *expr.Batch) error) error {
	for r := (&reader{s: s, all: true}); ; {
		b := r.next()
		if b == nil {
			return nil
		}
		if err := f(b); err != nil {
			return err
		}
	}
}

// gatherAll fills a batch with rows of columns.
func gatherAll(out *expr.Batch, cols []*expr.Vec, idx []int32) {
	for len(out.Cols) < len(cols) {
		out.Cols = append(out.Cols, &expr.Vec{})
	}
	out.Cols = out.Cols[:len(cols)]
	for i, c := range cols {
		out.Cols[i].Gather(c, idx)
	}
	out.N = len(idx)
	out.Sel = expr.All(out.N)
}

// spool keeps rows in memory or, when that is short, in a file. It can be read many times.
type spool struct {
	mem  *store
	file *spill
	ctx  *Ctx
}

func newSpool(types []expr.Type, ctx *Ctx) *spool {
	return &spool{mem: newStore(types, ctx.Mem), ctx: ctx}
}

func (s *spool) add(cols []*expr.Vec, sel []int32) error {
	if s.file == nil {
		if s.mem.tryAdd(cols, sel) {
			return nil
		}
		if s.ctx.NoSpill {
			return s.mem.add(cols, sel)
		}
		var err error
		if s.file, err = newSpill(s.ctx, s.mem.types); err != nil {
			return err
		}
		s.ctx.Work.File()
		if err := s.file.writeStore(s.mem); err != nil {
			return err
		}
		s.mem.clear()
	}
	return s.file.write(cols, sel)
}

// rows reads what was added, from the beginning.
func (s *spool) rows() (func() (*expr.Batch, error), error) {
	if s.file == nil {
		r := &reader{s: s.mem, all: true}
		return func() (*expr.Batch, error) { return r.next(), nil }, nil
	}
	r, err := s.file.read()
	if err != nil {
		return nil, err
	}
	return r.next, nil
}

func (s *spool) close() {
	if s == nil {
		return
	}
	s.mem.clear()
	s.file.close()
	s.file = nil
}
