package owner

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/tuning"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// leaseTerms is how long a lease is to be, and at what age it is renewed (TIME-1a). mu is held.
func (r *Replica) leaseTerms(now time.Time) (length, age time.Duration) {
	return tuning.LeaseTerms(&r.cfg.Timing, &r.cfg.Facts, r.id == base.MetaGroup, r.clock.Bounded(), r.renewals.Most(now))
}

// addLease puts a lease into a command if it is time for a new one. propMu and mu are held.
func (r *Replica) addLease(c *wire.Command) bool {
	l := &r.lead
	if l.State == lead.Relieved || l.State.In(lead.Seals) {
		return false
	}
	now := time.Now()
	virtual := r.clock.Virtual()
	from := max(r.clock.LatestAt(now), l.Low)
	if virtual { // it may just have begun
		from = max(from, l.Floor)
	}
	length, age := r.terms.At(now, r.leaseTerms)
	if !r.cfg.LeasesShrink {
		length = l.AtLeast(length, now)
	}
	end := max(from.Add(length), r.rep.Leases[r.cfg.Self].End)
	if r.rep.Transfer.Target == r.cfg.Self { // the new one supersedes it
		end = max(end, r.rep.Transfer.End)
	}
	if !l.Due(length, age, now, end) {
		return false
	}
	if end <= l.Requested {
		end = l.Requested.Next()
	}
	l.Request(end, now, length, age)
	r.past.Asked(end)
	c.Ended = l.Ended
	c.Lease = &wire.Lease{Holder: uint32(r.cfg.Self), End: uint64(end), LengthNs: uint64(length), Virtual: virtual}
	return true
}

// renew proposes a lease if it is due and no commit carried one.
func (r *Replica) renew() {
	r.propMu.Lock()
	defer r.propMu.Unlock()
	r.mu.Lock()
	l := &r.lead
	if !l.State.In(lead.Proposes) && !r.closesEarly() {
		r.mu.Unlock()
		return
	}
	c := r.command(0)
	if !r.addLease(c) {
		// Nothing was proposed: the vector is not in the log.
		for _, v := range c.Vector {
			l.Vector[v.Region] = 0
		}
		r.mu.Unlock()
		return
	}
	term := l.Term
	r.mu.Unlock()
	r.group.ProposeAsync(c, term, func(_ any, _ uint64, err error) { r.leaseFailed(term, err) })
}

// leaseFailed lets the next tick try again if a command with a lease may have been dropped.
func (r *Replica) leaseFailed(term uint64, err error) {
	if err == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lead.Term == term {
		r.lead.ForgetRequest()
		r.lead.Vector = [16]uint64{}
	}
}

// command starts a log entry with the closed timestamp and what the proposer has applied of the
// other groups. ts is the commit timestamp that the entry assigns, or 0. propMu and mu are held;
// the command must be proposed before propMu is released.
func (r *Replica) command(ts base.Timestamp) *wire.Command {
	c := &wire.Command{Ts: uint64(ts)}
	l := &r.lead
	l.Announced = max(l.Announced, r.closable(ts))
	c.Closed = uint64(max(l.Announced, r.rep.Closed))
	for i, sib := range r.set.siblings(r.shard) {
		if sib != nil && sib != r {
			if v := sib.applied.Load(); v > l.Vector[i] {
				l.Vector[i] = v
				c.Vector = append(c.Vector, &wire.GroupIndex{Region: uint32(i), Index: v})
			}
		}
	}
	return c
}

// closable is the timestamp that an entry which assigns ts, or 0, can close. Commits in flight lie
// before the entry in the log, so only undecided votes hold it back (OWN-6). mu is held.
func (r *Replica) closable(ts base.Timestamp) base.Timestamp {
	l := &r.lead
	if l.LeaseEnd == 0 || !l.State.In(lead.Serves) {
		return l.Announced
	}
	closed := max(ts, l.Floor)
	if r.order != nil {
		closed = l.Announced // commits may still come below others
	}
	for x := range r.Pending {
		if x.Phase >= txns.Preparing {
			closed = min(closed, x.TS.Prev())
		}
	}
	return min(closed, l.LeaseEnd.Prev())
}

// ready reports whether this replica may serve; lease asks for a valid lease that ends after ts.
// mu is held.
func (r *Replica) ready(lease bool, ts base.Timestamp) bool {
	l := &r.lead
	if r.async() && !r.cfg.Held.Confirmed() {
		return false // perhaps others have taken over while this node was away
	}
	if !l.State.In(lead.Serves) || !lease {
		return l.State.In(lead.Serves)
	}
	return r.leased(ts)
}

// leased reports whether a lease of this node that ends after ts goes on. mu is held.
func (r *Replica) leased(ts base.Timestamp) bool {
	l := &r.lead
	now := time.Now()
	return l.LeaseEnd > ts && l.LeaseEnd > r.clock.LatestAt(now) && now.Before(l.Until)
}

// closesEarly reports whether this replica closes timestamps although it does not serve yet
// (OWN-15). mu is held.
func (r *Replica) closesEarly() bool {
	l := &r.lead
	return l.State == lead.Acquiring && l.Acquisition != nil && l.Acquisition.Closes
}

// closes reports whether this replica may close timestamps up to ts. mu is held.
func (r *Replica) closes(ts base.Timestamp) bool {
	return r.ready(true, ts) || r.closesEarly() && r.leased(ts)
}

// Closes reports whether this replica closes timestamps under a valid lease, as the owner or before
// it serves (OWN-15).
func (r *Replica) Closes() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closes(0)
}

// Serving reports whether this replica is the owner now, and its term.
func (r *Replica) Serving() (term uint64, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lead.Term, r.ready(true, 0)
}
