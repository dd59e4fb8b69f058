package txn

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// protocol is one way to commit. Each reads from top to bottom in one file:
//
//	lockCommit       locks.go     under locks: one group decides alone, or several prepare
//	largeCommit      large.go     the same, of what does not fit into one entry of a log
//	preparation      prepared.go  under locks, which it keeps: records in place of the writes
//	lockEnd          locks.go     nothing was written
//	slotCommit       slot.go      after a snapshot, at a slot that the coordinator proposes
//	timestampCommit  order.go     at the transaction's own timestamp
//	snapshotEnd      commit.go    nothing was written or locked
//
// What they share is the plan (plan.go: which group is asked for what) and the proposal
// (proposal.go: one message to one group, or a Prepare to each of several, and what the answers
// amount to).
type protocol interface {
	// commit makes the buffered writes durable and visible and returns the commit timestamp. If it
	// fails, the caller releases the transaction.
	commit(ctx context.Context) (base.Timestamp, error)
	// voted learns from the answer of one of several groups as it arrives. Calls may overlap.
	voted(p *proposal, r base.RegionID, resp *wire.CommitResponse, took time.Duration)
}

// protocol is the transaction's.
func (t *Txn) protocol() protocol {
	switch {
	case t.ends != nil:
		return t.ends
	case t.prepares():
		return &preparation{lockCommit{proposal: proposal{t: t, as: &t.attempt}}}
	case t.mode == byTimestamp:
		return &timestampCommit{t: t}
	case t.mode == bySlot && t.Wrote():
		return &slotCommit{t: t}
	case t.mode == bySlot, !t.Wrote() && len(t.parts) == 0:
		return snapshotEnd{t}
	case !t.Wrote():
		return lockEnd{t}
	case t.isLarge():
		return &largeCommit{lockCommit: lockCommit{proposal: proposal{t: t, as: &t.attempt}}}
	}
	return &lockCommit{proposal: proposal{t: t, as: &t.attempt}}
}

// Commit implements kv.Txn.
func (t *Txn) Commit(ctx context.Context) (base.Timestamp, error) {
	if err := t.usable(); err != nil {
		return 0, err
	}
	t.db.busy.Add(1)
	defer t.db.busy.Add(-1)
	ts, err := t.commit(t.trace(ctx))
	if err != nil {
		t.db.stats.Failed.Add(1)
		if t.err == nil {
			t.err = err
		}
		t.abandon()
		return 0, err
	}
	t.db.stats.Committed.Add(1)
	if len(t.parts) > 0 || t.Wrote() || t.mode == bySlot {
		t.db.cfg.Commits.Done(t.crossed())
	}
	t.commitTS = ts
	t.early.end()
	t.buf.Close()
	t.end(false)
	return ts, nil
}

func (t *Txn) commit(ctx context.Context) (base.Timestamp, error) {
	if err := t.mayCommit(); err != nil {
		return 0, err
	}
	if t.mode == byTimestamp && t.buf.Meta() {
		if err := t.turnToLocks(ctx); err != nil {
			return 0, err
		}
	}
	if err := t.named(ctx, t.Wrote() || t.ends != nil); err != nil {
		return 0, err
	}
	if t.mode == bySlot && t.needsLocks() {
		if err := t.lockAfterAll(ctx); err != nil {
			return 0, err
		}
	}
	if err := t.aboveEnds(ctx); err != nil {
		return 0, err
	}
	ts, err := t.protocol().commit(ctx)
	if err == errNoSlot && !t.program {
		if err = t.lockAfterAll(ctx); err == nil {
			return t.protocol().commit(ctx)
		}
	}
	return ts, err
}

// snapshotEnd ends a transaction that neither wrote nor locked: its reads are one snapshot, taken
// after it began, at which what it pinned must have held.
type snapshotEnd struct{ t *Txn }

func (e snapshotEnd) voted(*proposal, base.RegionID, *wire.CommitResponse, time.Duration) {}

func (e snapshotEnd) commit(ctx context.Context) (base.Timestamp, error) {
	t := e.t
	if t.readTS == 0 {
		return t.db.clock.Now(), nil // nothing was read: no one can tell
	}
	if len(t.pins) > 0 {
		catalog := t.holdsCatalog()
		if catalog && !t.db.set.CatalogNow(t.readTS) || !catalog && !t.db.set.CloseNow(base.MetaShard, t.readTS) {
			if err := t.db.awaitMeta(ctx, t.readTS, catalog); err != nil {
				return 0, err
			}
		}
		if err := t.checkPins(t.readTS); err != nil {
			return 0, err
		}
	}
	return t.readTS, nil
}

// settled is commit wait at the coordinator.
func (t *Txn) settled(ctx context.Context, ts base.Timestamp) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.db.cfg.Limits.Request)
	defer cancel()
	if err := t.db.settle(ctx, ts); err != nil {
		return base.Errorf(base.CodeAmbiguous, "transaction %v committed at %s, but the wait for its timestamp was "+
			"cut short: %v", t.id, ts, err)
	}
	return nil
}
