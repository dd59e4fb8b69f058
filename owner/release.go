package owner

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/recall"
	"github.com/godwitdb/godwit/wire"
)

// A leader that is deposed while it lives gives its lease back: asked (TIME-1b), or not (TIME-1c).

// outlive waits for those who may have served before, or to be told by them where that ended.
func (r *Replica) outlive(ctx context.Context, a *lead.Acquisition, holders []*recall.Holder) (ok bool) {
	w := &recall.Waiter{Clock: r.clock, Length: r.cfg.Lease, Half: r.cfg.EarlySuccessors, Caller: r.cfg.Transport,
		GoesOn: func() bool { return r.goesOn(a) }, Patient: r.cfg.PatientSeals}
	if a.Promised != nil {
		w.From, w.Arrived = a.Promised.From, a.Promised.Arrived
	}
	r.mu.Lock()
	if r.unasked.Any = r.cfg.AnyRelease; !r.cfg.NoRelease && a.Promised == nil {
		r.unasked.Await(a.Term, holders)
	}
	r.mu.Unlock()
	for _, h := range holders {
		if !r.cfg.NoRelease && !h.Released() { // one may have said it unasked
			go func() {
				q := &wire.ReleaseRequest{Group: uint32(r.id), Term: a.Term, Incarnation: r.incarnation}
				if err := w.Ask(ctx, h, q); err != nil {
					r.cfg.Logger.Debug("a lease is not released", "group", r.id, "holder", h.Node, "err", err)
				}
			}()
		}
	}
	for _, h := range holders {
		end, held, saved, ok := w.Outlive(ctx, h)
		if !ok {
			return false
		}
		r.mu.Lock()
		a.Newest, a.Held = max(a.Newest, end), max(a.Held, held)
		if saved > 0 {
			r.stats.Released.Add(1)
			r.cfg.Logger.Debug("a lease is released", "group", r.id, "holder", h.Node, "left", saved)
			// It is logged with this leader's own, so that nobody waits for it any more. There is
			// room for one: that which ends last.
			if a.Ended == nil || h.End > a.EndedOf {
				a.Ended, a.EndedOf = &wire.Lease{Holder: uint32(h.Node), End: uint64(max(end, held))}, h.End
			}
		}
		r.mu.Unlock()
	}
	return true
}

// Release ends this node's service in all terms below that of the asker, who leads the group, and
// says where it ended: below the end of the lease, for one of an earlier process of this node. It
// is an error if this process cannot tell.
func (r *Replica) Release(from base.NodeID, q *wire.ReleaseRequest) *wire.ReleaseResponse {
	resp, why := r.giveBack(from, q)
	if why != "" {
		resp.Status = statusOf(base.Errorf(base.CodeUnavailable, "group %v: node %d cannot release its lease to node %d: %s",
			r.id, r.cfg.Self, from, why))
	}
	return resp
}

// giveBack is Release; why is what is wrong.
func (r *Replica) giveBack(from base.NodeID, q *wire.ReleaseRequest) (resp *wire.ReleaseResponse, why string) {
	resp = &wire.ReleaseResponse{}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch l := &r.lead; {
	case !lead.IsClosed(r.attached):
		return resp, "it is starting"
	case q.Incarnation != r.incarnation || r.frozen.Load():
		return resp, "the group begins anew"
	case l.State == lead.Closed:
		return resp, "it is closed"
	case l.Term >= q.Term:
		return resp, "it leads in a later term"
	case l.GivesTo(from, q.Term) && !r.cfg.ServesOn:
		if l.Term != 0 {
			r.endTerm() // sends all that the target has to know
			r.lapses.End()
			r.group.Deposed(q.Term, from)
		}
		return resp, "its state is on the way"
	case r.cfg.ServesOn:
		r.past.Served(l, r.servedTo())
	case l.Term != 0:
		r.endTerm()
		r.lapses.End()
		r.group.Deposed(q.Term, from)
		fallthrough
	default:
		r.past.Barred = max(r.past.Barred, q.Term)
	}
	switch {
	case r.cfg.Forgetful:
	case r.past.Knows(base.Timestamp(q.LeaseEnd)):
		resp.Floor, resp.Held = uint64(r.past.Floor), uint64(r.past.Held)
	default: // the process that had it is gone, and has served anywhere below its end
		resp.Floor, resp.Held = q.LeaseEnd, q.LeaseEnd
	}
	return resp, ""
}

// Released is what the leaders of this node that have stopped while it lives say unasked, for the
// heartbeats: it may be all that arrives of them. Who hands its lead over says more.
func (s *Set) Released() (out []*wire.GroupRelease) {
	now := time.Now()
	for _, r := range s.Replicas() {
		r.mu.Lock()
		if r.lead.Term == 0 && r.lead.State != lead.Forwarding && lead.IsClosed(r.attached) {
			if q := r.past.Release(now); q != nil {
				q.Group, q.Incarnation = uint32(r.id), r.incarnation
				if r.cfg.Forgetful {
					q.Floor, q.Held = 0, 0
				}
				out = append(out, q)
			}
		}
		r.mu.Unlock()
	}
	return out
}

// OnReleased takes what those of another node say.
func (s *Set) OnReleased(from base.NodeID, released []*wire.GroupRelease) {
	for _, q := range released {
		r := s.Replica(base.GroupID(q.Group))
		if r == nil || r.incarnation != q.Incarnation || r.frozen.Load() || !lead.IsClosed(r.attached) {
			continue
		}
		r.mu.Lock()
		r.unasked.Note(from, q)
		r.mu.Unlock()
		r.group.Resigned(from, q.Term)
	}
}

// servedTo is the timestamp above which a successor of this leader begins that is told of no
// transactions. mu is held.
func (r *Replica) servedTo() base.Timestamp {
	ts := max(r.heldTo(), r.VotedTo())
	if a := r.lead.Acquisition; a != nil {
		ts = max(ts, a.Newest)
	}
	return ts
}

// heldTo is the largest timestamp at which this leader has read, written, promised or issued
// anything. mu is held.
func (r *Replica) heldTo() base.Timestamp {
	l := &r.lead
	ts := max(l.Floor, l.Announced, l.Issued)
	// the marks of reads are not sent: all that a successor writes lies above them
	if r.order != nil {
		ts = max(ts, r.order.High, l.Ends.Newest())
	}
	return ts
}
