package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// Finish ends a transaction here: it decides a prepared one, or releases the locks of one that
// never prepared. The answer to a release is CodeAborted if the transaction did not hold its locks
// until now. A transaction that only read under locks learns by that that its reads do not stand.
func (r *Replica) Finish(ctx context.Context, q *wire.FinishRequest) *wire.FinishResponse {
	resp := &wire.FinishResponse{}
	err := r.finish(ctx, q, resp)
	for t := r.transferOf(err); t != nil; t = r.transferOf(err) {
		var passed *wire.FinishResponse
		if passed, err = passOn[wire.FinishResponse](ctx, r, t, wire.KindFinish, q, q.Prepared); passed != nil {
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
	id, ok := state.TxnID(q.Txn)
	if !ok {
		return base.Errorf(base.CodeInvalid, "malformed transaction id %x", q.Txn)
	}
	// Releasing confirms that the locks held until now, which only a valid lease can tell.
	if err := r.enter(ctx, !q.Prepared, 0); err != nil {
		return err
	}
	if q.Prepared {
		return r.finishPrepared(ctx, q, id, resp)
	}
	x := r.ByID[id]
	err := r.finishLocks(ctx, q, x, id, r.lead.Term)
	r.mu.Unlock()
	if err == nil && q.Done {
		resp.Moves = r.counter.Untaken(x, nil)
	}
	return err
}

// finishPrepared decides a transaction that has voted here. mu is held, and not any more at exit.
func (r *Replica) finishPrepared(ctx context.Context, q *wire.FinishRequest, id base.TxnID, resp *wire.FinishResponse) error {
	term := r.lead.Term
	over, err := r.decidable(q, id)
	r.mu.Unlock()
	if over || err != nil {
		return err
	}
	out, err := r.decide(ctx, id, term, q.Commit, base.Timestamp(q.Ts))
	if base.CodeOf(err) == base.CodeAborted { // the log has not kept it: the next leader is to be told
		return base.Errorf(base.CodeUnavailable, "%v", err)
	} else if err != nil {
		return err
	}
	if q.Commit != (out.State == wire.TxnState_COMMITTED) {
		return base.Errorf(base.CodeInvalid, "transaction %v is %v in group %v", id, out.State, r.id)
	}
	resp.Hops = uint32(r.group.Hops())
	return nil
}

// decidable reports whether there is nothing to decide any more, and what is wrong with the
// decision otherwise. mu is held.
func (r *Replica) decidable(q *wire.FinishRequest, id base.TxnID) (over bool, err error) {
	x, v := r.ByID[id], r.rep.Prepared[id]
	switch {
	case !q.Commit:
		if v != nil || x != nil && x.Phase != txns.Active {
			return false, nil
		}
		// It has never voted here.
		if x != nil {
			r.release(x, true)
		} else {
			r.remember(id)
		}
		return true, nil
	case v == nil && x == nil, v != nil && v.Slot != 0 && x != nil && x.Deciding:
		// The votes have decided it, or a node that asked. If it was refused, the log says so.
		if _, refused := r.rep.Aborted[id]; !refused {
			return true, nil
		}
	case v != nil && (q.Ts < v.Lo || q.Ts >= v.Hi):
		return false, base.Errorf(base.CodeInvalid, "transaction %v cannot commit at %d: group %v voted for [%d,%d)",
			id, q.Ts, r.id, v.Lo, v.Hi)
	}
	return false, nil
}

// remember keeps late requests of a transaction out; mu is held.
func (r *Replica) remember(id base.TxnID) {
	if len(r.Finished) < maxFinished {
		r.Finished[id] = r.clock.Latest()
	}
}

// finishLocks ends a transaction that only locked here; mu is held.
func (r *Replica) finishLocks(ctx context.Context, q *wire.FinishRequest, x *txns.Txn, id base.TxnID, term uint64) error {
	if q.MinTs != 0 {
		if err := r.clock.Observe(base.Timestamp(q.MinTs)); err != nil {
			return err
		}
		r.lead.Floor = max(r.lead.Floor, min(base.Timestamp(q.MinTs), r.lead.LeaseEnd.Prev()))
	}
	if x == nil {
		r.remember(id)
		return base.Errorf(base.CodeAborted, "transaction %v holds no locks in group %v any more", id, r.id)
	}
	if x.Phase != txns.Active {
		return base.Errorf(base.CodeAborted, "transaction %v is %v in group %v already", id, x.Phase, r.id)
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
	if q.At != 0 && r.lead.Floor < base.Timestamp(q.MinTs) {
		r.release(x, true)
		return base.Errorf(base.CodeAborted, "the lease of group %v ends before %s: retry", r.id, base.Timestamp(q.MinTs))
	}
	r.release(x, true)
	return nil
}

// decide logs the outcome of a prepared transaction and ends it here.
func (r *Replica) decide(ctx context.Context, id base.TxnID, term uint64, commit bool, ts base.Timestamp) (state.Outcome, error) {
	r.mu.Lock()
	v := r.rep.Prepared[id]
	r.mu.Unlock()
	if v != nil && commit && v.Pieces > 0 {
		return r.settlePieces(ctx, id, term, ts)
	}
	ordered := v != nil && v.Ordered
	var values [][]byte
	if v != nil && commit && len(state.Patches(v.Writes)) > 0 {
		var err error
		if values, err = r.values(ctx, id, term, v); err != nil {
			return state.Outcome{}, err
		}
	}
	return r.proposeCommand(ctx, term, func(c *wire.Command) {
		c.Decide = &wire.Decide{Txn: id[:], Commit: commit, Ts: uint64(ts), Values: values}
	}, func(out state.Outcome) {
		// The decision is in the log, whether or not a client still waits for the answer.
		if out.State == wire.TxnState_COMMITTED && !ordered && !r.settled(out.TS) {
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.lead.Term == term {
			if !ordered {
				r.lead.Floor = max(r.lead.Floor, out.TS)
			}
			if x := r.ByID[id]; x != nil {
				x.Aborted = out.State == wire.TxnState_ABORTED
				r.release(x, true)
			}
		}
	})
}

// Resolve says how a transaction stands here. If it neither prepared nor
// ended, it never will: the refusal is logged first (TXN-5).
func (r *Replica) Resolve(ctx context.Context, q *wire.ResolveRequest) *wire.ResolveResponse {
	resp := &wire.ResolveResponse{}
	r.stats.Resolves.Add(1)
	err := r.resolve(ctx, q, resp)
	for t := r.transferOf(err); t != nil; t = r.transferOf(err) {
		var passed *wire.ResolveResponse
		if passed, err = passOn[wire.ResolveResponse](ctx, r, t, wire.KindResolve, q, true); passed != nil {
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
	id, ok := state.TxnID(q.Txn)
	if !ok {
		return base.Errorf(base.CodeInvalid, "malformed transaction id %x", q.Txn)
	}
	if err := r.enter(ctx, false, 0); err != nil {
		return err
	}
	term := r.lead.Term
	out, known, err := r.rep.OutcomeOf(&r.logged, id, q.Statement)
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if !known && q.Statement && r.cfg.NoRefusal {
		out.State, known = wire.TxnState_ABORTED, true
	}
	if !known {
		if out, err = r.refuse(ctx, id, term); err != nil {
			return err
		}
		resp.Hops = uint32(r.group.Hops())
	}
	resp.State, resp.Ts, resp.Answer = out.State, uint64(out.TS), out.Answer
	if out.Vote != nil {
		resp.Txn = out.Vote.Txn
		if err := r.voteHeld(ctx, out.Vote.Participants, r.applied.Load(), base.Timestamp(out.Vote.Depends)); err != nil {
			return err
		}
		resp.Hi, resp.Participants, resp.Answer = out.Vote.Hi, out.Vote.Participants, out.Vote.Answer
	}
	return nil
}

// refuse logs that a transaction will never vote here. What was proposed before lies before the
// refusal in the log, so the outcome may be another one.
func (r *Replica) refuse(ctx context.Context, id base.TxnID, term uint64) (state.Outcome, error) {
	out, err := r.proposeCommand(ctx, term, func(c *wire.Command) { c.Refuse = id[:] }, nil)
	if err != nil {
		return out, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.ByID[id]; x != nil && x.Phase == txns.Active && r.lead.Term == term {
		r.release(x, true)
	}
	return out, nil
}

// Heartbeat says that transactions of a gateway are alive.
func (r *Replica) Heartbeat(ids []base.TxnID) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.ByID) == 0 {
		return
	}
	for _, id := range ids {
		if x := r.ByID[id]; x != nil {
			x.Last = now
		}
	}
}

// abandoned reports whether a transaction has been silent for so long that it
// gives up its locks. Whatever still comes of it is refused by admit: its locks are not there.
func (r *Replica) abandoned(x *txns.Txn, now time.Time) bool {
	idle := now.Sub(x.Last)
	if idle > r.cfg.TxnIdle {
		return true
	}
	gateway := x.ID.Gateway()
	if gateway == r.cfg.Self {
		// It says so by a call. A request that came to a leader before this one, and was repeated
		// here, may take a lock after its gateway has told the other one that it is over.
		return idle > ownSilence
	}
	return idle > r.cfg.TxnOrphan && r.cfg.Gone(gateway, x.Last) || idle > r.cfg.TxnLost && r.cfg.Lost(gateway)
}

// ownSilence is the same for transactions of this node's own gateway, which names them every
// second from the second tick after their beginning on: two seconds apart at most, and a second for
// a busy machine.
const ownSilence = 3 * time.Second

// expire aborts unprepared transactions that gave no sign of life, and
// returns prepared ones that are due to be resolved.
func (r *Replica) expire(now time.Time) (stale []*wire.Vote, term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.rep.ForgetAborted()
	if !r.lead.State.In(lead.Serves) {
		return nil, 0
	}
	for id, x := range r.ByID {
		switch {
		case x.Phase == txns.Active && x.Calls == 0 && r.abandoned(x, now):
			r.stats.Expired.Add(1)
			r.release(x, true)
		case x.Phase == txns.Prepared && r.Due(x, now, r.cfg.ResolveAfter, r.cfg.ResolveSoon, r.cfg.Unheard):
			if v := r.rep.Prepared[id]; v != nil {
				x.Deciding = true
				stale = append(stale, v)
			} else {
				r.release(x, true) // decided by an entry of another proposer
			}
		}
	}
	for id := range r.rep.Staged {
		if r.ByID[id] == nil { // its locks are gone: it cannot vote any more
			term := r.lead.Term
			r.set.spawn(func(ctx context.Context) { _, _ = r.refuse(ctx, id, term) })
		}
	}
	r.ForgetLate(now, r.clock.Latest(), finishedMemory)
	return stale, r.lead.Term
}

// resolveAgain is the pause before an outcome that could not be learned is asked for anew. A change
// of definitions that is undecided keeps its group from closing anything.
const resolveAgain = 250 * time.Millisecond

// notDeciding lets a prepared transaction be picked up again.
func (r *Replica) notDeciding(id base.TxnID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.ByID[id]; x != nil {
		x.Deciding = false
		x.AskAfter = time.Now().Add(resolveAgain)
	}
}
