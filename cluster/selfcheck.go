package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/health"
	"github.com/godwitdb/godwit/wire"
)

// A node that finds itself sick (package health) says so in its heartbeats. It hands its leads to
// nodes that are well, the meta group's first, and is handed none until it has been well for a
// while. Where most voters of a group are sick, leads stay: they would be no better off elsewhere.
//
// This is for speed. What a node does not find out about itself, or cannot act on, its followers
// do: see the rules GRP-7 and GRP-8 of package group.

// Vitals are what only the rest of this process knows of its health; each may be nil.
type Vitals struct {
	// Syncs samples the disk.
	Syncs func() health.Syncs
	// Damage is why this node's store cannot be trusted; nil if it can.
	Damage func() error
	// Mended says what was damaged and has been repaired since the process began; may be empty.
	Mended func() string
}

// selfCheck watches this node's health, and acts on it.
type selfCheck struct {
	*env
	vitals  Vitals
	clocks  func() *ClockStatus
	hand    func(g base.GroupID, grp Group)
	monitor *health.Monitor
	onLate  func(base.NodeID) // nil: nobody wants to know
	// Trust.FarLeads
	farLeads bool

	mu      sync.Mutex
	leaving map[base.GroupID]bool
	ending  bool // the node was told to end
}

func newSelfCheck(e *env, v Vitals, clocks func() *ClockStatus, hand func(base.GroupID, Group),
	onLate func(base.NodeID)) *selfCheck {
	return &selfCheck{env: e, vitals: v, clocks: clocks, hand: hand, monitor: health.NewMonitor(e.pace.HeartbeatEvery, e.log),
		onLate: onLate, leaving: map[base.GroupID]bool{}}
}

// tick looks at all organs, and acts.
func (h *selfCheck) tick() *wire.Health {
	f := h.facts()
	v := h.monitor.Tick(time.Now(), f)
	h.peers.setOwn(v.Unfit, v.Recovering)
	if v.Leave {
		h.leave()
	}
	out := &wire.Health{Sick: uint32(v.Unfit), Recovering: uint32(v.Recovering), SyncAgeUs: uint64(v.SyncAge.Microseconds()),
		SyncUs: uint64(v.Sync.Microseconds()), LateUs: uint64(f.Late.Microseconds())}
	nodes := h.present()
	for _, n := range h.peers.finds(nodes, health.TooOld, health.LateTimes) {
		out.Late = append(out.Late, uint32(n))
	}
	if late := h.onLate; late != nil {
		for _, n := range h.peers.foundLate(nodes) {
			late(n)
		}
	}
	return out
}

// present are the nodes of the cluster that have not been decommissioned.
func (h *selfCheck) present() (nodes []base.NodeID) {
	for _, n := range h.Topology().Nodes {
		if !n.Gone {
			nodes = append(nodes, n.ID)
		}
	}
	return nodes
}

// facts are what this node knows of its health.
func (h *selfCheck) facts() health.Facts {
	h.mu.Lock()
	ending := h.ending
	h.mu.Unlock()
	c := h.clocks()
	f := health.Facts{OthersSync: h.peers.syncMedian(), ClockFenced: c.Fenced, ClockNeeded: c.Needed, Heard: 1, Ending: ending}
	if h.vitals.Syncs != nil {
		s := h.vitals.Syncs()
		f.Syncs = &s
	}
	if h.vitals.Damage != nil {
		f.Damage = h.vitals.Damage()
	}
	if h.vitals.Mended != nil {
		f.Mended = h.vitals.Mended()
	}
	nodes := h.present()
	f.Nodes = len(nodes)
	for _, n := range nodes {
		if n != h.self && h.peers.silence(n) < h.pace.SilentAfter {
			f.Heard++
		}
	}
	f.Late, f.OthersLate = h.peers.late(nodes)
	if h.farLeads {
		return f
	}
	own := func(_, to base.NodeID) time.Duration { return h.peers.shortest(to) }
	if f.Trip = health.Trip(nodes, h.self, own, 0); f.Trip > health.FarTrip {
		var others []time.Duration
		for _, n := range nodes {
			if n != h.self {
				others = append(others, health.Trip(nodes, n, h.Between, time.Hour))
			}
		}
		slices.Sort(others)
		f.OthersTrip = others[len(others)/2]
	}
	return f
}

// die has the node lead nothing from now on.
func (h *selfCheck) die() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = true
}

// leave hands the leads of this node to others, the meta group's first. A group may be stuck on the
// disk: none waits for another.
func (h *selfCheck) leave() {
	held := h.groups.Held()
	slices.Sort(held) // the meta group is the least
	for _, g := range held {
		grp := h.groups.Group(g)
		if grp == nil {
			continue
		}
		if _, leads := grp.Leads(); !leads || !h.begin(g) {
			continue
		}
		h.work.done.Go(func() {
			defer h.end(g)
			h.hand(g, grp)
		})
	}
}

// begin reports whether nothing is under way for a group already.
func (h *selfCheck) begin(g base.GroupID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leaving[g] {
		return false
	}
	h.leaving[g] = true
	return true
}

func (h *selfCheck) end(g base.GroupID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.leaving, g)
}

// Health is how this node finds itself to be.
func (h *selfCheck) Health() *health.Status { return h.monitor.Status() }

const askHealth = "health"

// NodeHealth is one node's health.
type NodeHealth struct {
	Node base.NodeID `json:"node"`
	health.Status
}

// AllHealth is the health of all nodes that can be reached, in order.
func (h *selfCheck) AllHealth(ctx context.Context) []NodeHealth {
	out := askAll(ctx, h.env, askHealth, h.nodeHealth())
	slices.SortFunc(out, func(a, b NodeHealth) int { return int(a.Node) - int(b.Node) })
	return out
}

func (h *selfCheck) nodeHealth() []NodeHealth { return []NodeHealth{{h.self, *h.Health()}} }

// # What is known of the others

// Fit reports whether a node may be given leads, as far as is known here.
func (e *env) Fit(n base.NodeID) bool { return e.peers.unfit(n)&health.Leading == 0 }

// unfit are the organs of a node that are not well.
func (p *peers) unfit(n base.NodeID) health.Organ {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n == p.self {
		return p.own
	}
	if x := p.all[n]; x != nil {
		return x.unfit
	}
	return 0
}

// ailing reports whether a node is unfit to lead, or is about to be, as heartbeats are of a while
// ago.
func (e *env) ailing(n base.NodeID) bool {
	if !e.Fit(n) {
		return true
	}
	return e.peers.slow(n)
}

// sick reports whether a node is ailing, and not one that is well again and is not trusted yet.
func (e *env) sick(n base.NodeID) bool {
	return (e.peers.unfit(n)&^e.peers.recovers(n))&health.Leading != 0 || e.peers.slow(n)
}

// slow reports whether the disk of another node has taken nothing for a while.
func (p *peers) slow(n base.NodeID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.all[n]
	return n != p.self && x != nil && x.syncAge > health.TooOld/2
}

// recovers are the organs of a node that are well again and are not trusted yet.
func (p *peers) recovers(n base.NodeID) health.Organ {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n == p.self {
		return p.ownRecovers
	}
	if x := p.all[n]; x != nil {
		return x.recovers
	}
	return 0
}

func (p *peers) setOwn(unfit, recovers health.Organ) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own, p.ownRecovers = unfit, recovers
}

// syncMedian is the median of how long the others' syncs take, of those heard of lately; 0 if none
// has said.
func (p *peers) syncMedian() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var took []time.Duration
	for _, x := range p.all {
		if x.sync > 0 && p.now().Sub(x.heard) < deadAfter {
			took = append(took, x.sync)
		}
	}
	if len(took) == 0 {
		return 0
	}
	slices.Sort(took)
	return took[len(took)/2]
}
