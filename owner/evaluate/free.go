package evaluate

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Skips are the positions, in order, of the keys of a request that were skipped.
type Skips []uint32

// Before maps position i among the keys that were not skipped to the position of the same key among
// all keys of the request.
func (k Skips) Before(i uint32) uint32 {
	for _, s := range k {
		if s <= i {
			i++
		}
	}
	return i
}

// Free splits a request that skips what others have locked (kv.WaitSkip). It calls try, which locks
// a key if it can, for one key after the other, until it has as many as the limit. free is the
// request for these keys alone; skipped are the rest. try may release the caller's mutex while it
// waits.
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
