package cluster

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// This file is the failure detector for requests: which nodes are lost, so that nobody waits for
// their answers (wan.Transport.SetLost). A request needs both ways, so a node counts as there while
// its heartbeats arrive here and say that ours arrive there. What breaks no connection is noticed
// like what does: a process that is stopped, a cable that is cut, a way that works in one
// direction.

// unmeasured is how long nothing may be measured of a path to a node, of which there are ten
// samples a second, before confirmations say how long a request takes.
const unmeasured = 2 * time.Second

// mostJitter bounds what is granted to a path whose round trips vary.
const mostJitter = time.Second

// contact is what is known of the two ways to a peer.
type contact struct {
	heard time.Time // when its newest heartbeat came
	// confirmed is when this node sent, by its monotonic clock, the newest heartbeat that the peer
	// says it has; 0: none.
	confirmed time.Duration
	// takes is how long a heartbeat and its confirmation take, on any way: the round trip and, on
	// average, half of the time between two heartbeats.
	takes time.Duration
	usual base.Least // what it took. A path that has become longer for good counts as slow for a while

	aged [lateTicks]time.Duration
	here bool // it was heard of and not lost when that was looked at last
	// detour is since when messages to the peer make a detour; zero: they do not.
	detour time.Time
	parted bool // no way leads to it ([Paths].Parted)
}

// detours takes on which ways nodes are reached whose direct path is cut ([Paths].Cut).
func (p *peers) detours(cut map[base.NodeID][]base.NodeID, parted []base.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, x := range p.all {
		x.contact.parted = slices.Contains(parted, id)
		switch c := &x.contact; {
		case len(cut[id]) == 0:
			c.detour = time.Time{}
		case c.detour.IsZero():
			c.detour = p.now()
		}
	}
}

// contacted takes what a heartbeat says of the ways to its sender and back. life names this
// process.
func (p *peers) contacted(m *wire.Heartbeat, life uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := &p.get(base.NodeID(m.Node)).contact
	x.heard = p.now()
	echo := m.EchoNs // not with every heartbeat, where there are many nodes
	if w := m.Clock; w != nil && w.EchoLife == life {
		echo = max(echo, w.EchoSent)
	}
	if d := time.Duration(echo); d > x.confirmed && d <= p.mono() { // else it was sent by the process before this one
		x.confirmed = d
		took := p.mono() - d
		if x.takes == 0 {
			x.takes = took
		} else {
			x.takes += (took - x.takes) / 8
		}
		x.usual.Add(x.heard, took)
	}
}

// reach is how long a request to a peer and its answer take. That is the round trip; but while
// messages make a detour nothing is measured (OVL-6), and what was measured before says nothing of
// a node that has become slow.
func (p *peers) reach(id base.NodeID) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.all[id]
	d := p.way(x)
	fresh := unmeasured
	if p.net.node != nil { // many nodes: each is measured now and then
		fresh = staleAfter
	}
	if d >= 0 && p.now().Sub(x.sampled) > fresh {
		d = max(d, x.contact.takes)
	}
	return max(d, 0), d >= 0
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
		out[id] = min(silence, now.Sub(p.listens)) > after+jitter(x)
	}
	return out
}

// returned takes whether a peer is lost, and reports whether it is no more, nor silent.
func (p *peers) returned(id base.NodeID, lost bool) (back bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.get(id)
	here := !lost && !x.reported
	x.contact.here, back = here, here && !x.contact.here
	return back
}

// Grace is how long a node that lives takes, at most, to answer what it was asked while it led a
// group, once another one leads in its place. It hears of that by a heartbeat. What it has proposed
// is committed, or not, in a round trip of the other leader, and its answer takes one, and what
// round trips to it vary. What may be repeated elsewhere (again) is not worth more than the next
// heartbeats.
func (e *env) Grace(id base.NodeID, again bool) (d time.Duration) {
	if d = 2 * e.pace.HeartbeatEvery; !again {
		d += e.peers.longest() + e.peers.answers(id)
	}
	return d
}

// answers is the round trip to a peer, and what round trips to it vary.
func (p *peers) answers(id base.NodeID) time.Duration {
	d, known := p.reach(id)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !known {
		return mostJitter
	}
	return d + jitter(p.all[id])
}

// jitter is what is granted to a peer because round trips to it vary.
func jitter(x *peer) time.Duration { return min(4*x.rtt.Var, mostJitter) }
