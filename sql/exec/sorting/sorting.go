// Package sorting orders rows that are kept column by column.
package sorting

import (
	"cmp"
	"math"

	"github.com/godwitdb/godwit/sql/exec/helper"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/order"
)

// Keys compare rows. One goroutine uses them at a time.
type Keys struct {
	by     []expr.SortKey
	types  []expr.Type
	cmps   []expr.Comparer
	prefix func(v *expr.Vec, i int32) uint64 // of the first key; equal if it cannot tell
	at     int
	ask    func() error
	done   int   // bytes that were compared since it was asked whether to go on
	ended  error // why nothing is compared any more
}

// New compares rows by the columns from at on, which are keys of some types.
func New(by []expr.SortKey, types []expr.Type, at int) *Keys {
	k := &Keys{by: by, types: types, at: at}
	for _, t := range types {
		k.cmps = append(k.cmps, expr.NewComparer(t))
	}
	if len(by) > 0 {
		k.prefix = prefixOf(types[0])
	}
	return k
}

// prefixOf maps values to numbers of the same order, if that is easy.
func prefixOf(t expr.Type) func(v *expr.Vec, i int32) uint64 {
	switch t.Kind {
	case expr.Int, expr.Date, expr.Datetime, expr.Timestamp, expr.Duration, expr.Year, expr.Enum:
		return func(v *expr.Vec, i int32) uint64 { return uint64(v.I[i]) ^ 1<<63 }
	case expr.Float:
		return func(v *expr.Vec, i int32) uint64 {
			b := math.Float64bits(v.F[i] + 0)
			if b>>63 != 0 {
				return ^b
			}
			return b | 1<<63
		}
	}
	return nil
}

// Begin is called before the first comparison of a statement. ask is called again and again: its
// error ends the comparisons.
func (k *Keys) Begin(ask func() error) { k.ask, k.ended = ask, nil }

// Ended is why nothing is compared any more; nil: comparisons are right so far.
func (k *Keys) Ended() error { return k.ended }

// mostCompared is how many bytes of texts are compared without asking, at 10 to 50 ns each.
const mostCompared = 256 << 10

func (k *Keys) check() error {
	if k.ended == nil {
		k.ended = k.ask()
	}
	return k.ended
}

// Compare orders two rows. Once there is an [Keys.Ended] it does not say how any more.
func (k *Keys) Compare(x []*expr.Vec, i int32, y []*expr.Vec, j int32) int {
	for n := range k.by {
		a, b := x[k.at+n], y[k.at+n]
		c := 0
		switch p, q := a.IsNull(i), b.IsNull(j); {
		case p && q:
		case p:
			c = -1
		case q:
			c = 1
		default:
			if k.done += min(LongAs(a, i), LongAs(b, j)); k.done >= mostCompared {
				if k.check() != nil {
					return 0
				}
				k.done = 0
			}
			c = k.cmps[n](a, i, b, j)
		}
		if c != 0 {
			if k.by[n].Desc {
				return -c
			}
			return c
		}
	}
	return 0
}

// LongAs is how many bytes a text has, 0 for other values: how long it may take to compare it.
func LongAs(v *expr.Vec, i int32) int {
	if v.T.Kind.Form() == expr.FormS && v.S != nil {
		return len(v.S[i])
	}
	return 0
}

// Lend gives a processor for a second goroutine, and what that one asks instead of the statement's
// own question; no helper: there is none.
type Lend func() (ask func() error, h *helper.Helper)

// most is how many rows one goroutine sorts or merges at once, while another one does others; that
// takes some milliseconds. Few rows are sorted by one goroutine.
const most = 8 << 10

// few is most where helpers are eager.
const few = 4

// Order is the sequence of n rows of columns; equal rows keep theirs, and it does not depend on
// whether there are helpers. Others get their turns meanwhile.
func (k *Keys) Order(cols []*expr.Vec, n int, lend Lend) ([]int32, error) {
	idx := make([]int32, n)
	if k.prefix == nil {
		for i := range idx {
			idx[i] = int32(i)
		}
		return idx, sorted(k, idx, lend, func(k *Keys) func(a, b int32) int {
			return func(a, b int32) int { return k.Compare(cols, a, cols, b) }
		})
	}
	type item struct {
		p uint64
		i int32
	}
	items := make([]item, n)
	v := cols[k.at]
	for i := range items {
		items[i].i = int32(i)
		if !v.IsNull(int32(i)) {
			items[i].p = max(k.prefix(v, int32(i)), 1)
		}
		if k.by[0].Desc {
			items[i].p = ^items[i].p
		}
	}
	err := sorted(k, items, lend, func(k *Keys) func(a, b item) int {
		return func(a, b item) int {
			switch {
			case a.p < b.p:
				return -1
			case a.p > b.p:
				return 1
			}
			return k.Compare(cols, a.i, cols, b.i)
		}
	})
	for n, x := range items {
		idx[n] = x.i
	}
	return idx, err
}

// sorted sorts rows by comparisons that are made for each goroutine.
func sorted[T any](k *Keys, rows []T, lend Lend, by func(k *Keys) func(a, b T) int) error {
	piece := most
	if helper.Eager {
		piece = few
	}
	err := order.Shared(rows, piece, order.Hand[T]{Compare: by(k), Check: k.check}, func() (none order.Hand[T], _ order.Help) {
		ask, h := lend()
		if h == nil {
			return none, nil
		}
		twin := New(k.by, k.types, k.at)
		twin.Begin(ask)
		return order.Hand[T]{Compare: by(twin), Check: twin.check}, h
	})
	return cmp.Or(err, k.ended)
}
