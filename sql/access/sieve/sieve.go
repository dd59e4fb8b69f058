// Package sieve tells from the bytes of a stored row that a scan does not want it, so that the row
// is neither copied out of the store nor decoded.
//
// A row passes unless it certainly fails a bound of the scan's condition: one that is not written
// as expected, or lacks a column, passes. So the condition has to be tested again, and whoever
// scans may use the sieve or not.
package sieve

import (
	"encoding/binary"
	"math"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/apd/v3"

	"github.com/godwitdb/godwit/sql/exec/bounds"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/schema/rowfmt"
)

// Sieve is safe for use by several goroutines.
type Sieve struct {
	// cols are the stored columns by id, up to the last one with a bound.
	cols []column
	// tries counts the first rows, and drops those of them that did not pass. A sieve that drops
	// few of them is not worth its time, and lets all pass from then on.
	tries, drops atomic.Int32
	off          atomic.Bool
}

// column has what is wanted of it: values from lo to hi, both included, in the form in which rows
// have them, but for decimals, which are counted in units of the scale.
type column struct {
	id     uint32
	class  rowfmt.Class
	tested bool
	kind   schema.Kind
	scale  int64
	lo, hi int64
	// but is a value that passes although it is not between lo and hi: MySQL's zero date.
	but int64
}

const (
	sample    = 1024
	leastDrop = sample / 4
)

// Epoch says how the store counts time: where its 0 lies in microseconds of package calendar, and
// how it writes MySQL's zero date.
type Epoch struct{ Zero, NoDate int64 }

// New makes the sieve of bounds over columns of a table, which cols lists by position; nil: nothing
// can be told from the bytes.
func New(t *schema.Table, cols []int, bs []bounds.Bound, e Epoch) *Sieve {
	s := &Sieve{}
	for _, p := range t.StoredOrder {
		c := t.Cols[p]
		x := column{id: c.Desc.ID, class: c.Kind.Class(), kind: c.Kind, lo: math.MinInt64, hi: math.MaxInt64, but: e.NoDate}
		for _, b := range bs {
			if cols[b.Col] == p {
				x.narrow(b, e)
			}
		}
		s.cols = append(s.cols, x)
	}
	for n := len(s.cols); n > 0 && !s.cols[n-1].tested; n-- {
		s.cols = s.cols[:n-1]
	}
	if len(s.cols) == 0 {
		return nil
	}
	s.cols = slices.Clip(s.cols)
	return s
}

// narrow adds a bound, if the bytes of the column show it.
func (c *column) narrow(b bounds.Bound, e Epoch) {
	v, ok := c.stored(b, e)
	if !ok {
		return
	}
	lo, hi := v, v
	switch b.Op {
	case bounds.Lt, bounds.Le:
		lo = math.MinInt64
		if b.Op == bounds.Lt {
			if v == math.MinInt64 {
				return
			}
			hi--
		}
	case bounds.Gt, bounds.Ge:
		hi = math.MaxInt64
		if b.Op == bounds.Gt {
			if v == math.MaxInt64 {
				return
			}
			lo++
		}
	}
	c.lo, c.hi, c.tested = max(c.lo, lo), min(c.hi, hi), true
}

// stored is the constant of a bound in the form in which rows have it, in whose order the values
// of the column lie.
func (c *column) stored(b bounds.Bound, e Epoch) (int64, bool) {
	switch {
	case c.kind == schema.KindInt && b.T.Kind == expr.Int:
		return b.V.I, true
	case c.kind == schema.KindUint && b.T.Kind == expr.Uint:
		return b.V.I, b.V.I >= 0
	case c.kind == schema.KindDatetime && (b.T.Kind == expr.Date || b.T.Kind == expr.Datetime):
		us := calendar.Micros(b.V.I)
		p, ok := calendar.FromMicros(us)
		return us - e.Zero, ok && p == b.V.I && calendar.Complete(p) // else it is no day of the calendar
	case c.kind == schema.KindDecimal && b.T.Kind == expr.Decimal:
		d := b.V.D
		if d == nil || d.Form != apd.Finite || !d.Coeff.IsInt64() || c.tested && c.scale != int64(b.T.Scale) {
			return 0, false
		}
		c.scale = int64(b.T.Scale)
		x, ok := raised(d.Coeff.Int64(), int64(d.Exponent)+c.scale)
		if d.Negative {
			x = -x
		}
		return x, ok
	}
	return 0, false
}

// Drops reports whether a row is not wanted.
func (s *Sieve) Drops(row []byte) bool {
	if s.off.Load() {
		return false
	}
	drops := s.fails(row)
	if s.tries.Load() < sample {
		if drops {
			s.drops.Add(1)
		}
		if s.tries.Add(1) == sample && s.drops.Load() < leastDrop {
			s.off.Store(true)
		}
	}
	return drops
}

// fails goes through the columns of a row.
func (s *Sieve) fails(v []byte) bool {
	if len(v) == 0 || v[0] != rowfmt.Version {
		return false
	}
	v = v[1:]
	id := uint32(0)
	for i := range s.cols {
		c := &s.cols[i]
		// A head of one byte is a column less than 64 ids behind the one before.
		if len(v) == 0 || v[0] >= 0x80 {
			return false
		}
		if id += uint32(v[0] >> 1); id != c.id {
			return false // a column that was added, or dropped, since
		}
		null := v[0]&1 != 0
		if v = v[1:]; null {
			if c.tested {
				return true
			}
			continue
		}
		n, ok := length(c.class, v)
		if !ok {
			return false
		}
		if c.tested && c.misses(v[:n]) {
			return true
		}
		v = v[n:]
	}
	return false
}

// length is Class.Len, with the most frequent cases first.
func length(c rowfmt.Class, v []byte) (int, bool) {
	if len(v) == 0 {
		return 0, false
	}
	switch {
	case c == rowfmt.Varint:
		for n := range min(len(v), binary.MaxVarintLen64) {
			if v[n] < 0x80 {
				return n + 1, true
			}
		}
		return 0, false
	case c == rowfmt.Blob && v[0] < 0x80:
		n := 1 + int(v[0])
		return n, n <= len(v)
	}
	return c.Len(v)
}

// misses reports whether a payload lies outside of what is wanted.
func (c *column) misses(v []byte) bool {
	var x int64
	switch c.kind {
	case schema.KindUint:
		u, n := binary.Uvarint(v)
		if n <= 0 || u > math.MaxInt64 {
			return n > 0 && c.hi < math.MaxInt64
		}
		x = int64(u)
	case schema.KindDecimal:
		var ok bool
		if x, ok = decimal(v, c.scale); !ok {
			return false
		}
	default:
		var n int
		if x, n = binary.Varint(v); n <= 0 {
			return false
		}
		if c.kind == schema.KindDatetime && x == c.but {
			return false
		}
	}
	return x < c.lo || x > c.hi
}

// decimal is a payload in units of a scale, if that is a small number.
func decimal(v []byte, scale int64) (int64, bool) {
	raw, _, ok := rowfmt.TakeBlob(v)
	if !ok || len(raw) < 2 || len(raw) > 9 {
		return 0, false
	}
	exp, k := binary.Varint(raw)
	if k != 1 || raw[1] > 1 {
		return 0, false
	}
	x := int64(0)
	for _, b := range raw[2:] {
		x = x<<8 | int64(b)
	}
	if raw[1] == 1 {
		x = -x
	}
	return raised(x, exp+scale)
}

// raised is x times ten to the up, if that is a number of 64 bits.
func raised(x, up int64) (int64, bool) {
	if up < 0 || up > 18 {
		return 0, false
	}
	for ; up > 0; up-- {
		if x > math.MaxInt64/10 || x < math.MinInt64/10 {
			return 0, false
		}
		x *= 10
	}
	return x, true
}
