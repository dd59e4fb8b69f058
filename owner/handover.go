package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/wire"
)

// A planned hand-over of the lead, as package lead draws it and says why it is safe.

const (
	// handoverPatience is how long each step of a hand-over may take, and sealPatience how long
	// nothing is proposed, besides a round trip: by then a lease transfer entry is applied, if
	// this node's disk and a majority of the others' take anything.
	handoverPatience, sealPatience = 3 * time.Second, time.Second
	// leadPoll is how often a request that waits for this node's election looks whether that may
	// still come.
	leadPoll = 20 * time.Millisecond
)

// resetLead replaces everything that is kept for a term. mu is held.
func (r *Replica) resetLead(next lead.Leadership) {
	r.lead.MustAllow(next.State)
	if r.lead.Term != 0 {
		r.past.Served(&r.lead, r.servedTo())
	}
	r.lead = next
}

func (r *Replica) newTransfer(target base.NodeID, term uint64) *lead.Transfer {
	err := base.Errorf(base.CodeNotLeader, "group %v: the lead is on its way to node %d", r.id, target)
	err.Node = target
	return &lead.Transfer{Target: target, Term: term, Err: err, Departed: make(chan struct{}), Over: make(chan struct{})}
}

// ---- the leader's side ----

// Revoking implements group.StateMachine: the lead is to go to another node.
func (r *Replica) Revoking(term uint64, to base.NodeID, done func(appointed bool, err error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l := &r.lead
	switch {
	case l.Term == term && (l.State == lead.Acquiring && l.Requested == 0 && l.LeaseEnd == 0 || l.State == lead.Relieved):
		// It has never had a lease in this term, and will not take one. The next leader waits out
		// what the log says.
		l.To(lead.Relieved)
		l.Successor = to
		go done(false, nil)
	case l.Term == term && l.State == lead.Serving:
		t := r.newTransfer(to, term)
		l.To(lead.Offering)
		l.Transfer, r.lastTransfer = t, t
		go func() { done(r.handOver(t)) }()
	case l.Term == term && l.State == lead.Acquiring:
		go done(false, group.ErrAcquires)
	default:
		go done(false, base.Errorf(base.CodeNotLeader, "group %v: the owner does not serve in term %d", r.id, term))
	}
}

// handOver carries a hand-over out, until the target stands for election and nothing is under way.
func (r *Replica) handOver(t *lead.Transfer) (appointed bool, err error) {
	ctx, cancel := r.lifeWithin(handoverPatience)
	defer cancel()
	if err := r.callTarget(ctx, t, r.handoverRequest(t)); err != nil {
		return false, err
	}
	if err := r.seal(ctx, t); err != nil {
		return false, err
	}
	return true, nil
}

func (r *Replica) handoverRequest(t *lead.Transfer) *wire.HandoverRequest {
	return &wire.HandoverRequest{Group: uint32(r.id), Term: t.Term, Incarnation: r.incarnation}
}

func (r *Replica) callTarget(ctx context.Context, t *lead.Transfer, q *wire.HandoverRequest) error {
	var resp wire.HandoverResponse
	if err := r.cfg.Transport.Call(ctx, t.Target, wire.KindHandover, q, &resp); err != nil {
		return err
	}
	return ErrorOf(resp.Status)
}

// sendTarget is callTarget in the background; otherwise says what follows if the call fails.
func (r *Replica) sendTarget(t *lead.Transfer, q *wire.HandoverRequest, otherwise string) {
	ctx, cancel := r.lifeWithin(handoverPatience)
	defer cancel()
	if err := r.callTarget(ctx, t, q); err != nil {
		r.cfg.Logger.Info(otherwise, "group", r.id, "to", t.Target, "err", err)
	}
}

// sealStep is one step of the lease transfer entry through the log, with the entry's index: the log
// has the entry, and then it is applied. An error says why it is not.
type sealStep struct {
	index   uint64
	applied bool
	err     error
}

// seal logs the lease transfer entry, behind which nothing is proposed, has the target stand for
// election, and waits until the entry is applied.
func (r *Replica) seal(ctx context.Context, t *lead.Transfer) error {
	steps, err := r.proposeTransfer(t)
	if err != nil {
		return err
	}
	_, trip := r.cfg.Trips()
	if !r.cfg.PatientSeals {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sealPatience+trip)
		defer cancel()
	}
	for {
		select {
		case step := <-steps:
			if step.applied || step.err != nil {
				return step.err
			}
			q := r.handoverRequest(t)
			q.Stand = step.index
			// If it does not stand, the group finds out. It may answer late, once that is applied.
			go r.sendTarget(t, q, "the transfer target does not stand for election")
		case <-ctx.Done():
			return canceled(ctx)
		}
	}
}

// proposeTransfer proposes the lease transfer entry. Its steps come in one channel: they keep their
// order, also if the entry is applied before anybody has looked at the first one.
func (r *Replica) proposeTransfer(t *lead.Transfer) (chan sealStep, error) {
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	l := &r.lead
	if l.Transfer != t || l.State != lead.Offering {
		r.mu.Unlock()
		return nil, t.Err
	}
	l.To(lead.Sealing)
	cmd := r.command(0)
	virtual := r.clock.Virtual()
	from := max(r.clock.Latest(), l.Low)
	if virtual {
		from = max(from, l.Floor)
	}
	length, _ := r.leaseTerms(time.Now())
	end := max(from.Add(length), l.LeaseEnd, l.Requested)
	cmd.LeaseTransfer = &wire.LeaseTransfer{Target: uint32(t.Target), End: uint64(end), LengthNs: uint64(length),
		Virtual: virtual}
	r.mu.Unlock()
	steps := make(chan sealStep, 2)
	r.group.ProposePlaced(cmd, t.Term, func(index uint64) {
		r.transferAt(t, index, lead.Sealed)
		steps <- sealStep{index: index}
	}, func(_ any, index uint64, err error) {
		if err == nil {
			r.transferAt(t, index, lead.Transferred)
		}
		steps <- sealStep{index: index, applied: err == nil, err: err}
	})
	return steps, nil
}

// transferAt notes how far the lease transfer entry has come, unless the hand-over is over already.
func (r *Replica) transferAt(t *lead.Transfer, index uint64, next lead.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t.Index = index
	if r.lead.Transfer == t && next.In(lead.Moves[r.lead.State]) {
		r.lead.To(next)
	}
}

// Stopped implements group.StateMachine: the term is over.
func (r *Replica) Stopped(term uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := &r.lead; l.Term == term && l.State != lead.Closed {
		r.endTerm()
	}
}

// endTerm ends the service of a term, and what rests on it. mu is held.
func (r *Replica) endTerm() {
	if r.lead.State.In(lead.Departs) {
		r.depart(r.lead.Transfer)
	} else {
		r.giveUp()
		r.resetLead(lead.Leadership{})
	}
	r.stop(r.notLeader())
}

// depart sends the target what it has to know, and passes requests on from here. mu is held.
func (r *Replica) depart(t *lead.Transfer) {
	q := r.handoverRequest(t)
	q.TransferredState = r.transferredState(t, r.lead.State == lead.Transferred)
	r.resetLead(lead.Leadership{State: lead.Forwarding, Transfer: t})
	r.stats.HandedOver.Add(1)
	close(t.Departed)
	r.wake()
	go r.sendTarget(t, q, "the transfer target did not get the state: open transactions abort")
	go r.forwardUntilLed(t)
}

// forwardUntilLed ends the forwarding when this node hears of the next leader, or of none for long.
func (r *Replica) forwardUntilLed(t *lead.Transfer) {
	ctx, cancel := r.lifeWithin(handoverPatience)
	defer cancel()
	for ctx.Err() == nil {
		if n, term := r.group.Leader(); n != 0 && term > t.Term {
			break
		}
		select {
		case <-time.After(leadPoll):
		case <-ctx.Done():
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	t.End()
	if r.lead.State == lead.Forwarding && r.lead.Transfer == t {
		r.resetLead(lead.Leadership{})
	}
}

// giveUp ends a hand-over that came to nothing: this node goes on, or has lost its lead otherwise.
// mu is held.
func (r *Replica) giveUp() {
	if r.lead.State.In(lead.Leaves) {
		r.stats.GivenUp.Add(1)
		r.lead.Transfer.End()
		r.lead.Transfer = nil
	}
}

// forwards is the hand-over whose requests this node passes on; nil if there is none. mu is held.
func (r *Replica) forwards() *lead.Transfer {
	if r.lead.State == lead.Forwarding {
		return r.lead.Transfer
	}
	return nil
}

// elsewhere is the error of a request that began in a term whose lead has been handed over since;
// nil for others. mu is held.
func (r *Replica) elsewhere(term uint64) error {
	if t := r.lastTransfer; t != nil && t.Term == term && lead.IsClosed(t.Departed) {
		return t.Err
	}
	return nil
}

// mayPropose is why nothing can be proposed in a term; nil if it can. mu is held.
func (r *Replica) mayPropose(term uint64) error {
	if r.lead.Term == term && r.lead.State.In(lead.Seals) {
		return r.lead.Transfer.Err
	}
	if err := r.elsewhere(term); err != nil {
		return err
	}
	if r.lead.Term != term || !r.lead.State.In(lead.Proposes) {
		return r.notLeader()
	}
	return nil
}

// ---- the target's side ----

// OnHandover takes the messages of a leader that wants this node to lead: the question whether it
// would, the order to stand for election, and the transferred state.
func (r *Replica) OnHandover(from base.NodeID, q *wire.HandoverRequest) error {
	why := r.unfit(from, q)
	if why == "" {
		switch {
		case q.TransferredState != nil:
			why = r.onTransferredState(from, q)
		case q.Stand == 0 && !r.cfg.TakesBlindly && !r.keepsUp():
			why = "it lacks what other groups of its shard have done"
		case q.Stand == 0:
			why = r.onOffer(from, q)
		default:
			c, no := r.onStand(from, q)
			if no == "" {
				return r.stand(c, q.Stand)
			}
			why = no
		}
	}
	if why == "" {
		return nil
	}
	return base.Errorf(base.CodeUnavailable, "group %v: node %d cannot take over from node %d: %s", r.id, r.cfg.Self, from, why)
}

// unfit is why this node cannot take over, whatever it has been told before; empty if it can.
func (r *Replica) unfit(from base.NodeID, q *wire.HandoverRequest) string {
	if !lead.IsClosed(r.attached) {
		return "it is starting"
	}
	if q.Incarnation != r.incarnation || r.frozen.Load() || r.async() && !r.cfg.Held.Confirmed() {
		return "the group begins anew"
	}
	if q.TransferredState != nil {
		return "" // this node's own campaign may have ended that term
	}
	if n, term := r.group.Leader(); n != from || term != q.Term {
		return "it does not follow it"
	}
	if !r.set.Holds(r.shard) {
		return "it does not hold the whole shard"
	}
	return ""
}

// keepsUp reports whether this node has what its log relies on, or gets it in a moment (OWN-16).
func (r *Replica) keepsUp() bool {
	r.mu.Lock()
	need := r.rep.Relied(r.region)
	r.mu.Unlock()
	ctx, cancel := r.life()
	defer cancel()
	return r.vectorWithin(ctx, need, lagPatience) == nil
}

// offered is the hand-over that a message belongs to; nil if this node knows of none. mu is held.
func (r *Replica) offered(from base.NodeID, q *wire.HandoverRequest) *lead.Candidacy {
	if c := r.lead.Candidacy; c != nil && c.From == from && c.Term == q.Term && time.Now().Before(c.Deadline) {
		return c
	}
	return nil
}

// onOffer agrees to take over; or says why not.
func (r *Replica) onOffer(from base.NodeID, q *wire.HandoverRequest) (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.lead.State == lead.Closed:
		return "it is closed"
	case r.lead.Term != 0:
		return "it leads itself"
	case r.lead.State == lead.Forwarding:
		r.lead.Transfer.End() // the leader that asks is the one that requests have waited for
	}
	now := time.Now()
	r.resetLead(lead.Leadership{State: lead.Target, Candidacy: &lead.Candidacy{From: from, Term: q.Term, Since: now,
		Deadline: now.Add(handoverPatience), Arrived: make(chan struct{})}})
	return ""
}

// onStand makes the target a candidate; or says why not.
func (r *Replica) onStand(from base.NodeID, q *wire.HandoverRequest) (_ *lead.Candidacy, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.offered(from, q)
	switch {
	case r.lead.Term != 0:
		return nil, "it leads itself"
	case c == nil || r.lead.State != lead.Target:
		return nil, "it does not remember that it was asked"
	}
	r.lead.To(lead.Candidate)
	c.Stood = true
	return c, ""
}

// stand has the group campaign as soon as this node's log ends where the leader's does.
func (r *Replica) stand(c *lead.Candidacy, index uint64) error {
	err := r.group.Stand(c.Term, c.From, index)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.lead.State == lead.Candidate && r.lead.Candidacy == c {
			r.resetLead(lead.Leadership{})
		}
		r.wake()
	}
	return err
}

// onTransferredState takes what the predecessor had in memory; or says why not. The state may
// arrive before this node is elected or after.
func (r *Replica) onTransferredState(from base.NodeID, q *wire.HandoverRequest) (why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.offered(from, q)
	if c == nil || c.State != nil {
		return "it does not wait for that"
	}
	c.State = q.TransferredState
	close(c.Arrived)
	r.wake()
	if q.TransferredState.Committed {
		r.group.Committed(q.Term, q.TransferredState.Index)
	}
	return ""
}

// expects reports whether this node is about to take over; requests wait for that. mu is held.
func (r *Replica) expects() bool {
	c := r.lead.Candidacy
	if r.lead.State != lead.Candidate || time.Now().After(c.Deadline) {
		return false
	}
	n, term := r.group.Leader()
	return n == 0 || n == r.cfg.Self || c.State != nil && term == c.Term
}

// promised is what this leader, whose first entry is the one given, has been promised by its
// predecessor; nil if it has to begin from the log alone. mu is held.
func (r *Replica) promised(term, first uint64) *lead.Candidacy {
	c, b := r.lead.Candidacy, &r.rep.Transfer
	if c == nil || !c.Stood || c.Term+1 != term || b.Target != r.cfg.Self || b.Index+1 != first || b.Term != c.Term {
		return nil
	}
	return c
}
