package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// A node that still answers may be as good as dead: its disk stands still, or its process gets no
// processor. A node finds that out itself, by what it does, and says so in its heartbeats. It hands
// its leads to nodes that are well, the meta group's first, and is handed none until it has been
// well for a while. Where most voters of a group are sick, leads stay: they would be no better off
// elsewhere.
//
// This is for speed. What a node does not find out about itself, or cannot act on, its followers
// do: see the rules GRP-7 and GRP-8 of package group.

// When an organ counts as sick.
const (
	// tooOld is for how long a disk may take nothing, and by how much a tick may be late.
	tooOld = 400 * time.Millisecond
	// A disk is slow if for slowFor syncs have taken slowTimes as long as the median of those of
	// the others, and no less than slowLeast.
	slowFor   = 5 * time.Second
	slowTimes = 5
	slowLeast = 20 * time.Millisecond
	// So many late ticks within lateWithin are no coincidence.
	lateTicks  = 3
	lateWithin = 10 * time.Second
	// syncWindow is over how long the time that syncs take is averaged.
	syncWindow = time.Second
)

// Syncs is how the disk serves what has to be synced.
type Syncs struct {
	Age  time.Duration // of the oldest that is under way; 0: none is
	Done int64         // since the process began
	Took time.Duration // those, all together
}

// Vitals are what only the rest of this process knows of its health; each may be nil.
type Vitals struct {
	// Syncs samples the disk.
	Syncs func() Syncs
	// Damage is why this node's store cannot be trusted; nil if it can.
	Damage func() error
}

// HealthStatus is how a node finds itself to be.
type HealthStatus struct {
	Organs  []OrganStatus `json:"organs"`
	SyncAge time.Duration `json:"sync_age_ns"` // of the oldest sync under way
	Sync    time.Duration `json:"sync_ns"`     // what syncs took in the last second, on average
}

// OrganStatus is one organ's state.
type OrganStatus struct {
	Organ  string        `json:"organ"`
	State  string        `json:"state"` // well, sick or recovering
	For    time.Duration `json:"for_ns"`
	Why    string        `json:"why,omitempty"`
	Advice string        `json:"advice,omitempty"`
	// Leaves says that the node leads nothing while the organ is not well.
	Leaves bool `json:"leaves"`
	// Patience is for how long the organ has to be well before it counts as that.
	Patience time.Duration `json:"patience_ns"`
}

// health is this node's health.
type health struct {
	*env
	vitals Vitals
	clocks func() *ClockStatus
	hand   func(g base.GroupID, grp Group)

	mu      sync.Mutex
	organs  map[Organ]*organ
	disk    diskMeter
	ticked  time.Time
	late    []time.Time // ticks that were late by more than tooOld
	leaving map[base.GroupID]bool
	ending  bool // the node was told to end
}

func newHealth(e *env, v Vitals, clocks func() *ClockStatus, hand func(base.GroupID, Group)) *health {
	h := &health{env: e, vitals: v, clocks: clocks, hand: hand, organs: map[Organ]*organ{}, leaving: map[base.GroupID]bool{}}
	for _, o := range organs {
		h.organs[o] = new(organ)
	}
	return h
}

// tick looks at all organs, and acts.
func (h *health) tick() *wire.Health {
	now := time.Now()
	h.mu.Lock()
	found := map[Organ]string{OrganDisk: h.diskTrouble(now), OrganProcess: h.processTrouble(now), OrganLinks: h.linkTrouble()}
	if h.vitals.Damage != nil {
		if err := h.vitals.Damage(); err != nil {
			found[OrganStore] = err.Error()
		}
	}
	if h.ending {
		found[OrganLife] = "it was told to end"
	}
	if c := h.clocks(); c.Fenced {
		found[OrganClock] = "it is outside its bound"
	}
	unfit, sick := Organ(0), false
	for _, o := range organs {
		x := h.organs[o]
		if why := found[o]; x.observe(now, why != "", why) && o != OrganClock { // the clock says so itself
			h.say(o, x)
		}
		if x.state != organWell {
			unfit |= o
			sick = sick || o&leaving != 0 && x.state == organSick
		}
	}
	m := &wire.Health{Sick: uint32(unfit), SyncAgeUs: uint64(h.disk.age.Microseconds()), SyncUs: uint64(h.disk.mean.Microseconds())}
	h.mu.Unlock()
	h.peers.setOwn(unfit)
	if sick {
		h.leave()
	}
	return m
}

// say logs that an organ has changed its state.
func (h *health) say(o Organ, x *organ) {
	if o == OrganLife {
		h.log.Info("the node ends: it hands its leads over")
		return
	}
	if x.state == organSick {
		h.log.Warn("health", "organ", o.String(), "state", x.state.String(), "why", x.why, "do", o.advice())
		return
	}
	h.log.Info("health", "organ", o.String(), "state", x.state.String(), "patience", x.patience)
}

// diskMeter averages how long syncs take over a window.
type diskMeter struct {
	age, mean time.Duration
	samples   []Syncs // one a tick, the oldest first
	slowSince time.Time
}

// add takes a sample.
func (d *diskMeter) add(s Syncs, window int) {
	d.age = s.Age
	d.samples = append(d.samples, s)
	if len(d.samples) > window {
		d.samples = d.samples[len(d.samples)-window:]
	}
	d.mean = 0
	if first := d.samples[0]; s.Done > first.Done {
		d.mean = (s.Took - first.Took) / time.Duration(s.Done-first.Done)
	}
}

// diskTrouble is what is wrong with the disk; empty: nothing. mu is held.
func (h *health) diskTrouble(now time.Time) string {
	if h.vitals.Syncs == nil {
		return ""
	}
	d := &h.disk
	d.add(h.vitals.Syncs(), 1+int(syncWindow/h.pace.HeartbeatEvery))
	others := h.peers.syncMedian()
	switch slow := others > 0 && d.mean > max(slowLeast, slowTimes*others); {
	case d.mean == 0: // nothing was synced: it may be as it was
	case !slow:
		d.slowSince = time.Time{}
	case d.slowSince.IsZero():
		d.slowSince = now
	}
	switch {
	case d.age > tooOld:
		return fmt.Sprintf("it has taken nothing for %v", d.age.Round(time.Millisecond))
	case !d.slowSince.IsZero() && now.Sub(d.slowSince) >= slowFor:
		return fmt.Sprintf("a sync takes %v, those of the other nodes %v", d.mean.Round(time.Millisecond), others.Round(100*time.Microsecond))
	}
	return ""
}

// processTrouble is what is wrong with the process: it sleeps, and is not woken. mu is held.
func (h *health) processTrouble(now time.Time) string {
	if !h.ticked.IsZero() && now.Sub(h.ticked)-h.pace.HeartbeatEvery > tooOld {
		h.late = append(h.late, now)
	}
	h.ticked = now
	for len(h.late) > 0 && now.Sub(h.late[0]) > lateWithin {
		h.late = h.late[1:]
	}
	if len(h.late) < lateTicks {
		return ""
	}
	return fmt.Sprintf("it was woken late by more than %v %d times in %v", tooOld, len(h.late), lateWithin)
}

// linkTrouble is what is wrong with the links: this node hears no majority.
func (h *health) linkTrouble() string {
	all, heard := 0, 1
	for _, n := range h.Topology().Nodes {
		if n.Gone {
			continue
		}
		all++
		if n.ID != h.self && h.peers.silence(n.ID) < h.pace.SilentAfter {
			heard++
		}
	}
	if 2*heard > all {
		return ""
	}
	return fmt.Sprintf("it hears of %d of %d other nodes", heard-1, all-1)
}

// die has the node lead nothing from now on.
func (h *health) die() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ending = true
}

// leave hands the leads of this node to others, the meta group's first. A group may be stuck on the
// disk: none waits for another.
func (h *health) leave() {
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
func (h *health) begin(g base.GroupID) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leaving[g] {
		return false
	}
	h.leaving[g] = true
	return true
}

func (h *health) end(g base.GroupID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.leaving, g)
}

// Health is how this node finds itself to be.
func (h *health) Health() *HealthStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &HealthStatus{SyncAge: h.disk.age, Sync: h.disk.mean}
	for _, o := range organs {
		x := h.organs[o]
		st := OrganStatus{Organ: o.String(), State: x.state.String(), For: time.Since(x.since), Leaves: o&leaving != 0, Patience: x.patience}
		if x.state != organWell {
			st.Why, st.Advice = x.why, o.advice()
		}
		s.Organs = append(s.Organs, st)
	}
	return s
}

const askHealth = "health"

// NodeHealth is one node's health.
type NodeHealth struct {
	Node base.NodeID `json:"node"`
	HealthStatus
}

// AllHealth is the health of all nodes that can be reached, in order.
func (h *health) AllHealth(ctx context.Context) []NodeHealth {
	out := askAll(ctx, h.env, askHealth, h.nodeHealth())
	slices.SortFunc(out, func(a, b NodeHealth) int { return int(a.Node) - int(b.Node) })
	return out
}

func (h *health) nodeHealth() []NodeHealth { return []NodeHealth{{h.self, *h.Health()}} }

// # What is known of the others

// Fit reports whether a node may be given leads, as far as is known here.
func (e *env) Fit(n base.NodeID) bool { return e.peers.unfit(n)&leaving == 0 }

// unfit are the organs of a node that are not well.
func (p *peers) unfit(n base.NodeID) Organ {
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
	e.peers.mu.Lock()
	defer e.peers.mu.Unlock()
	x := e.peers.all[n]
	return n != e.self && x != nil && x.syncAge > tooOld/2
}

func (p *peers) setOwn(o Organ) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.own = o
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
