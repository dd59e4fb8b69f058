package evaluate

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Skips are the positions of keys of a request that others have locked, in order.
type Skips []uint32

// Before is the position among all keys of one that has position i among those that are left.
func (k Skips) Before(i uint32) uint32 {
	for _, s := range k {
		if s <= i {
			i++
		}
	}
	return i
}

// Free splits a request that skips what others have locked (kv.WaitSkip). free asks for the keys
// for which try has taken a lock, no more of them than the limit. try may give up the caller's
// mutex meanwhile.
func Free(q *wire.ReadRequest, try func(base.Span) (bool, error)) (free *wire.ReadRequest, skipped Skips, err error) {
	if !view.AllPoints(q.Spans) {
		return nil, nil, base.Errorf(base.CodeInvalid, "a scan cannot skip what is locked")
	}
	free = &wire.ReadRequest{Group: q.Group, Txn: q.Txn, Lock: q.Lock, MinTs: q.MinTs, Reverse: q.Reverse,
		MaxBytes: q.MaxBytes, LockTerm: q.LockTerm, Quiet: q.Quiet, Wait: q.Wait}
	for i, s := range q.Spans {
		ok := q.Limit == 0 || len(free.Spans) < int(q.Limit)
		if ok {
			if ok, err = try(view.SpanOf(s)); err != nil {
				return nil, nil, err
			}
		}
		if ok {
			free.Spans = append(free.Spans, s)
		} else {
			skipped = append(skipped, uint32(i))
		}
	}
	return free, skipped, nil
}
