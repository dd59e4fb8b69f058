package cluster

import (
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/health"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/coord"
	"github.com/godwitdb/godwit/wire"
)

// deadAfter is the silence after which a node is shown as dead. Nothing
// depends on it but what people see and where new work is placed.
const deadAfter = 3 * time.Second

// heldUp is the silence of a path after which what arrives has waited for the path: TCP keeps what
// a cut has stopped and sends it again afterwards. Probes that were sent before the path worked
// again say for how long it was cut, and not how long it is. If they counted, the meta group would
// close timestamps seconds ahead of now, and its commits would take as long (MetaLead).
const heldUp = 500 * time.Millisecond

// peers is what this node knows of the others from their heartbeats.
type peers struct {
	start time.Time
	now   func() time.Time

	self base.NodeID
	own  health.Organ // of this node that are not well; guarded by mu
	// ownRecovers are those of them that are well again, and not trusted yet; guarded by mu
	ownRecovers health.Organ

	mu      sync.Mutex
	seq     uint64
	beat    time.Time // when this node sent heartbeats last
	listens time.Time // since when it has done so without a pause
	all     map[base.NodeID]*peer
	found   []base.NodeID // that this node found late at the last tick
	net     netmap
}

type peer struct {
	contact contact

	rtt   wan.RTT
	heard time.Time
	// when it was first heard again after its process had been started anew; zero if never
	began    time.Time
	lastSeq  uint64
	life     uint64 // of its process, as the newest heartbeat names it; 0: none has
	lastSent uint64 // newest sent_ns received from the peer
	sentAt   time.Time
	load     uint32
	lag      time.Duration                 // of its replicas; 0: it holds none
	lead     time.Duration                 // see wire.Heartbeat.CommitLeadNs
	unfit    health.Organ                  // that are not well
	recovers health.Organ                  // of these, well again and not trusted yet
	sync     time.Duration                 // what its syncs take; 0 if it has none
	syncAge  time.Duration                 // of the oldest under way
	lateness time.Duration                 // of its round trips to a majority
	lateBy   time.Duration                 // by how much it confirms later than usual, at the last tick
	finds    []base.NodeID                 // that it says are late
	reported bool                          // as silent
	row      map[base.NodeID]time.Duration // its round trips to the others, as it sent them last
	at       *coord.Coordinate             // its place; nil: it sends all its round trips
	sampled  time.Time                     // when rtt had its newest sample
	echoed   time.Time                     // when an echo came last, over the direct path
	resumed  time.Duration                 // when what the path had held up last began to arrive
	echoDue  bool                          // lastSent has not been echoed yet
}

func newPeers(self base.NodeID, now func() time.Time) *peers {
	return &peers{self: self, start: now(), now: now, all: map[base.NodeID]*peer{}, net: netmap{above: DefaultCoordinatesAbove}}
}

func (p *peers) get(id base.NodeID) *peer {
	x := p.all[id]
	if x == nil {
		x = new(peer)
		p.all[id] = x
	}
	return x
}

// mono is the process's monotonic clock since start, never zero.
func (p *peers) mono() time.Duration { return p.now().Sub(p.start) + 1 }

// probe fills the probe fields of a heartbeat to one peer.
func (p *peers) probe(to base.NodeID, m *wire.Heartbeat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seq++
	m.Seq = p.seq
	m.SentNs = uint64(p.mono()) // the clock mode's leases count from it, too
	m.EchoNs, m.EchoDelayNs, m.Coordinate = 0, 0, nil
	n, x := &p.net, p.get(to)
	if m.Quiet = n.round != nil && !n.round[to]; !m.Quiet {
		n.probes++
	}
	if x.echoDue {
		x.echoDue = false
		m.EchoNs = x.lastSent
		m.EchoDelayNs = uint64(p.now().Sub(x.sentAt))
	}
	if n.node != nil && (m.Row || m.EchoNs != 0) {
		m.Coordinate = coord.Encode(n.node.Coordinate())
	}
}

// heard takes a heartbeat. One that made a detour is not echoed, and its echo measures nothing: the
// round trips are those of direct paths (OVL-6). again: it is the first one of another process than
// that of the heartbeat before, which has ended then, though the node was never silent for long.
func (p *peers) heard(m *wire.Heartbeat, detoured bool) (again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.get(base.NodeID(m.Node))
	now := p.now()
	if !x.heard.IsZero() && now.Sub(x.heard) > heldUp {
		x.resumed = p.mono()
	}
	x.heard = now
	x.load, x.reported = m.Load, false
	x.recovers = health.Organ(m.Health.GetRecovering())
	x.unfit, x.sync = health.Organ(m.Health.GetSick()), time.Duration(m.Health.GetSyncUs())*time.Microsecond
	x.syncAge = time.Duration(m.Health.GetSyncAgeUs()) * time.Microsecond
	x.lateness = time.Duration(m.Health.GetLateUs()) * time.Microsecond
	x.finds = x.finds[:0]
	for _, n := range m.Health.GetLate() {
		x.finds = append(x.finds, base.NodeID(n))
	}
	x.lag, x.lead = time.Duration(m.AppliedLagNs), time.Duration(m.CommitLeadNs)
	if m.Seq < x.lastSeq { // heartbeats come in order (OVL-5), so this is another process
		x.began, x.lastSent, x.echoDue = now, 0, false
	}
	if life := m.Clock.GetLife(); life != 0 {
		again = x.life != 0 && x.life != life
		x.life = life
	}
	x.lastSeq = m.Seq
	if m.SentNs > x.lastSent {
		x.lastSent, x.sentAt, x.echoDue = m.SentNs, now, !m.Quiet && !detoured
	}
	p.heardMap(x, m)
	if detoured {
		return again
	}
	if m.EchoNs != 0 {
		if p.net.node == nil && !x.echoed.IsZero() && now.Sub(x.echoed) > heldUp { // with a map probes are rare
			x.resumed = p.mono()
		}
		x.echoed = now
	}
	if time.Duration(m.EchoNs) < x.resumed {
		return again
	}
	before := x.rtt.N
	x.rtt.Echo(p.mono(), time.Duration(m.EchoNs), time.Duration(m.EchoDelayNs))
	if x.rtt.N != before {
		p.measured(base.NodeID(m.Node), x)
	}
	return again
}

// rtt is the round trip to a peer; false if it is not known.
func (p *peers) rtt(id base.NodeID) (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d := p.way(p.all[id])
	return max(d, 0), d >= 0
}

// shortest is the shortest of the last round trips to a peer that is heard of; below 0 if none is
// known. A path that has become slow makes the node late first (peers.late).
func (p *peers) shortest(id base.NodeID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.all[id]; x != nil && x.rtt.Known() && p.now().Sub(x.heard) < heardLately {
		return x.rtt.Min()
	}
	return -1
}

// silence is the time since a peer was heard of; since the start if never.
func (p *peers) silence(id base.NodeID) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if x := p.all[id]; x != nil && !x.heard.IsZero() {
		return p.now().Sub(x.heard)
	}
	return p.now().Sub(p.start)
}

// gone reports whether a peer that gave a sign of life at since has died: it has been silent for d,
// or was started again.
func (p *peers) gone(id base.NodeID, since time.Time, d time.Duration) bool {
	if p.silence(id) >= d {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.all[id]
	return x != nil && x.began.After(since)
}

// longest is the longest round trip to any peer heard of lately.
func (p *peers) longest() time.Duration { return p.most(p.way) }

// longestPath is longest of the least that each path took of late: a peer that handles late what
// arrives does not count for more than its distance.
func (p *peers) longestPath() time.Duration {
	return p.most(func(x *peer) time.Duration {
		if x.rtt.Known() && !p.estimated(x) {
			return x.rtt.Min()
		}
		return p.way(x)
	})
}

func (p *peers) most(way func(*peer) time.Duration) (d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, x := range p.all {
		if p.now().Sub(x.heard) < deadAfter {
			d = max(d, way(x))
		}
	}
	return d
}

// facts are how far a peer's replicas were behind and its load, as it said last; 0, 0 if unknown.
func (p *peers) facts(id base.NodeID) (lag time.Duration, load int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.all[id]
	if x == nil || x.lag == 0 {
		return 0, 0
	}
	return x.lag, int(x.load)
}

// commitLead is the longest of the commit leads of peers heard of lately.
func (p *peers) commitLead() time.Duration {
	return p.most(func(x *peer) time.Duration { return x.lead })
}

// silent are the peers that were heard of, but not for d, and that nobody else hears. Each is
// reported once, until it is heard again.
func (p *peers) silent(d time.Duration, paths Paths) []base.NodeID {
	out := p.unheard(d)
	if paths != nil {
		out = slices.DeleteFunc(out, paths.Elsewhere)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, id := range out {
		p.get(id).reported = true
	}
	return out
}

// unheard are the peers that were heard of, but not for d, and that were not reported since.
func (p *peers) unheard(d time.Duration) (out []base.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	for id, x := range p.all {
		if !x.heard.IsZero() && !x.reported && now.Sub(x.heard) >= d {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out
}

// rowEvery is how many heartbeats there are to one that carries the sender's round trips.
const rowEvery = 10

// addRow puts this node's round trips into a heartbeat. mu is held.
func (p *peers) addRow(m *wire.Heartbeat) {
	for id, x := range p.all {
		if x.rtt.Known() {
			m.RttNodes, m.RttUs = append(m.RttNodes, uint32(id)), append(m.RttUs, micros(x.rtt.SRTT))
		}
	}
}
