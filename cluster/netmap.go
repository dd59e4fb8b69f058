package cluster

import (
	"cmp"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/coord"
	"github.com/godwitdb/godwit/wire"
)

// The network map is what this node knows of round trips: its own, which heartbeats measure, and
// those that other nodes send. All policies read it through rtt and between. Up to so
// many peers every heartbeat measures, and nodes send all their round trips. Above that a node has
// a network coordinate; a heartbeat round measures some peers, those that place it in turn and
// samples of the others; and it sends its coordinate, and the round trips of which samples say that
// the coordinates are wrong about them.

// DefaultCoordinatesAbove is the number of peers above which nodes have coordinates.
const DefaultCoordinatesAbove = 32

const (
	mapNear, mapFar = 8, 8 // that place a node: near ones, and by lot
	mapTurns        = 4    // rounds in which each of these is measured once
	mapSampled      = 2    // others that a round measures
	chooseEvery     = 100  // rounds between two choices of neighbours
	// staleAfter is when a round trip that was measured gives way to the coordinates.
	staleAfter = 30 * time.Second
	// recentErrors are of how many samples the errors are kept.
	recentErrors = 256
)

// netmap is the part of peers that coordinates need. It is guarded by peers.mu.
type netmap struct {
	above  int // 0: never
	node   *coord.Node
	others []int // peers heard of, sorted, when neighbours were chosen
	rounds int
	round  map[base.NodeID]bool // measured in this round; nil: all

	probes, samples uint64
	errs            []float64 // relative errors of the estimates of samples, newest last
}

// MapStats is how the network map is kept.
type MapStats struct {
	// Peers are other nodes heard of lately; of Estimated ones the round trips come from
	// coordinates.
	Peers, Estimated int
	Coordinates      bool // in use
	// Probes are heartbeats sent since the start of which an echo was wanted, Samples the round
	// trips that came of it.
	Probes, Samples uint64
	// Error and Error95 are the median and the 95th percentile of the relative errors of the newest
	// estimates that samples verified.
	Error, Error95 float64
}

// SetCoordinates says above how many peers nodes have coordinates instead of measuring all round
// trips; 0: never.
func (e *env) SetCoordinates(above int) {
	e.peers.mu.Lock()
	defer e.peers.mu.Unlock()
	e.peers.net.above = above
}

// Way is the round trip to a peer, negative if it is not known, and whether it is an estimate by
// coordinates.
func (e *env) Way(id base.NodeID) (d time.Duration, estimated bool) {
	p := e.peers
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.all[id]
	return p.way(x), x != nil && p.estimated(x)
}

// Map is how the network map is kept.
func (e *env) Map() MapStats { return e.peers.stats() }

// begin begins a round of heartbeats to nodes: it decides which to measure, and what to send.
func (p *peers) begin(to []base.NodeID, m *wire.Heartbeat) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := &p.net
	n.rounds++
	m.Row = n.rounds%rowEvery == 0
	if n.above <= 0 || len(to) <= n.above {
		n.node, n.round, n.others, n.errs = nil, nil, nil, nil
		if m.Row {
			p.addRow(m)
		}
		return
	}
	p.choose(to)
	n.round = map[base.NodeID]bool{}
	near, samples := n.node.Probes(n.others)
	for i, j := range near {
		if (i+n.rounds)%mapTurns == 0 {
			n.round[base.NodeID(j)] = true
		}
	}
	for _, j := range samples {
		n.round[base.NodeID(j)] = true
	}
	for _, id := range to {
		if x := p.get(id); !x.rtt.Known() || x.at == nil {
			n.round[id] = true // nothing else is known of it
		}
	}
	if m.Row {
		n.node.Corrected(func(j int, d time.Duration) {
			if x := p.all[base.NodeID(j)]; x != nil && x.rtt.Known() {
				d = x.rtt.SRTT // one sample may be an outlier
			}
			m.RttNodes, m.RttUs = append(m.RttNodes, uint32(j)), append(m.RttUs, micros(d))
		})
	}
}

func micros(d time.Duration) uint32 { return uint32(min(d.Microseconds(), 1<<31)) }

// choose sees to it that there are neighbours, of those that were heard of lately. mu is held.
func (p *peers) choose(to []base.NodeID) {
	n := &p.net
	if n.node == nil {
		x, err := coord.NewNode(int(p.self), coord.Options{Near: mapNear, Far: mapFar, Sampled: mapSampled, Seed: uint64(p.self)})
		if err != nil {
			panic("cluster: " + err.Error()) // the options are constants
		}
		n.node = x
	}
	others := make([]int, 0, len(to))
	for _, id := range to {
		if x := p.get(id); x.at != nil && p.now().Sub(x.heard) < deadAfter {
			others = append(others, int(id))
		}
	}
	slices.Sort(others)
	if slices.Equal(others, n.others) && n.rounds%chooseEvery != 0 {
		return
	}
	for _, j := range n.others {
		if _, ok := slices.BinarySearch(others, j); !ok {
			n.node.Forget(j)
		}
	}
	n.others = others
	n.node.Choose(others, func(j int) *coord.Coordinate { return p.get(base.NodeID(j)).at })
}

// heardMap takes what a heartbeat says of the sender's round trips. mu is held.
func (p *peers) heardMap(x *peer, m *wire.Heartbeat) {
	if len(m.Coordinate) > 0 {
		if at, err := coord.Decode(m.Coordinate); err == nil {
			x.at = at
		}
	} else if m.Row {
		x.at = nil
	}
	if (m.Row || len(m.RttNodes) > 0) && len(m.RttNodes) == len(m.RttUs) {
		x.row = make(map[base.NodeID]time.Duration, len(m.RttNodes))
		for i, id := range m.RttNodes {
			x.row[base.NodeID(id)] = time.Duration(m.RttUs[i]) * time.Microsecond
		}
	}
}

// measured takes a round trip that a heartbeat has brought. mu is held.
func (p *peers) measured(id base.NodeID, x *peer) {
	n := &p.net
	x.sampled = p.now()
	n.samples++
	if n.node == nil || x.at == nil {
		return
	}
	off := n.node.Verify(int(id), x.at, x.rtt.Last)
	if len(n.errs) == recentErrors {
		n.errs = append(n.errs[:0], n.errs[1:]...)
	}
	n.errs = append(n.errs, off)
	if slices.Contains(n.node.Neighbours(), int(id)) {
		// a sample of more than ten seconds is not taken
		_ = n.node.Observe(int(id), x.at, x.rtt.Last)
	}
}

// way is the round trip to a peer: the smoothed samples, or what the coordinates say once they are
// old; negative if it is not known. mu is held.
func (p *peers) way(x *peer) time.Duration {
	switch {
	case x == nil:
		return -1
	case p.estimated(x):
		return coord.Distance(p.net.node.Coordinate(), x.at)
	case x.rtt.Known():
		return x.rtt.SRTT
	}
	return -1
}

func (p *peers) estimated(x *peer) bool {
	return p.net.node != nil && x.at != nil && (!x.rtt.Known() || p.now().Sub(x.sampled) > staleAfter)
}

// between is the round trip between two nodes; negative if this node has not heard.
func (p *peers) between(self, a, b base.NodeID) time.Duration {
	if a == b {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a == self {
		return p.way(p.all[b])
	}
	x := p.all[a]
	if x == nil {
		return -1
	}
	if d, ok := x.row[b]; ok {
		return d
	}
	if x.at == nil {
		return -1
	}
	// The node sends its place, and only such round trips as its place is wrong about.
	if b == self {
		return p.way(x)
	}
	y := p.all[b]
	if y == nil || y.at == nil {
		return -1
	}
	if d, ok := y.row[a]; ok {
		return d
	}
	return coord.Distance(x.at, y.at)
}

func (p *peers) stats() (s MapStats) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := &p.net
	s.Probes, s.Samples, s.Coordinates = n.probes, n.samples, n.node != nil
	for _, x := range p.all {
		if !x.heard.IsZero() && p.now().Sub(x.heard) < deadAfter {
			s.Peers++
			if p.estimated(x) {
				s.Estimated++
			}
		}
	}
	if e := slices.SortedFunc(slices.Values(n.errs), cmp.Compare); len(e) > 0 {
		s.Error, s.Error95 = e[len(e)/2], e[len(e)*95/100]
	}
	return s
}
