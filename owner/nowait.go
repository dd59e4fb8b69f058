package owner

import (
	"context"
	"errors"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Reads that do not wait for locks (kv.Wait): SELECT ... FOR UPDATE NOWAIT and SKIP LOCKED.

// lockNow takes a lock, waiting at most for committing transactions, as the policy says; free is
// false if others hold it. mu is held, but not all the time.
func (r *Replica) lockNow(ctx context.Context, x *txns.Txn, term uint64, mode lock.Mode, policy lock.Policy,
	s base.Span) (free bool, err error) {
	switch _, err = r.lockOne(ctx, x, term, mode, policy, s); {
	case errors.Is(err, errDied):
		return false, nil
	case err != nil:
		return false, err
	}
	return true, nil
}

// lockAllNow takes locks on all spans, or fails with CodeLocked; those it has taken stay.
func (r *Replica) lockAllNow(ctx context.Context, x *txns.Txn, term uint64, mode lock.Mode, spans []base.Span) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range spans {
		if free, err := r.lockNow(ctx, x, term, mode, lock.WaitEnding, s); err != nil {
			return err
		} else if !free {
			return base.Errorf(base.CodeLocked, "another transaction holds a lock on %v", s)
		}
	}
	return nil
}

// skips are the positions of spans that others hold, in order.
type skips []uint32

// before is the position among all spans of one that has position i among those that are left.
func (k skips) before(i uint32) uint32 {
	for _, s := range k {
		if s <= i {
			i++
		}
	}
	return i
}

// lockFree locks those keys of a request that nobody else holds, up to its limit, and returns the
// request of these alone. Only if there is none it waits for those who are committing.
func (r *Replica) lockFree(ctx context.Context, x *txns.Txn, term uint64, mode lock.Mode,
	q *wire.ReadRequest) (free *wire.ReadRequest, skipped skips, err error) {
	if !view.AllPoints(q.Spans) {
		return nil, nil, base.Errorf(base.CodeInvalid, "a scan cannot skip what is locked")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, policy := range []lock.Policy{lock.NoWait, lock.WaitEnding} {
		free = &wire.ReadRequest{Group: q.Group, Txn: q.Txn, Lock: q.Lock, MinTs: q.MinTs, Reverse: q.Reverse,
			MaxBytes: q.MaxBytes, LockTerm: q.LockTerm, Quiet: q.Quiet, Wait: q.Wait}
		skipped = nil
		for i, s := range q.Spans {
			ok := q.Limit == 0 || len(free.Spans) < int(q.Limit)
			if ok {
				if ok, err = r.lockNow(ctx, x, term, mode, policy, view.SpanOf(s)); err != nil {
					return nil, nil, err
				}
			}
			if ok {
				free.Spans = append(free.Spans, s)
			} else {
				skipped = append(skipped, uint32(i))
			}
		}
		if len(free.Spans) > 0 {
			break
		}
	}
	return free, skipped, nil
}
