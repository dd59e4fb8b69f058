package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/recall"
	"github.com/godwitdb/godwit/owner/tscache"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// How a leader comes into service: the way from acquiring to serving in the drawing of package
// lead.

// Leading implements group.StateMachine: this node leads. first is 0 if a hand-over was given up,
// and this node goes on in its term.
func (r *Replica) Leading(term, first uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.lead
	switch {
	case l.State == lead.Closed, term < r.past.Barred:
		return
	case first > 0 || l.Term != term:
		r.beginTerm(term, first)
	case l.State.In(lead.Leaves): // it has served all the time
		r.giveUp()
		l.To(lead.Serving)
		r.wake()
		return
	case l.State == lead.Serving:
		return // the hand-over was refused while a lease was under way that has been applied since
	case l.State == lead.Acquiring:
		return // the hand-over was refused, and the attempt to come into service goes on
	default:
		l.To(lead.Acquiring)
		l.Successor, l.Candidacy = 0, nil
		l.Requested, l.RequestedUntil, l.LeaseEnd = 0, time.Time{}, 0
	}
	l.Acquisition = &lead.Acquisition{Term: term, Began: time.Now(), Promised: l.Candidacy}
	go r.acquire(l.Acquisition)
}

// beginTerm makes everything anew for a term; mu is held.
func (r *Replica) beginTerm(term, first uint64) {
	c := r.promised(term, first)
	if t := r.lead.Transfer; t != nil {
		t.End()
	}
	if r.lead.Term != 0 { // the group did not say that the last term is over
		r.resetLead(lead.Leadership{})
	}
	r.stop(r.notLeader())
	r.resetLead(lead.Leadership{State: lead.Acquiring, Term: term, Candidacy: c})
}

// acquires reports whether an attempt to come into service goes on; mu is held.
func (r *Replica) acquires(a *lead.Acquisition) bool {
	return r.lead.State == lead.Acquiring && r.lead.Acquisition == a
}

// goesOn is acquires for callers without mu.
func (r *Replica) goesOn(a *lead.Acquisition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acquires(a)
}

// acquire brings a new leader into service (OWN-1, OWN-2, OWN-3). It outlives its predecessors'
// leases, catches up with what its log relies on, asks for a lease, and takes the locks of prepared
// transactions again. It ends when another attempt has begun.
//
// A predecessor that hands its lead over says when it serves no more, and where it ended. Then
// there is nothing to outlive, and the lease to serve under is in the log already. Until that
// message arrives, the transfer target waits for the leases like any other new leader.
func (r *Replica) acquire(a *lead.Acquisition) {
	select {
	case <-r.attached:
	case <-r.closing:
		return
	}
	ctx, cancel := r.life()
	defer cancel()
	r.mu.Lock()
	others, newest := recall.Holders(&r.rep, r.cfg.Self, a.Term)
	a.Newest = newest
	need := r.rep.Relied(r.region)
	r.mu.Unlock()
	if len(others) > 0 && r.mayCloseEarly(a) && !r.closeEarly(ctx, a) {
		return
	}
	if !r.outlive(ctx, a, others) {
		return
	}
	state, ok := r.raiseFloor(a)
	if !ok || !r.catchUp(ctx, a, need) {
		return
	}
	if state != nil {
		if r.inherit(a, state) {
			r.renew()
		}
		return
	}
	if r.obtainLease(ctx, a) {
		r.enterService(a)
	}
}

// mayCloseEarly reports whether a new leader closes timestamps before it serves: the meta group's,
// which all others wait for, unless it goes on for a predecessor that tells it all. One that
// knows nothing of the time can close nothing, and would have to wait for its next lease.
func (r *Replica) mayCloseEarly(a *lead.Acquisition) bool {
	return r.id == base.MetaGroup && a.Promised == nil && !r.cfg.NoEarlyClose && r.clock.Latest() != 0
}

// closeEarly obtains a lease to close timestamps under (OWN-15).
func (r *Replica) closeEarly(ctx context.Context, a *lead.Acquisition) bool {
	if !r.obtainLease(ctx, a) {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a.Closes = true
	r.wake()
	return r.acquires(a)
}

// raiseFloor lifts the floor above all that predecessors may have served. state is what the
// predecessor has sent, nil if the leader begins from the log alone; nothing is taken from here on.
func (r *Replica) raiseFloor(a *lead.Acquisition) (state *wire.TransferredState, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.acquires(a) {
		return nil, false
	}
	l := &r.lead
	l.Candidacy = nil
	if c := a.Promised; c != nil && c.State != nil && c.State.Index == r.rep.Transfer.Index {
		state, a.Newest = c.State, 0
	}
	l.Floor, l.Held, l.Ended = max(l.Floor, a.Newest, r.rep.LastTS, r.rep.Closed), max(l.Held, a.Held), a.Ended
	if r.id == base.MetaGroup { // the oracle issues above all, below its lease
		l.Low = max(l.Low, a.Newest)
	}
	return state, true
}

// catchUpPatience is how long a new leader waits for the other groups of its shard before it passes
// the lead on, and lagPatience how long one that is offered the lead does before it refuses it.
const catchUpPatience, lagPatience = time.Second, 300 * time.Millisecond

// catchUp waits until this node has applied what its log relies on. It may never get that: only
// members get a group's log, and this node may have left another group of its shard already, or not
// have joined it yet. So it passes the lead on to another voter meanwhile (OWN-16).
func (r *Replica) catchUp(ctx context.Context, a *lead.Acquisition, need []*wire.GroupIndex) bool {
	for began := time.Now(); ; {
		err := r.vectorWithin(ctx, need, catchUpPatience)
		if err == nil {
			return true
		}
		if !r.goesOn(a) {
			return false
		}
		if time.Since(began) >= catchUpPatience {
			r.cfg.Logger.Warn("a new leader lacks what other groups of its shard have done, and passes the lead on",
				"group", r.id, "err", err)
			r.group.PassOn(a.Term)
			began = time.Now()
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
}

// inherit goes on where the predecessor stopped. It reports whether this node serves.
func (r *Replica) inherit(a *lead.Acquisition, state *wire.TransferredState) bool {
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.acquires(a) {
		return false
	}
	l, b := &r.lead, &r.rep.Transfer
	l.Floor, l.Announced = max(l.Floor, base.Timestamp(state.Floor)), max(l.Announced, base.Timestamp(state.Announced))
	l.Issued, l.Low = max(l.Issued, base.Timestamp(state.Issued)), max(l.Low, base.Timestamp(state.Low))
	if !r.cfg.NoHoldTransferred {
		l.Held = max(l.Held, base.Timestamp(state.Held))
	}
	l.LeaseEnd = b.End
	// The lease was granted after this node was asked. It ends a little earlier than its length
	// says, should this clock run slow.
	l.Until = a.Promised.Since.Add(2*b.Length - clock.Stretched(b.Length))
	l.Binds(l.Until)
	r.past.Asked(b.End)
	l.Ended = &wire.Lease{Holder: uint32(a.Promised.From), End: state.Floor}
	if err := r.takeTransferred(state); err != nil {
		r.cfg.Logger.Error("locks handed over cannot be taken: their transactions abort", "group", r.id, "err", err)
		r.stop(r.notLeader())
	}
	if !r.serve() {
		return false
	}
	r.stats.Inherited.Add(1)
	r.cfg.Logger.Debug("owner goes on for its predecessor", "group", r.id, "term", l.Term, "txns", len(r.ByID))
	return true
}

// obtainLease proposes a lease until one is applied. A node that knows nothing of the time puts
// each lease behind the one before, its own too: it asks for no more of them than time passes
// (OWN-1).
func (r *Replica) obtainLease(ctx context.Context, a *lead.Acquisition) bool {
	if last := r.obtained.Load(); last != nil && r.clock.Latest() == 0 {
		select {
		case <-time.After(time.Until(last.Add(r.cfg.Lease))):
		case <-ctx.Done():
			return false
		}
	}
	for {
		r.propMu.Lock()
		r.mu.Lock()
		if !r.acquires(a) {
			r.mu.Unlock()
			r.propMu.Unlock()
			return false
		}
		cmd := r.command(0)
		if a.Closes { // the lease to serve under lies above what predecessors may have served
			r.lead.ForgetRequest()
		}
		r.addLease(cmd)
		r.mu.Unlock()
		done := make(chan error, 1)
		r.group.ProposeAsync(cmd, a.Term, func(_ any, _ uint64, err error) { done <- err })
		r.propMu.Unlock()
		err := <-done
		if err == nil {
			now := time.Now()
			r.obtained.Store(&now)
			return true
		}
		r.leaseFailed(a.Term, err)
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return false
		}
	}
}

// enterService makes a leader that has a lease the owner.
func (r *Replica) enterService(a *lead.Acquisition) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.acquires(a) {
		return
	}
	l := &r.lead
	l.Floor, l.Issued = max(l.Floor, a.Newest), max(l.Issued, a.Newest)
	if r.serve() {
		r.cfg.Logger.Debug("owner serves", "group", r.id, "term", l.Term, "prepared", len(r.rep.Prepared))
	}
}

// serve begins the service above all that is in the log. mu is held.
func (r *Replica) serve() bool {
	l := &r.lead
	logged := max(r.rep.Closed, base.Timestamp(r.closed.Load()))
	l.Floor, l.Announced = max(l.Floor, r.rep.LastTS, logged), max(l.Announced, logged)
	if r.cfg.NoTransferredState {
		l.Floor = l.Announced
	}
	l.Ends = tscache.Ends{Low: l.Floor}
	err := r.LockPrepared(&r.view, r.rep.Prepared, r.standing(), l.Acquisition.Began)
	if err == nil {
		err = r.LockStanding(r.standing())
	}
	if err != nil {
		r.cfg.Logger.Error("prepared transactions cannot be locked: this leader does not serve", "group", r.id, "err", err)
		return false
	}
	l.To(lead.Serving)
	r.wake()
	return true
}

// stop drops everything that lives only as long as a leader serves. What is prepared stays in rep.
// mu is held.
func (r *Replica) stop(err error) {
	r.FailWaits(err)
	for _, x := range r.ByID {
		r.End(x)
	}
	r.forget()
	r.wake()
}

// forget makes anew what lives only as long as a leader serves. mu is held.
func (r *Replica) forget() {
	r.Table = txns.NewTable(r.cfg.Limits)
	r.Patient, r.Brief = r.async(), r.cfg.NoLasting
	if r.byTime() {
		r.order = tscache.New(r.cfg.NoMarks, func() int { return tscache.EraRoom(r.set.table.Len()) })
	}
}
