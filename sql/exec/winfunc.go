package exec

import (
	"fmt"

	"github.com/godwitdb/godwit/sql/expr"
)

// winFunc computes a function of a window. It is called for the rows of a partition in order, and
// for partitions one after the other.
type winFunc interface {
	// open begins anew, over the rows of a buffer.
	open(*rowBuf)
	// fill stores the values of the rows of s from at on.
	fill(v *expr.Vec, at int, s *segment) error
	// bytes estimates the memory that is held.
	bytes() int64
}

// function makes the evaluator of a function.
func (w *window) function(f WindowFunc, env *expr.Env) (winFunc, error) {
	if f.Agg != nil {
		return w.aggregate(f, env)
	}
	switch f.Name {
	case "row_number", "ntile":
		return &numberFunc{name: f.Name, n: f.N}, nil
	case "rank", "dense_rank", "percent_rank", "cume_dist":
		w.peers = true
		return &numberFunc{name: f.Name}, nil
	case "lag", "lead":
		return w.neighbour(f, env)
	case "first_value", "last_value", "nth_value":
		return w.picking(f, env)
	}
	return nil, fmt.Errorf("exec: unknown window function %s", f.Name)
}

// numberFunc are the functions of a row's place in its partition.
type numberFunc struct {
	name  string
	n     int64
	dense int64 // groups of peers so far
}

func (f *numberFunc) open(*rowBuf) {}

func (f *numberFunc) bytes() int64 { return 0 }

func (f *numberFunc) fill(v *expr.Vec, at int, s *segment) error {
	if s.from == s.lo {
		f.dense = 0
	}
	size := int64(s.hi - s.lo)
	for r := s.from; r < s.to; r++ {
		k, out := r-s.from, at+r-s.from
		switch f.name {
		case "row_number":
			v.I[out] = int64(r-s.lo) + 1
		case "ntile":
			v.I[out] = bucket(int64(r-s.lo), size, f.n)
		case "rank":
			v.I[out] = int64(s.peerLo[k]-s.lo) + 1
		case "dense_rank":
			if r == s.peerLo[k] {
				f.dense++
			}
			v.I[out] = f.dense
		case "percent_rank":
			v.F[out] = 0
			if size > 1 {
				v.F[out] = float64(s.peerLo[k]-s.lo) / float64(size-1)
			}
		case "cume_dist":
			v.F[out] = float64(s.peerHi[k]-s.lo) / float64(size)
		}
	}
	return nil
}

// bucket is the bucket of NTILE that row x of size belongs to: the first ones may have a row more
// than the others.
func bucket(x, size, n int64) int64 {
	each, more := size/n, size%n
	if x < more*(each+1) {
		return x/(each+1) + 1
	}
	return more + (x-more*(each+1))/each + 1
}

// neighbourFunc is LAG and LEAD.
type neighbourFunc struct {
	step     int64 // below 0 for LAG
	value    int
	other    int // the default; -1: NULL
	at, here rowCursor
}

func (w *window) neighbour(f WindowFunc, env *expr.Env) (winFunc, error) {
	x := &neighbourFunc{step: f.N, other: -1}
	if f.Name == "lag" {
		x.step = -f.N
	}
	var err error
	if x.value, err = w.slot(f.Args[0], env); err != nil {
		return nil, err
	}
	if len(f.Args) > 1 {
		x.other, err = w.slot(f.Args[1], env)
	}
	return x, err
}

func (f *neighbourFunc) open(b *rowBuf) { f.at, f.here = rowCursor{buf: b}, rowCursor{buf: b} }

func (f *neighbourFunc) bytes() int64 { return 0 }

func (f *neighbourFunc) fill(v *expr.Vec, at int, s *segment) error {
	for r := s.from; r < s.to; r++ {
		out := at + r - s.from
		c, row, slot := &f.at, r, f.value
		switch {
		case f.step < 0 && -f.step <= int64(r-s.lo), f.step >= 0 && f.step < int64(s.hi-r):
			row += int(f.step)
		case f.other < 0:
			v.SetNull(out)
			continue
		default:
			c, slot = &f.here, f.other
		}
		cols, i, _, err := c.at(row)
		if err != nil {
			return err
		}
		copyAt(v, out, cols[slot], i)
	}
	return nil
}

// pickFunc is FIRST_VALUE, LAST_VALUE and NTH_VALUE.
type pickFunc struct {
	framer
	nth   int64 // 0: the last one
	value int
	at    rowCursor
}

func (w *window) picking(f WindowFunc, env *expr.Env) (winFunc, error) {
	x := &pickFunc{nth: f.N}
	switch f.Name {
	case "first_value":
		x.nth = 1
	case "last_value":
		x.nth = 0
	}
	var err error
	if x.framer, err = w.framer(f.Frame, env); err != nil {
		return nil, err
	}
	x.value, err = w.slot(f.Args[0], env)
	return x, err
}

func (f *pickFunc) open(b *rowBuf) {
	f.framer.open(b)
	f.at = rowCursor{buf: b}
}

func (f *pickFunc) bytes() int64 { return 0 }

func (f *pickFunc) fill(v *expr.Vec, at int, s *segment) error {
	if err := f.frames(s); err != nil {
		return err
	}
	for k := range s.to - s.from {
		lo, hi := s.frameLo[k], s.frameHi[k]
		if lo >= hi || f.nth > int64(hi-lo) {
			v.SetNull(at + k)
			continue
		}
		row := hi - 1
		if f.nth > 0 {
			row = lo + int(f.nth) - 1
		}
		cols, i, _, err := f.at.at(row)
		if err != nil {
			return err
		}
		copyAt(v, at+k, cols[f.value], i)
	}
	return nil
}
