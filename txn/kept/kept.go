// Package kept holds what a transaction has read before it was asked for. The keys and spans are
// locked until it ends, so what they held then they hold now, but for its own writes.
package kept

import (
	"bytes"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// Rows are what was read. The zero value has none. They are not safe for concurrent use.
type Rows struct {
	points map[string]point
	spans  []span // by start, once sorted
	bytes  int
}

type point struct {
	row  *wire.KV
	lock kv.LockMode
}

type span struct {
	span base.Span
	rows []*wire.KV // in key order
	lock kv.LockMode
}

// Bytes is about how much memory they take.
func (a *Rows) Bytes() int { return a.bytes }

// Keep adds the rows of a span, in key order, that were read under a lock. [Rows.Sort] comes behind
// the last one.
func (a *Rows) Keep(s base.Span, rows []*wire.KV, lock kv.LockMode) {
	for _, r := range rows {
		a.bytes += len(r.Key) + len(r.Value)
	}
	a.bytes += len(s.Start) + len(s.End) + 64
	if !s.IsPoint() {
		a.spans = append(a.spans, span{s, rows, lock})
		return
	}
	if a.points == nil {
		a.points = map[string]point{}
	}
	p := point{lock: lock}
	if len(rows) > 0 {
		p.row = rows[0]
	}
	a.points[string(s.Start)] = p
}

// Sort makes what was kept ready for [Rows.Find].
func (a *Rows) Sort() {
	slices.SortStableFunc(a.spans, func(a, b span) int { return a.span.Start.Compare(b.span.Start) })
}

// Find returns the rows of a span, in key order, if they were read under a lock that is no weaker.
func (a *Rows) Find(s base.Span, lock kv.LockMode) (rows []*wire.KV, ok bool) {
	if lock == kv.LockNone || a.bytes == 0 {
		return nil, false
	}
	if s.IsPoint() {
		if p, ok := a.points[string(s.Start)]; ok && p.lock >= lock {
			if p.row == nil {
				return nil, true
			}
			return []*wire.KV{p.row}, true
		}
	}
	n, _ := slices.BinarySearchFunc(a.spans, s.Start, func(k span, at base.Key) int {
		if k.span.Start.Compare(at) <= 0 {
			return -1
		}
		return 1
	})
	// The same span may be there under two locks.
	for i := n - 1; i >= max(0, n-2); i-- {
		k := &a.spans[i]
		if k.lock < lock || bytes.Compare(s.Limit(), k.span.End) > 0 {
			continue
		}
		at := func(to []byte) int {
			i, _ := slices.BinarySearchFunc(k.rows, to, func(r *wire.KV, to []byte) int { return bytes.Compare(r.Key, to) })
			return i
		}
		return k.rows[at(s.Start):at(s.Limit())], true
	}
	return nil, false
}
