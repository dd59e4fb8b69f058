package owner

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// Slots are how a cross-region transaction (CRT) commits without holding up transactions inside the
// regions (Relay, section 4; docs/protocol.md, REL). It has read a snapshot without locks, and
// proposes one timestamp a little in the future, its slot. Each participant makes sure that what
// was read has not changed and will not before the slot, and logs its vote. Until the slot its
// regions go on reading what it writes; at the slot its writes take effect everywhere.

// slotMargin is how far ahead of now a slot must lie for a reader to have a chance to commit
// before it.
const slotMargin = 2 * time.Millisecond

// mostSlot is how far ahead of now a slot lies, at most.
const mostSlot = 2 * time.Second

// untilSlot waits until about the time of a slot. Nothing rests on it, but a floor that is raised
// to a slot ahead would make commits wait for it. (In clock mode GTM a node that has not heard of
// the oracle for long thinks that every slot lies far ahead.)
func (r *Replica) untilSlot(ctx context.Context, slot base.Timestamp) error {
	d := min(slot.Sub(r.clock.Latest()), mostSlot)
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return canceled(ctx)
	}
}

// endBarrier gives back the locks of what x has only read, once its slot has come: what is written
// from then on lies behind it.
func (r *Replica) endBarrier(ctx context.Context, x *txns.Txn, term uint64, q *wire.CommitRequest) {
	if r.untilSlot(ctx, base.Timestamp(q.Slot)) != nil {
		return
	}
	r.propMu.Lock()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.propMu.Unlock()
	if !r.current(x, term) || x.Phase == txns.Active || r.mayPropose(term) != nil {
		return
	}
	r.lead.Floor = max(r.lead.Floor, x.TS)
	for _, s := range evaluate.SlotSpansOf(q).Shared {
		if !x.WritesIn(s) {
			r.settle(r.LockTable.Unlock(x.ID, s))
		}
	}
}

// underSlots is called by a read that holds its locks. It returns the timestamp to read at: the
// newest there is, or, if a slot ahead writes something of it, just before that slot, below which
// the transaction must commit then. A slot that is due is waited for: whether its transaction has
// committed decides what is to be read. mu is held.
func (r *Replica) underSlots(ctx context.Context, x *txns.Txn, term uint64, mode lock.Mode,
	spans []base.Span) (base.Timestamp, error) {
	if err := r.keepBound(ctx, x, r.clock.Latest()); err != nil {
		return 0, err
	}
	for {
		at, due := r.SlotsOn(x, mode, spans, r.clock.Latest().Add(slotMargin))
		if due == nil {
			if at != base.MaxTimestamp && !r.cfg.NoBounds {
				r.BoundBySlots(x, spans)
			}
			return at, nil
		}
		r.stats.SlotWaits.Add(1)
		if err := r.awaitEnd(ctx, due); err != nil {
			return 0, err
		}
		if !r.current(x, term) {
			return 0, r.lost(x, term)
		}
	}
}

// keepBound makes sure that x may go on at a timestamp: if that is past the slots that bound it,
// their outcomes decide. What it read is still true if none of them has committed. mu is held.
func (r *Replica) keepBound(ctx context.Context, x *txns.Txn, at base.Timestamp) error {
	for x.Bound.Below != 0 && at >= x.Bound.Below {
		due, lost := x.Bound.Past(at)
		if lost {
			return base.Errorf(base.CodeAborted,
				"transaction %v read what a cross-region transaction has changed before it could commit: retry", x.ID)
		}
		if due == nil {
			continue
		}
		r.stats.SlotWaits.Add(1)
		if err := r.awaitEnd(ctx, due); err != nil {
			return err
		} // while it waited, other slots may have come to bound it
	}
	return nil
}

// vouch makes sure that what x has read here is still true at what it has read elsewhere (REL-17),
// and that no slot up to there will be voted for here.
func (r *Replica) vouch(ctx context.Context, x *txns.Txn, q *wire.ReadRequest, resp *wire.ReadResponse) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lead.Floor = max(r.lead.Floor, min(base.Timestamp(q.MinTs), r.lead.LeaseEnd.Prev()))
	err := r.keepBound(ctx, x, base.Timestamp(q.MinTs))
	resp.Bounded, resp.Below = x.Bound.Below != 0, uint64(x.Bound.Below)
	return err
}

// OnVote takes the message of another participant that its vote is durable.
func (r *Replica) OnVote(id base.TxnID, from base.GroupID) {
	r.mu.Lock()
	heard := r.lead.State.In(lead.Serves) && r.Hear(id, from)
	r.mu.Unlock()
	if heard {
		r.decideByVotes(id)
	}
}

// decideByVotes commits a transaction once all votes for its slot are known to be durable (OWN-8).
func (r *Replica) decideByVotes(id base.TxnID) {
	r.mu.Lock()
	x, v, n := r.ByID[id], r.rep.Prepared[id], r.Notices[id]
	if x == nil || v == nil || v.Slot == 0 || x.Phase != txns.Prepared || x.Deciding || !r.lead.State.In(lead.Serves) {
		r.mu.Unlock()
		return
	}
	for _, g := range state.Groups(v.Participants) {
		if g != r.id && (n == nil || !slices.Contains(n.From, g)) {
			r.mu.Unlock()
			return
		}
	}
	x.Deciding = true
	term := r.lead.Term
	r.mu.Unlock()
	r.set.spawn(func(ctx context.Context) {
		if _, err := r.decide(ctx, id, term, true, base.Timestamp(v.Slot)); err != nil {
			r.notDeciding(id)
			return
		}
		r.mu.Lock() // not before: they are handed over
		delete(r.Notices, id)
		r.mu.Unlock()
	})
}

// sendVote tells the other participants that this group has voted. at is where they find the vote
// in their own copies; nil: it counts as it is.
func (r *Replica) sendVote(v *wire.CommitRequest, at *wire.VoteAt) {
	for _, g := range state.Groups(v.Participants) {
		if g == r.id {
			continue
		}
		q := &wire.VoteNotice{Group: uint32(g), Txn: v.Txn.Id, From: uint32(r.id), Slot: v.Slot, Vote: at}
		to := r.cfg.Directory.Leader(g)
		if at != nil && (to == 0 || to == r.cfg.Self) {
			continue // it is told when another region holds it
		}
		if sib := r.set.Replica(g); sib != nil && (to == 0 || to == r.cfg.Self) {
			id, _ := state.TxnID(q.Txn)
			sib.OnVote(id, r.id)
			continue
		}
		if to == 0 {
			continue
		}
		r.set.spawn(func(ctx context.Context) {
			_ = r.cfg.Transport.Call(ctx, to, wire.KindVote, q, &wire.TxnHeartbeatResponse{})
		})
	}
}
