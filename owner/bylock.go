package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// byLock commits by strict two-phase locking: the writes are locked exclusively, what was read
// without locks is locked shared and validated, and the timestamp is chosen as the entry is handed
// to the group, above the floor.
type byLock struct{}

func (byLock) check(r *Replica, q *wire.CommitRequest) error {
	if len(q.GetTxn().GetPrepares()) > 0 && r.async() {
		return base.Errorf(base.CodeInvalid, "XA prepares no transaction that uses tables with REPLICATION ASYNC: a promotion "+
			"would lose it. Commit it with XA COMMIT ... ONE PHASE")
	}
	return r.checkPieces(q)
}

// Only a vote ends before the lease does: a commit that is proposed in the term stands.
func (byLock) leased(q *wire.CommitRequest) bool { return q.Prepare }
func (byLock) mustBegin() bool                   { return true }
func (byLock) blind() bool                       { return true }

func (byLock) holds(e *evaluation, s base.Span) bool {
	return e.r.LockTable.Holds(e.x.ID, s, lock.Exclusive)
}

func (byLock) lock(ctx context.Context, e *evaluation) error { return e.lockWrites(ctx) }

func (byLock) look(ctx context.Context, e *evaluation) error {
	if len(e.q.Writes) == 0 {
		return e.lookReads(ctx)
	}
	if err := e.lookWrites(ctx); err != nil {
		return err
	}
	if err := e.lookReads(ctx); err != nil {
		return err
	}
	return e.r.awaitArrivals(ctx, &e.arrivals)
}

// choose does nothing: what is assigned later must be higher, so the timestamp comes with the
// proposal.
func (byLock) choose(context.Context, *evaluation) error { return nil }

func (byLock) assign(e *evaluation) error {
	r, q, x, l := e.r, e.q, e.x, &e.r.lead
	if err := e.hasStaged(q.Pieces); err != nil {
		return err
	}
	if err := e.stand(); err != nil {
		return err
	}
	if err := e.assignAboveFloor(); err != nil {
		return err
	}
	e.hi = base.Timestamp(q.MaxTs)
	at := evaluate.Interval{TS: e.ts, Hi: e.hi}
	e.blocker = e.attempt.Spoiled(x, r.Slots, e.Writes, &at)
	if e.ts, e.hi = at.TS, at.Hi; e.blocker != nil {
		return errSpoils
	}
	if b := x.Bound.Below; b != 0 && (e.hi == 0 || b < e.hi) {
		if e.ts >= b && !q.Prepare {
			return errBound
		}
		e.hi = b
	}
	if q.Prepare && (e.hi == 0 || e.hi > l.LeaseEnd) {
		e.hi = l.LeaseEnd
	}
	if e.hi != 0 && e.ts >= e.hi {
		e.least = e.ts
		return base.Errorf(base.CodeTooLate, "group %v: transaction %v must commit below %s, the clock is at %s",
			r.id, x.ID, e.hi, e.ts)
	}
	e.announce()
	return nil
}

// assignAboveFloor sets the timestamp of a writer above all that was read, closed, assigned or
// logged here (OWN-2), and that of a vote without writes just above what it has read.
func (e *evaluation) assignAboveFloor() error {
	r, q, x := e.r, e.q, e.x
	if len(q.Writes) == 0 && len(e.Writes) == 0 && q.Pieces == 0 && q.Prepare {
		// The transaction only read here. Its locks make the reads true at any time above what was
		// read (TXN-7).
		e.ts = base.Timestamp(q.MinTs).Next()
		return nil
	}
	// A delete of an absent key logs nothing, but its transaction is a writer all the same: its
	// timestamp must not lie before it began.
	now, whole := r.clock.Assign()
	if !whole && !q.Begun {
		return errNotBegun
	}
	e.ts = max(now, r.lead.Floor.Next(), r.rep.LastTS.Next(), base.Timestamp(q.MinTs).Next(), e.Since.Next(),
		x.Staged.Since.Next(), e.aboveHold().Next())
	if r.order != nil {
		e.ts = max(e.ts, r.order.High.Next())
	}
	// It lies ahead of now by the time that replication takes (TIME-4), unless that would be too
	// late: this is only a matter of speed.
	ahead := now.Add(r.ahead())
	if ahead > e.ts && below(ahead, base.Timestamp(q.MaxTs)) && below(ahead, x.Bound.Below) {
		e.ts = ahead
	}
	return nil
}

// below reports whether ts lies below a bound, where 0 is none.
func below(ts, bound base.Timestamp) bool { return bound == 0 || ts < bound }

func (byLock) entry(e *evaluation) *wire.Command {
	r, x := e.r, e.x
	if e.q.Prepare {
		x.Phase = txns.Preparing
		if x.Writes() {
			r.lead.Floor = e.ts
			r.Pending[x] = struct{}{}
		}
		cmd := r.command(0)
		cmd.Prepare = e.vote()
		return cmd
	}
	x.Phase = txns.Committing
	r.lead.Floor = e.ts
	r.Pending[x] = struct{}{}
	cmd := r.command(e.ts)
	cmd.Commit = e.logged()
	return cmd
}

func (byLock) handed(e *evaluation) {
	if e.r.cfg.Alone() && e.r.shard != base.MetaShard {
		// Without commit wait this is what makes later readings of the clock higher. Commits of the
		// meta group lie ahead of now and wait: a clock that followed them would run away, each
		// pushing the next one further.
		_ = e.r.clock.Observe(e.ts)
	}
	e.r.clock.Settling(e.ts)
}

var (
	// errBound says that a commit has come past the slots that bound it.
	errBound = base.Errorf(base.CodeAborted, "past a slot")
	// errSpoils says that a write has to wait for a transaction, evaluation.blocker, whose patch it
	// would leave undefined.
	errSpoils = base.Errorf(base.CodeAborted, "a pending update would not be defined any more")
)

func (byLock) overcome(ctx context.Context, e *evaluation, err error) error {
	r := e.r
	switch err {
	case errBound:
		// Unless a transaction whose slot has passed has committed, the bound is gone.
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.keepBound(ctx, e.x, e.ts)
	case errNotBegun:
		return e.begin(ctx)
	case errSpoils:
		if e.x.Policy == lock.NoWait {
			return base.Errorf(base.CodeAborted, "transaction %v met an update on its way, "+
				"over which it may not write: retry", e.x.ID)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stats.PatchWaits.Add(1)
		if err := r.awaitEnd(ctx, e.blocker); err != nil {
			return err
		}
		return errLookAgain
	}
	return err
}

func (byLock) voted(ctx context.Context, e *evaluation, resp *wire.CommitResponse) error {
	r := e.r
	if m, _ := r.clock.Mode(); m != clock.GClock && m != clock.None && e.x.Writes() {
		// The trip to the oracle began with the proposal: the coordinator need not make it once
		// more.
		_ = r.commitWait(ctx, e.ts)
		resp.Oracle = uint64(r.clock.Known())
	}
	return nil
}

func (byLock) committed(ctx context.Context, e *evaluation) error {
	r, x := e.r, e.x
	if err := r.commitWait(ctx, e.ts); err != nil {
		go r.settleLate(x, e.ts)
		return base.Errorf(base.CodeAmbiguous, "group %v: transaction %v is logged at %s, "+
			"but nobody may be told yet: %v", r.id, x.ID, e.ts, err)
	}
	r.mu.Lock()
	r.release(x, false)
	r.mu.Unlock()
	return nil
}

func (byLock) keeps(_ *evaluation, code base.Code) bool { return !endsTxn(code) }
