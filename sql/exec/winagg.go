package exec

import (
	"github.com/godwitdb/godwit/sql/exec/sorting"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/fn"
)

// aggregate makes the evaluator of an aggregate.
func (w *window) aggregate(f WindowFunc, env *expr.Env) (winFunc, error) {
	fr, err := w.framer(f.Frame, env)
	if err != nil {
		return nil, err
	}
	var slots []int
	for _, n := range f.Agg.Inputs() {
		at, err := w.slot(n, env)
		if err != nil {
			return nil, err
		}
		slots = append(slots, at)
	}
	if name := f.Agg.Fn.Name; name == "min" || name == "max" {
		at := slots[0]
		types := w.rows[at : at+1]
		return &extremeFunc{framer: fr, pace: &w.pace, slot: at, cmp: expr.NewComparer(types[0]), types: types, max: name == "max"}, nil
	}
	x := &aggFunc{framer: fr, w: w, slots: slots, in: make([]*expr.Vec, len(slots))}
	if x.acc, err = fn.NewWindowAcc(f.Agg, env); err != nil {
		return nil, err
	}
	x.remover, _ = x.acc.(expr.Remover)
	x.typ = f.Agg.T // copyAt makes a DECIMAL of it that has the digits of f.Type
	return x, nil
}

// aggFunc is an aggregate over frames. It adds the rows by which a frame grows, and takes away
// those that it loses. If the aggregate cannot forget, it begins anew when a frame loses rows.
type aggFunc struct {
	framer
	w       *window
	typ     expr.Type
	acc     expr.Acc
	remover expr.Remover
	slots   []int
	in      []*expr.Vec
	lo, hi  int // the rows that were added
	valid   bool
	value   expr.Vec // of those rows
	front   rowCursor
	back    rowCursor
	sel     []int32
	groups  []int32
}

func (f *aggFunc) open(b *rowBuf) {
	f.framer.open(b)
	f.front, f.back, f.valid = rowCursor{buf: b}, rowCursor{buf: b}, false
	f.reset(0)
}

func (f *aggFunc) bytes() int64 { return f.acc.Bytes() }

// reset forgets all rows; the next one is added at row r.
func (f *aggFunc) reset(r int) {
	f.acc.Reset()
	f.acc.Grow(1)
	f.lo, f.hi, f.valid = r, r, false
}

func (f *aggFunc) fill(v *expr.Vec, at int, s *segment) error {
	if err := f.begin(s, f.reset); err != nil {
		return err
	}
	for k := range s.to - s.from {
		lo, hi := s.frameLo[k], s.frameHi[k]
		if lo >= hi {
			lo, hi = f.lo, f.lo
		}
		if !f.valid || lo != f.lo || hi != f.hi {
			if err := f.move(lo, hi); err != nil {
				return err
			}
			f.value.Reset(f.typ, 1)
			if err := f.acc.Result(&f.value, 0, 1); err != nil {
				return err
			}
			if err := f.w.pace.step(1 + int(f.value.Bytes(expr.All(1)))/16); err != nil { // it was written
				return err
			}
			f.valid = true
		}
		copyAt(v, at+k, &f.value, 0)
	}
	return nil
}

// move makes the rows that were added those from lo to hi.
func (f *aggFunc) move(lo, hi int) error {
	switch {
	case lo == f.lo && hi >= f.hi:
	case f.remover != nil && lo > f.lo && lo < f.hi && hi >= f.hi && lo-f.lo < hi-lo:
		if err := f.each(&f.back, f.lo, lo, f.remover.Remove); err != nil {
			return err
		}
		f.lo = lo
	default:
		f.reset(lo)
	}
	err := f.each(&f.front, f.hi, hi, f.acc.Add)
	f.hi = hi
	return err
}

// each gives rows to the accumulator, all of one group.
func (f *aggFunc) each(c *rowCursor, from, to int, do func([]int32, []*expr.Vec, []int32) error) error {
	for from < to {
		cols, i, more, err := c.at(from)
		if err != nil {
			return err
		}
		n := min(more, to-from, 1024)
		for k, at := range f.slots {
			f.in[k] = cols[at]
		}
		f.sel = span(f.sel, int(i), n)
		for len(f.groups) < n {
			f.groups = append(f.groups, 0)
		}
		if err := do(f.groups[:n], f.in, f.sel); err != nil {
			return err
		}
		from += n
		if err := f.w.pace.step(n); err != nil {
			return err
		}
	}
	return nil
}

// extremeFunc is MIN and MAX. It keeps, in order, the values of the frame after which there is no
// better one: the first of them is the answer.
type extremeFunc struct {
	framer
	pace  *pace
	slot  int
	types []expr.Type
	cmp   expr.Comparer
	max   bool

	next  int // the first row that was not looked at
	queue []queued
	head  int
	vals  *store
	at    rowCursor
	one   []int32
}

// queued is a value that may be the best of a frame: of a row, at a place in vals.
type queued struct {
	row int
	at  int32
}

func (f *extremeFunc) open(b *rowBuf) {
	f.framer.open(b)
	f.at = rowCursor{buf: b}
	f.reset(0)
}

func (f *extremeFunc) reset(r int) {
	f.next, f.queue, f.head, f.vals = r, f.queue[:0], 0, newStore(f.types, nil)
}

func (f *extremeFunc) bytes() int64 { return int64(cap(f.queue))*16 + f.vals.held }

func (f *extremeFunc) fill(v *expr.Vec, at int, s *segment) error {
	if err := f.begin(s, f.reset); err != nil {
		return err
	}
	for k := range s.to - s.from {
		lo, hi := s.frameLo[k], s.frameHi[k]
		if lo >= hi {
			v.SetNull(at + k)
			continue
		}
		for f.next = max(f.next, lo); f.next < hi; f.next++ {
			if err := f.push(f.next); err != nil {
				return err
			}
		}
		for f.head < len(f.queue) && f.queue[f.head].row < lo {
			f.head++
		}
		if f.head == len(f.queue) {
			v.SetNull(at + k)
			continue
		}
		copyAt(v, at+k, f.vals.cols[0], f.queue[f.head].at)
	}
	return nil
}

// push adds a row at the end of the queue. It drops the rows before it that are not better: they
// cannot become the answer any more.
func (f *extremeFunc) push(row int) error {
	cols, i, _, err := f.at.at(row)
	if err != nil {
		return err
	}
	x := cols[f.slot]
	if err := f.pace.step(1 + sorting.LongAs(x, i)/16); err != nil {
		return err
	}
	if x.T.Kind == expr.Null || x.IsNull(i) {
		return nil
	}
	for n := len(f.queue); n > f.head; n-- {
		c := f.cmp(f.vals.cols[0], f.queue[n-1].at, x, i)
		if f.max {
			c = -c
		}
		// Of equal values the first one is the answer as long as it is in the frame.
		if c <= 0 {
			break
		}
		f.queue = f.queue[:n-1]
	}
	if f.vals.n > 2*(len(f.queue)-f.head)+1024 {
		f.compact()
	}
	f.one = append(f.one[:0], i)
	f.queue = append(f.queue, queued{row, int32(f.vals.n)})
	f.vals.append(cols[f.slot:f.slot+1], f.one, rowBytes(cols[f.slot:f.slot+1], f.one))
	return nil
}

// compact drops the values that nobody asks for any more.
func (f *extremeFunc) compact() {
	f.queue = append(f.queue[:0], f.queue[f.head:]...)
	f.head = 0
	idx := make([]int32, len(f.queue))
	for k := range f.queue {
		idx[k], f.queue[k].at = f.queue[k].at, int32(k)
	}
	old := f.vals
	f.vals = newStore(f.types, nil)
	f.vals.append(old.cols, idx, rowBytes(old.cols, idx))
}
