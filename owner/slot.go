package owner

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/store"
	"github.com/godwitdb/godwit/wire"
)

// Slots are how a cross-region transaction (CRT) commits without holding up transactions inside the regions (Relay,
// section 4; docs/protocol.md S). It has read a snapshot without locks, and proposes one timestamp a little in
// the future, its slot. Each participant makes sure that what was read has not changed and will not before the slot, and
// logs its vote. Until the slot its regions go on reading what it writes; at the slot its writes take effect everywhere.

// crtTier is put before keys to lock them in the tier of CRTs: those locks order CRTs among
// themselves, and nobody else asks for them. No shard has this number, so that one table serves both tiers.
var crtTier = []byte{0xff, 0xff}

func inCRTTier(s base.Span) base.Span {
	out := base.Span{Start: append(slices.Clone(crtTier), s.Start...)}
	if s.End != nil {
		out.End = append(slices.Clone(crtTier), s.End...)
	}
	return out
}

// slotMargin is how far ahead of now a slot must lie for a reader to hope that he commits before it.
const slotMargin = 2 * time.Millisecond

// mostSlot is how far ahead of now a slot lies, at most.
const mostSlot = 2 * time.Second

// bound is a slot below which a transaction has to commit, because it has read what the slot's transaction writes.
type bound struct {
	below base.Timestamp
	by    []*txnState
}

func (b *bound) add(x *txnState) {
	if x.ts == 0 {
		return // its vote was not proposed after all
	}
	if b.below == 0 || x.ts < b.below {
		b.below = x.ts
	}
	if !slices.Contains(b.by, x) {
		b.by = append(b.by, x)
	}
}

// bind has y commit before the slot of x.
func (r *Replica) bind(y, x *txnState) {
	if !r.cfg.NoBounds {
		y.bound.add(x)
	}
}

// validate makes sure, under locks on all that q says was read, that nothing of it has changed since: no
// version is newer than the snapshot. Parts that others own are foreign.
func (e *evaluation) validate(ctx context.Context) error {
	for {
		e.foreign, e.need = nil, nil
		rd := e.r.store.NewReader()
		err := e.validateAll(rd)
		rd.Close()
		if err != nil || len(e.need) == 0 {
			return err
		}
		if err := e.r.waitVector(ctx, e.need); err != nil {
			return err
		}
	}
}

func (e *evaluation) validateAll(rd *store.Reader) error {
	snapshot := base.Timestamp(e.q.Snapshot)
	for _, w := range e.q.Reads {
		if err := e.validateSpan(rd, spanOf(w), snapshot); err != nil {
			return err
		}
	}
	if len(e.foreign) > 0 {
		return base.Errorf(base.CodeWrongOwner, "group %v does not own %d of the keys and ranges read", e.r.id, len(e.foreign))
	}
	return nil
}

func (e *evaluation) validateSpan(rd *store.Reader, s base.Span, snapshot base.Timestamp) error {
	stale := func(k base.Key) error {
		return base.Errorf(base.CodeAborted, "transaction %v read %v, which has been changed since: retry", e.q.Txn.Id, k)
	}
	if s.IsPoint() {
		p, err := locate(rd, s.Start)
		switch {
		case err != nil:
			return err
		case p.owner != e.r.id:
			e.foreign = append(e.foreign, p.foreign(s.Start))
		case p.found && p.v.TS > snapshot:
			return stale(s.Start)
		case !p.found:
			e.need = append(e.need, e.r.missing(p.writer)...)
		}
		return nil
	}
	it := rd.Iter(s, base.MaxTimestamp, store.IterOptions{KeysOnly: true})
	defer it.Close()
	seg := segmenter{rd: rd, span: s, emit: func(g segment) {
		if g.owner != e.r.id {
			e.foreign = append(e.foreign, &wire.Foreign{Span: &wire.Span{Start: g.span.Start, End: g.span.End}, Group: uint32(g.owner), Since: g.since})
			return
		}
		for _, w := range g.since {
			e.need = append(e.need, e.r.missing(base.GroupIndex{Region: base.RegionID(w.Region), Index: w.Index})...)
		}
	}}
	for it.Next() {
		v := it.Version()
		if v.TS > snapshot && homeGroup(v.Key, v.Label) == e.r.id {
			return stale(v.Key.Clone())
		}
		v.Key = v.Key.Clone()
		if err := seg.add(&v); err != nil {
			return err
		}
	}
	if err := it.Err(); err != nil {
		return err
	}
	return seg.finish(false, s.End)
}

// slotSpans are what a vote for a slot locks: in the tier of CRTs its writes exclusively and its reads shared; and against
// writes inside the region everything, shared; rows that are patched only until it is proposed. Nobody inside the region is kept from reading.
func slotSpans(q *wire.CommitRequest) (crtX, crtS, shared, patched []base.Span) {
	for _, w := range q.Writes {
		s := base.Span{Start: w.Key}
		crtX = append(crtX, inCRTTier(s))
		if w.Patch != nil {
			patched = append(patched, s)
		} else {
			shared = append(shared, s)
		}
	}
	for _, w := range q.Reads {
		s := spanOf(w)
		if s.IsPoint() {
			if _, written := slices.BinarySearchFunc(q.Writes, s.Start, func(w *wire.Write, k base.Key) int { return base.Key(w.Key).Compare(k) }); written {
				continue
			}
		}
		crtS = append(crtS, inCRTTier(s))
		shared = append(shared, s)
	}
	return crtX, crtS, shared, patched
}

// runSlot is evaluation.run for a vote for a slot.
func (e *evaluation) runSlot(ctx context.Context, x *txnState, term uint64) error {
	crtX, crtS, shared, patched := slotSpans(e.q)
	if _, err := e.r.lock(ctx, x, term, lock.Exclusive, crtX...); err != nil {
		return err
	}
	if _, err := e.r.lock(ctx, x, term, lock.Shared, crtS...); err != nil {
		return err
	}
	// Rows that are patched come last: their locks are given back as soon as the vote is proposed.
	if err := e.r.lockVote(ctx, x, term, append(shared, patched...)); err != nil {
		return err
	}
	for {
		e.came = came{}
		e.came.begin(e.r)
		if err := e.validate(ctx); err != nil {
			return err
		}
		gaps, soft, err := e.look(x)
		if len(e.need) > 0 {
			if err := e.r.waitVector(ctx, e.need); err != nil {
				return err
			}
			continue
		}
		if err != nil {
			return err
		}
		for w := range soft {
			w.Move = 0 // not worth the gap behind the row
		}
		if len(soft) > 0 {
			continue
		}
		if len(gaps) == 0 {
			return e.came.settled(ctx, e.r)
		}
		for _, g := range gaps {
			if _, err := e.r.lock(ctx, x, term, lock.Exclusive, inCRTTier(g)); err != nil {
				return err
			}
		}
		if _, err := e.r.lock(ctx, x, term, lock.Shared, gaps...); err != nil {
			return err
		}
	}
}

// lockVote takes the locks of a vote against writers of the region. Those commit within a moment, so that they are waited for, whatever the policy:
// dying would cost a trip across the ocean more.
func (r *Replica) lockVote(ctx context.Context, x *txnState, term uint64, spans []base.Span) error {
	r.mu.Lock()
	policy := x.policy
	x.policy = lock.Detect
	r.mu.Unlock()
	_, err := r.lock(ctx, x, term, lock.Shared, spans...)
	r.mu.Lock()
	x.policy = policy
	r.mu.Unlock()
	return err
}

// untilSlot waits until a slot has come, about: nothing rests on it, but who raises the floor to a slot ahead would have
// commits wait for it. (In clock mode GTM a node that has not heard of the oracle for long thinks that every slot lies far ahead.)
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

// endBarrier gives back the locks of what x has only read, once its slot has come: what is written from then on lies behind it.
func (r *Replica) endBarrier(ctx context.Context, x *txnState, term uint64, q *wire.CommitRequest) {
	if r.untilSlot(ctx, base.Timestamp(q.Slot)) != nil {
		return
	}
	_, _, shared, _ := slotSpans(q)
	r.propMu.Lock()
	r.mu.Lock()
	defer r.mu.Unlock()
	defer r.propMu.Unlock()
	if !r.current(x, term) || x.phase == active || r.mayPropose(term) != nil {
		return
	}
	r.lead.floor = max(r.lead.floor, x.ts)
	for _, s := range shared {
		if !x.writesIn(s) {
			r.settle(r.locks.Unlock(x.id, s))
		}
	}
}

// slotOver is the last of the slots until which other transactions lock something of a span: then those locks end, or nearly so. It is 0 if there are
// none. mu is held.
func (r *Replica) slotOver(x *txnState, s base.Span) (slot base.Timestamp) {
	if len(r.slots) == 0 {
		return 0
	}
	r.locks.Holders(s, func(id base.TxnID, _ lock.Mode) bool {
		if y := r.txns[id]; y != nil && y != x {
			if _, voted := r.slots[y]; voted {
				slot = max(slot, y.ts)
			}
		}
		return true
	})
	return slot
}

// holds reports whether x has what a write of the span needs; mu is held.
func (e *evaluation) holds(x *txnState, s base.Span) bool {
	if e.q.Slot == 0 || e.q.Ordered {
		return e.r.locks.Holds(x.id, s, lock.Exclusive)
	}
	return e.r.locks.Holds(x.id, s, lock.Shared) && e.r.locks.Holds(x.id, inCRTTier(s), lock.Exclusive)
}

// runReads locks and validates what a commit of one group has read without locks. It comes after the locks of the writes:
// while it waited for those, the rows might have changed.
func (e *evaluation) runReads(ctx context.Context, x *txnState, term uint64) error {
	if len(e.q.Reads) == 0 || e.q.Ordered {
		return nil
	}
	spans := spansOf(e.q.Reads)
	if _, err := e.r.lock(ctx, x, term, lock.Shared, spans...); err != nil {
		return err
	}
	// The locks of a slot are shared, too: one that lies ahead bounds this commit as it does any reader's (S4).
	e.r.mu.Lock()
	_, err := e.r.underSlots(ctx, x, term, lock.Shared, spans)
	e.r.mu.Unlock()
	if err != nil {
		return err
	}
	return e.validate(ctx)
}

// boundOthers is called as a vote for a slot is proposed: whoever has read what x writes must commit before the slot. It
// returns a transaction that has voted already and may still commit after it; the vote has to wait for that one. mu is held.
func (r *Replica) boundOthers(x *txnState, writes []*wire.Write, handover []base.Span, slot base.Timestamp) (busy *txnState) {
	var bounded []*txnState
	look := func(s base.Span) {
		r.locks.Holders(s, func(id base.TxnID, _ lock.Mode) bool {
			y := r.txns[id]
			switch {
			case y == nil || y == x:
			case y.phase == active && y.crt && y.older(x):
				busy = y // it thinks across the ocean, and would hardly be in time
			case y.phase == active:
				if !slices.Contains(bounded, y) {
					bounded = append(bounded, y)
				}
			case y.ts >= slot || (y.phase == preparing || y.phase == prepared) && y.hi > slot:
				busy = y
			}
			return busy == nil
		})
	}
	for _, w := range writes {
		look(base.Span{Start: w.Key})
	}
	for _, s := range handover {
		look(s)
	}
	if busy == nil {
		x.ts = slot
		for _, y := range bounded {
			r.bind(y, x)
		}
	}
	return busy
}

// underSlots is called by a read that holds its locks. It returns the timestamp to read at: the newest there is, or, if a
// slot ahead writes something of it, just before that slot, below which the transaction must commit then. A slot that
// is due is waited for: whether its transaction has committed decides what is to be read. mu is held.
func (r *Replica) underSlots(ctx context.Context, x *txnState, term uint64, mode lock.Mode, spans []base.Span) (base.Timestamp, error) {
	if err := r.keepBound(ctx, x, r.clock.Latest()); err != nil {
		return 0, err
	}
	for {
		view := base.MaxTimestamp
		soon := r.clock.Latest().Add(slotMargin)
		var due *txnState
		for p := range r.slots {
			if p == x || !slices.ContainsFunc(spans, p.writesIn) {
				continue
			}
			if mode != lock.Shared && !p.leaves(spans) || x.crt || p.ts <= soon {
				due = p
				break
			}
			view = min(view, p.ts.Prev())
		}
		if due == nil {
			if view != base.MaxTimestamp {
				for p := range r.slots {
					if p != x && slices.ContainsFunc(spans, p.writesIn) {
						r.bind(x, p)
					}
				}
			}
			return view, nil
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

// keepBound makes sure that x may go on at a timestamp: if that is past the slots that bound it, their outcomes
// decide. What it read is still true if none of them has committed. mu is held.
func (r *Replica) keepBound(ctx context.Context, x *txnState, at base.Timestamp) error {
	for x.bound.below != 0 && at >= x.bound.below {
		var left bound
		var due *txnState
		for _, p := range x.bound.by {
			switch {
			case p.ended && !p.aborted:
				return base.Errorf(base.CodeAborted, "transaction %v read what a cross-region transaction has changed before it could commit: retry", x.id)
			case p.ended || p.ts == 0:
				continue
			case p.ts <= at:
				due = p
			}
			left.add(p)
		}
		x.bound = left
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

// notices are votes of other participants that were heard of, by transaction.
type notices struct {
	from []base.GroupID
	at   time.Time
}

const maxNotices = 10_000

// OnVote takes the word of another participant that its vote is durable.
func (r *Replica) OnVote(id base.TxnID, from base.GroupID) {
	r.mu.Lock()
	if !r.lead.serving {
		r.mu.Unlock()
		return
	}
	n := r.notices[id]
	if n == nil {
		if len(r.notices) >= maxNotices {
			r.mu.Unlock()
			return // the coordinator tells the outcome, too
		}
		n = &notices{at: time.Now()}
		r.notices[id] = n
	}
	if !slices.Contains(n.from, from) {
		n.from = append(n.from, from)
	}
	r.mu.Unlock()
	r.decideByVotes(id)
}

// decideByVotes commits a transaction once all votes for its slot are known to be durable (I8).
func (r *Replica) decideByVotes(id base.TxnID) {
	r.mu.Lock()
	x, v, n := r.txns[id], r.rep.prepared[id], r.notices[id]
	if x == nil || v == nil || v.Slot == 0 || x.phase != prepared || x.deciding || !r.lead.serving {
		r.mu.Unlock()
		return
	}
	for _, g := range groupsOf(v.Participants) {
		if g != r.id && (n == nil || !slices.Contains(n.from, g)) {
			r.mu.Unlock()
			return
		}
	}
	x.deciding = true
	delete(r.notices, id)
	term := r.lead.term
	r.mu.Unlock()
	r.set.spawn(func(ctx context.Context) {
		if _, err := r.decide(ctx, id, term, true, base.Timestamp(v.Slot)); err != nil {
			r.notDeciding(id)
		}
	})
}

// tellVote tells the other participants that this group's vote is durable.
func (r *Replica) tellVote(v *wire.CommitRequest) {
	for _, g := range groupsOf(v.Participants) {
		if g == r.id {
			continue
		}
		q := &wire.VoteNotice{Group: uint32(g), Txn: v.Txn.Id, From: uint32(r.id), Slot: v.Slot}
		to := r.cfg.Directory.Leader(g)
		if sib := r.set.Replica(g); sib != nil && (to == 0 || to == r.cfg.Self) {
			id, _ := txnID(q.Txn)
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

// tierOf takes the tier off a locked span, for people to read.
func tierOf(s base.Span) (_ base.Span, crt bool) {
	if !bytes.HasPrefix(s.Start, crtTier) {
		return s, false
	}
	s.Start = s.Start[len(crtTier):]
	if s.End != nil {
		s.End = s.End[len(crtTier):]
	}
	return s, true
}
