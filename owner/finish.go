package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Finish ends a transaction here: it decides a prepared one, or releases the
// locks of one that never prepared. The answer to a release is CodeAborted if the transaction did not hold its
// locks until now, which tells a transaction that only read under locks that its reads do not stand.
func (r *Replica) Finish(ctx context.Context, q *wire.FinishRequest) *wire.FinishResponse {
	resp := &wire.FinishResponse{}
	err := r.finish(ctx, q, resp)
	for h := r.handingOf(err); h != nil; h = r.handingOf(err) {
		var passed *wire.FinishResponse
		if passed, err = helped[wire.FinishResponse](ctx, r, h, wire.KindFinish, q, q.Prepared); passed != nil {
			return passed
		}
		if err == nil {
			err = r.finish(ctx, q, resp)
		}
	}
	if err != nil {
		resp.Status = statusOf(err)
	}
	return resp
}

func (r *Replica) finish(ctx context.Context, q *wire.FinishRequest, resp *wire.FinishResponse) error {
	id, ok := txnID(q.Txn)
	if !ok {
		return base.Errorf(base.CodeInvalid, "malformed transaction id %x", q.Txn)
	}
	// Releasing confirms that the locks held until now, which only a valid lease can tell.
	if err := r.enter(ctx, !q.Prepared, 0); err != nil {
		return err
	}
	term := r.lead.term
	x := r.txns[id]
	if !q.Prepared {
		err := r.finishLocks(ctx, q, x, id, term)
		r.mu.Unlock()
		if err == nil && q.Done {
			resp.Moves = r.untaken(x, nil)
		}
		return err
	}
	v := r.rep.prepared[id]
	switch {
	case v == nil && q.Commit && x == nil, v != nil && q.Commit && v.Slot != 0 && x != nil && x.deciding:
		// The votes have told, or somebody who asked.
		if _, refused := r.rep.aborted[id]; !refused {
			r.mu.Unlock()
			return nil
		}
	case v == nil && !q.Commit && (x == nil || x.phase == active):
		// Never came to a vote.
		if x != nil {
			r.release(x, true)
		} else if len(r.finished) < maxFinished {
			r.finished[id] = r.clock.Latest()
		}
		r.mu.Unlock()
		return nil
	case v != nil && q.Commit && (q.Ts < v.Lo || q.Ts >= v.Hi):
		r.mu.Unlock()
		return base.Errorf(base.CodeInvalid, "transaction %v cannot commit at %d: group %v voted for [%d,%d)", id, q.Ts, r.id, v.Lo, v.Hi)
	}
	r.mu.Unlock()
	out, err := r.decide(ctx, id, term, q.Commit, base.Timestamp(q.Ts))
	if err != nil {
		return err
	}
	if q.Commit != (out.state == wire.TxnState_COMMITTED) {
		return base.Errorf(base.CodeInvalid, "transaction %v is %v in group %v", id, out.state, r.id)
	}
	resp.Hops = uint32(r.group.Hops())
	return nil
}

// finishLocks ends a transaction that only locked here; mu is held.
func (r *Replica) finishLocks(ctx context.Context, q *wire.FinishRequest, x *txnState, id base.TxnID, term uint64) error {
	if q.MinTs != 0 {
		if err := r.clock.Observe(base.Timestamp(q.MinTs)); err != nil {
			return err
		}
		r.lead.floor = max(r.lead.floor, min(base.Timestamp(q.MinTs), r.lead.leaseEnd.Prev()))
	}
	if x == nil {
		if len(r.finished) < maxFinished {
			r.finished[id] = r.clock.Latest()
		}
		return base.Errorf(base.CodeAborted, "transaction %v holds no locks in group %v any more", id, r.id)
	}
	if x.phase != active {
		return base.Errorf(base.CodeAborted, "transaction %v is %v in group %v already", id, x.phase, r.id)
	}
	if q.At != 0 {
		if err := r.keepBound(ctx, x, base.Timestamp(q.At)); err != nil {
			r.release(x, true)
			return err
		}
		if !r.current(x, term) {
			return r.lost(x, term)
		}
	}
	if q.At != 0 && r.lead.floor < base.Timestamp(q.MinTs) {
		r.release(x, true)
		return base.Errorf(base.CodeAborted, "the lease of group %v ends before %s: retry", r.id, base.Timestamp(q.MinTs))
	}
	r.release(x, true)
	return nil
}

// decide logs the outcome of a prepared transaction and ends it here.
func (r *Replica) decide(ctx context.Context, id base.TxnID, term uint64, commit bool, ts base.Timestamp) (outcome, error) {
	r.mu.Lock()
	v := r.rep.prepared[id]
	r.mu.Unlock()
	ordered := v != nil && v.Ordered
	var values [][]byte
	if v != nil && commit && len(patchesOf(v.Writes)) > 0 {
		var err error
		if values, err = r.values(ctx, id, term, v); err != nil {
			return outcome{}, err
		}
	}
	return r.proposeCommand(ctx, term, func(c *wire.Command) {
		c.Decide = &wire.Decide{Txn: id[:], Commit: commit, Ts: uint64(ts), Values: values}
	}, func(out outcome) {
		// Whether or not somebody still waits for the answer: the decision is in the log.
		if out.state == wire.TxnState_COMMITTED && !ordered {
			ctx, cancel := r.life()
			defer cancel()
			if r.commitWait(ctx, out.ts) != nil {
				return // the replica was closed
			}
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.lead.term == term {
			if !ordered {
				r.lead.floor = max(r.lead.floor, out.ts)
			}
			if x := r.txns[id]; x != nil {
				x.aborted = out.state == wire.TxnState_ABORTED
				r.release(x, true)
			}
		}
	})
}

// Resolve tells how a transaction stands here. If it neither prepared nor
// ended, it never will: the refusal is logged first (PROTOCOLS B5).
func (r *Replica) Resolve(ctx context.Context, q *wire.ResolveRequest) *wire.ResolveResponse {
	resp := &wire.ResolveResponse{}
	r.stats.Resolves.Add(1)
	err := r.resolve(ctx, q, resp)
	for h := r.handingOf(err); h != nil; h = r.handingOf(err) {
		var passed *wire.ResolveResponse
		if passed, err = helped[wire.ResolveResponse](ctx, r, h, wire.KindResolve, q, true); passed != nil {
			return passed
		}
		if err == nil {
			resp = &wire.ResolveResponse{}
			err = r.resolve(ctx, q, resp)
		}
	}
	if err != nil {
		resp.Status = statusOf(err)
	}
	return resp
}

func (r *Replica) resolve(ctx context.Context, q *wire.ResolveRequest, resp *wire.ResolveResponse) error {
	id, ok := txnID(q.Txn)
	if !ok {
		return base.Errorf(base.CodeInvalid, "malformed transaction id %x", q.Txn)
	}
	if err := r.enter(ctx, false, 0); err != nil {
		return err
	}
	term := r.lead.term
	out := outcome{}
	known := false
	if v := r.rep.prepared[id]; v != nil {
		out, known = outcome{state: wire.TxnState_PREPARED, ts: base.Timestamp(v.Lo), vote: v}, true
	} else if rec, ok, err := r.store.GetTxn(r.id, id); err != nil {
		r.mu.Unlock()
		return err
	} else if ok {
		st, ts, _, err := r.parseRecord(id, rec)
		if err != nil {
			r.mu.Unlock()
			return err
		}
		// The record of a vote may be older than what Apply knows by now.
		if st != wire.TxnState_PREPARED {
			out, known = outcome{state: st, ts: ts}, true
		}
	}
	r.mu.Unlock()
	if !known {
		// Whatever was proposed before lies before the refusal in the log.
		var err error
		out, err = r.proposeCommand(ctx, term, func(c *wire.Command) { c.Refuse = id[:] }, nil)
		if err != nil {
			return err
		}
		resp.Hops = uint32(r.group.Hops())
		r.mu.Lock()
		if x := r.txns[id]; x != nil && x.phase == active && r.lead.term == term {
			r.release(x, true)
		}
		r.mu.Unlock()
	}
	resp.State, resp.Ts = out.state, uint64(out.ts)
	if out.vote != nil {
		if err := r.voteHeld(ctx, out.vote.Participants, r.applied.Load(), base.Timestamp(out.vote.Depends)); err != nil {
			return err
		}
		resp.Hi, resp.Participants = out.vote.Hi, out.vote.Participants
	}
	return nil
}

// Heartbeat says that transactions of a gateway are alive.
func (r *Replica) Heartbeat(ids []base.TxnID) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.txns) == 0 {
		return
	}
	for _, id := range ids {
		if x := r.txns[id]; x != nil {
			x.last = now
		}
	}
}

// abandoned reports whether a transaction has been silent for so long that it
// gives up its locks. Whatever still comes of it is refused by admit: its locks are not there.
func (r *Replica) abandoned(x *txnState, now time.Time) bool {
	idle := now.Sub(x.last)
	if idle > r.cfg.TxnIdle {
		return true
	}
	gateway := x.id.Gateway()
	return idle > r.cfg.TxnOrphan && gateway != r.cfg.Self && r.cfg.Gone(gateway, x.last)
}

// expire aborts unprepared transactions that gave no sign of life, and
// returns prepared ones that are due to be resolved.
func (r *Replica) expire(now time.Time) (stale []*wire.Vote, term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.rep.horizon()
	for id := range r.rep.aborted {
		if id.Start() < old {
			delete(r.rep.aborted, id)
		}
	}
	if !r.lead.serving {
		return nil, 0
	}
	for id, x := range r.txns {
		switch {
		case x.phase == active && x.calls == 0 && r.abandoned(x, now):
			r.stats.Expired.Add(1)
			r.release(x, true)
		case x.phase == prepared && !x.deciding && now.Sub(x.since) > r.cfg.ResolveAfter:
			if v := r.rep.prepared[id]; v != nil {
				x.deciding = true
				stale = append(stale, v)
			} else {
				r.release(x, true) // decided by an entry of another proposer
			}
		}
	}
	for id, n := range r.notices {
		if now.Sub(n.at) > finishedMemory {
			delete(r.notices, id)
		}
	}
	horizon := r.clock.Latest().Add(-finishedMemory)
	for id, at := range r.finished {
		if at < horizon {
			delete(r.finished, id)
		}
	}
	return stale, r.lead.term
}

// notDeciding lets a prepared transaction be picked up again.
func (r *Replica) notDeciding(id base.TxnID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.txns[id]; x != nil {
		x.deciding = false
		x.since = time.Now()
	}
}
