package owner

import (
	"context"
	"errors"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/waits"
	"github.com/godwitdb/godwit/wire"
)

// Reads that do not wait for locks (kv.Wait): SELECT ... FOR UPDATE NOWAIT and SKIP LOCKED.

// lockNow takes a lock under policy NoWait or WaitEnding; free is false if others hold it. mu is
// held at entry and exit; a wait releases it.
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

// lockAllNow takes locks on all spans, or fails with CodeLocked. Even then x keeps the locks that
// it has taken.
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

// lockFree locks the keys of a request that no other transaction holds, and returns the request for
// these alone. If there are none, it tries once more, and waits for transactions that are
// committing until it has one, a second at most in all.
func (r *Replica) lockFree(ctx context.Context, x *txns.Txn, term uint64, mode lock.Mode,
	q *wire.ReadRequest) (free *wire.ReadRequest, skipped evaluate.Skips, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	policy, began := lock.NoWait, time.Now()
	try := func(s base.Span) (bool, error) {
		if time.Since(began) >= waits.Ending {
			policy = lock.NoWait
		}
		got, err := r.lockNow(ctx, x, term, mode, policy, s)
		if got {
			policy = lock.NoWait
		}
		return got, err
	}
	free, skipped, err = evaluate.Free(q, try)
	if err == nil && len(free.Spans) == 0 {
		policy = lock.WaitEnding
		free, skipped, err = evaluate.Free(q, try)
	}
	return free, skipped, err
}
