package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/route"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// bySlot votes for a slot, a timestamp a little in the future that the coordinator has proposed
// (Relay, section 4; docs/protocol.md, REL). The vote locks what was read and what is written in
// the tier of cross-region transactions, and against writers of the region until it is proposed or
// its slot has come.
type bySlot struct{}

func (bySlot) check(_ *Replica, q *wire.CommitRequest) error {
	if !q.Prepare {
		return base.Errorf(base.CodeInvalid, "a commit of one group has no slot")
	}
	return nil
}

func (bySlot) leased(*wire.CommitRequest) bool { return true }
func (bySlot) mustBegin() bool                 { return true }
func (bySlot) blind() bool                     { return true }

func (bySlot) holds(e *evaluation, s base.Span) bool {
	return e.r.LockTable.Holds(e.x.ID, s, lock.Shared) && e.r.LockTable.Holds(e.x.ID, txns.InCRTTier(s), lock.Exclusive)
}

func (bySlot) lock(ctx context.Context, e *evaluation) error {
	spans := evaluate.SlotSpansOf(e.q)
	if _, err := e.r.lock(ctx, e.x, e.term, lock.Exclusive, spans.CRTX...); err != nil {
		return err
	}
	if _, err := e.r.lock(ctx, e.x, e.term, lock.Shared, spans.CRTS...); err != nil {
		return err
	}
	// Rows that are patched come last: their locks are given back as soon as the vote is proposed.
	return e.lockPatiently(ctx, append(spans.Shared, spans.Patched...))
}

// lockPatiently takes the locks of a vote against writers of the region. Those commit within a
// moment, so the vote waits for them whatever the policy: dying would cost a trip across the ocean
// more.
func (e *evaluation) lockPatiently(ctx context.Context, spans []base.Span) error {
	r, x := e.r, e.x
	r.mu.Lock()
	policy := x.Policy
	x.Policy = lock.Detect
	r.mu.Unlock()
	_, err := r.lock(ctx, x, e.term, lock.Shared, spans...)
	r.mu.Lock()
	x.Policy = policy
	r.mu.Unlock()
	return err
}

func (bySlot) look(ctx context.Context, e *evaluation) error {
	for {
		e.arrivals = view.Arrivals{}
		e.r.beginArrivals(&e.arrivals)
		e.r.mu.Lock()
		e.ended = e.r.PatchesEnded
		e.r.mu.Unlock()
		if err := e.validate(ctx); err != nil {
			return err
		}
		missing, again, err := e.lookOnce(ctx)
		if err != nil {
			return err
		}
		if again {
			continue
		}
		if len(missing.Soft) > 0 {
			for w := range missing.Soft {
				w.Move = 0 // not worth the gap behind the row
			}
			continue
		}
		if len(missing.Gaps) == 0 {
			return e.r.awaitArrivals(ctx, &e.arrivals)
		}
		for _, g := range missing.Gaps {
			if _, err := e.r.lock(ctx, e.x, e.term, lock.Exclusive, txns.InCRTTier(g)); err != nil {
				return err
			}
		}
		if _, err := e.r.lock(ctx, e.x, e.term, lock.Shared, missing.Gaps...); err != nil {
			return err
		}
	}
}

// choose does nothing: the coordinator has chosen the slot.
func (bySlot) choose(context.Context, *evaluation) error { return nil }

// errBusy says that a vote has to wait for another one, evaluation.blocker, that may still commit
// behind the slot.
var errBusy = base.Errorf(base.CodeTooLate, "another vote may commit behind the slot")

// errLower says that a vote has to wait for another one, evaluation.blocker: its slot is lower, and
// it writes what was read here; or its patch leaves no room for another one of that row.
var errLower = base.Errorf(base.CodeTooLate, "another vote has to end first")

// mayStack makes sure that the vote may be pending beside those that are (REL-11). mu is held.
func (e *evaluation) mayStack(slot base.Timestamp) error {
	r := e.r
	e.blocker = r.LowerSlot(e.x, view.SpansOf(e.q.Reads), slot)
	if e.blocker == nil && len(e.Stacked) > 0 {
		if e.ended != r.PatchesEnded {
			return errLookAgain // a row may have changed since
		}
		e.blocker = evaluate.Unstackable(e.Stacked, e.x, r.Slots)
	}
	if e.blocker != nil {
		return errLower
	}
	return nil
}

func (bySlot) assign(e *evaluation) error {
	r, q, l := e.r, e.q, &e.r.lead
	slot := base.Timestamp(q.Slot)
	if now := max(r.clock.Latest(), l.Floor, l.Announced, r.rep.LastTS, e.Since, base.Timestamp(q.MinTs),
		e.aboveHold()); slot <= now || slot.Next() > l.LeaseEnd {
		e.least = now.Next()
		return base.Errorf(base.CodeTooLate, "group %v: the slot %s of transaction %v is past, "+
			"or behind the lease: it is %s", r.id, slot, e.x.ID, now)
	}
	if err := e.mayStack(slot); err != nil {
		return err
	}
	bound, busy := r.BoundOthers(e.x, e.Writes, e.Handover, slot, !r.cfg.NoBounds)
	if e.blocker = busy; busy != nil {
		return errBusy
	}
	route.Tell(r.set.spawn, r.cfg.Transport, r.cfg.Self, r.id, slot, bound)
	e.ts, e.hi = slot, slot.Next()
	e.announce()
	return nil
}

func (bySlot) overcome(ctx context.Context, e *evaluation, err error) error {
	if err != errBusy && err != errLower {
		return err
	}
	r := e.r
	wait, cancel := context.WithTimeout(ctx, base.Timestamp(e.q.Slot).Sub(r.clock.Latest()))
	defer cancel()
	r.mu.Lock()
	defer r.mu.Unlock()
	if wait := r.awaitEnd(wait, e.blocker); wait != nil && ctx.Err() != nil {
		return wait
	}
	// If it took too long, the next look says that it is too late.
	if err == errLower {
		return errLookAgain
	}
	return nil
}

func (bySlot) entry(e *evaluation) *wire.Command {
	r, x := e.r, e.x
	x.Phase = txns.Preparing
	x.Patches = state.Patches(e.Writes)
	r.Pending[x], r.Slots[x] = struct{}{}, struct{}{}
	r.unlockPatched(x, e.q.Writes)
	cmd := r.command(0)
	cmd.Prepare = e.vote()
	cmd.Prepare.Slot = e.q.Slot
	return cmd
}

func (bySlot) handed(e *evaluation) {
	r, x, term, q := e.r, e.x, e.term, e.q
	r.clock.Settling(e.ts)
	if len(q.Reads) > 0 {
		r.set.spawn(func(ctx context.Context) { r.endBarrier(ctx, x, term, q) })
	}
}

func (bySlot) voted(_ context.Context, e *evaluation, _ *wire.CommitResponse) error {
	e.r.sendVote(e.q, nil)
	e.r.decideByVotes(e.x.ID)
	return nil
}

// committed is never called: a transaction of one group has no slot.
func (bySlot) committed(context.Context, *evaluation) error {
	return base.Errorf(base.CodeInvalid, "a commit of one group has no slot")
}

// A vote that comes too late, or to the wrong group, comes again under another name.
func (bySlot) keeps(_ *evaluation, code base.Code) bool {
	return !endsTxn(code) && code != base.CodeTooLate && code != base.CodeWrongOwner
}
