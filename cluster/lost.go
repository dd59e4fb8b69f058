package cluster

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// This file is the failure detector for requests: which nodes are lost, so that nobody waits for
// their answers (wan.Transport.SetLost). A request needs both ways, so a node counts as there while
// its heartbeats arrive here and say that ours arrive there. What breaks no connection is noticed
// like what does: a process that is stopped, a cable that is cut, a way that works in one
// direction.

// mostJitter bounds what is granted to a path whose round trips vary.
const mostJitter = time.Second

// contact is what is known of the two ways to a peer.
type contact struct {
	heard time.Time // when its newest heartbeat came
	// confirmed is when this node sent, by its monotonic clock, the newest heartbeat that the peer
	// says it has; 0: none.
	confirmed time.Duration
	// detour is how long a heartbeat and its confirmation take while messages make a detour: the
	// round trip and, on average, half of the time between two heartbeats. 0: they make none.
	detour time.Duration
}

// contacted takes what a heartbeat says of the ways to its sender and back. life names this
// process. detoured says that the heartbeat came over other nodes.
func (p *peers) contacted(m *wire.Heartbeat, life uint64, detoured bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := &p.get(base.NodeID(m.Node)).contact
	x.heard = p.now()
	echo := m.EchoNs // not with every heartbeat, where there are many nodes
	if w := m.Clock; w != nil && w.EchoLife == life {
		echo = max(echo, w.EchoSent)
	}
	if !detoured {
		x.detour = 0
	}
	if d := time.Duration(echo); d > x.confirmed && d <= p.mono() { // else it was sent by the process before this one
		x.confirmed = d
		switch took := p.mono() - d; {
		case !detoured:
		case x.detour == 0:
			x.detour = took
		default:
			x.detour += (took - x.detour) / 8
		}
	}
}

// reach is how long a request to a peer and its answer take: the round trip, or what a detour takes
// while messages make one. Of the direct path nothing is measured then (OVL-6), and what was
// measured before says nothing of a node that has become slow.
func (p *peers) reach(id base.NodeID) (time.Duration, bool) {
	rtt, known := p.rtt(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.all[id]; x != nil {
		rtt = max(rtt, x.contact.detour)
	}
	return rtt, known
}

// awake notes that this node sends heartbeats. One that has not for a while, because it was stopped
// or starved, judges nobody before it has listened for as long as it gives others.
func (p *peers) awake(every time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if now.Sub(p.beat) > 5*every {
		p.listens = now
	}
	p.beat = now
}

// lost tells of each peer that was heard of whether it is lost: there was no contact for after,
// besides a round trip and what round trips to it vary.
func (p *peers) lost(after time.Duration) map[base.NodeID]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := map[base.NodeID]bool{}
	now := p.now()
	for id, x := range p.all {
		if x.contact.heard.IsZero() {
			continue
		}
		silence := now.Sub(x.contact.heard)
		if x.contact.confirmed > 0 {
			silence = max(silence, p.mono()-x.contact.confirmed-x.rtt.SRTT)
		}
		out[id] = min(silence, now.Sub(p.listens)) > after+min(4*x.rtt.Var, mostJitter)
	}
	return out
}
