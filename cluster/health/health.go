// Package health judges how well a node is. A node that still answers may be as good as dead: its
// disk stands still, or its process gets no processor. A node finds that out itself, by what it
// does. Package cluster feeds a [Monitor] once a tick, says in its heartbeats what the monitor
// finds, and hands the leads of this node to others while an organ that a leader needs is sick.
//
// A monitor is told facts and makes no I/O but for its log.
package health

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// TooOld is for how long a disk may take nothing, and by how much a tick, or the answers of most
// nodes, may be late.
const TooOld = 400 * time.Millisecond

// LateTimes is how many times as late as those of the others confirmations must be to count.
const LateTimes = 2

// FarTrip is how long a round trip to a majority may take. Beyond it a node that has FarTimes as
// long a trip as most others leads badly: no place on earth is so far away.
const (
	FarTrip  = 700 * time.Millisecond
	FarTimes = 2
)

// Trip is the round trip from a node to the nearest majority of the nodes, itself among them.
// between says what it takes between two; below 0: that is not known, and counts as unknown.
func Trip[N comparable](nodes []N, from N, between func(a, b N) time.Duration, unknown time.Duration) time.Duration {
	var all []time.Duration
	for _, n := range nodes {
		d := time.Duration(0)
		if n != from {
			if d = between(from, n); d < 0 {
				d = unknown
			}
		}
		all = append(all, d)
	}
	if len(all) == 0 {
		return unknown
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// When an organ counts as sick, besides.
const (
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

// Facts are what a node knows at a tick.
type Facts struct {
	// Syncs samples the disk; nil: there is none to judge.
	Syncs *Syncs
	// OthersSync is the median of how long the syncs of the other nodes take; 0 if none has said.
	OthersSync time.Duration
	// Damage is why the store cannot be trusted; nil if it can.
	Damage error
	// Mended says what was damaged and has been repaired in this life of the process; may be empty.
	Mended string
	// Ending says that the node was told to end.
	Ending bool
	// ClockFenced says that the clock is outside its bound.
	ClockFenced bool
	// ClockNeeded says that clock.mode is one in which the oracle cannot stand in for it.
	ClockNeeded bool
	// Late is by how much longer than usual a majority of the nodes take to confirm this node's
	// heartbeats, OthersLate the median of what the other nodes say of theirs: in a slow network
	// all are late.
	Late, OthersLate time.Duration
	// Trip is a round trip to a majority, OthersTrip the median of those of the other nodes, which
	// is of no account unless Trip is beyond FarTrip.
	Trip, OthersTrip time.Duration
	// Heard of so many nodes of the cluster lately; both count this node.
	Heard, Nodes int
}

// A Verdict is what follows from the facts.
type Verdict struct {
	// Unfit are the organs that are not well.
	Unfit Organ
	// Recovering are those of them that are well again, and not trusted yet.
	Recovering Organ
	// Leave says that an organ that a leader needs is sick.
	Leave bool
	// SyncAge is for how long the oldest sync has been under way, Sync what syncs took in the last
	// second, on average.
	SyncAge, Sync time.Duration
}

// Status is how a node finds itself to be.
type Status struct {
	Organs  []OrganStatus `json:"organs"`
	SyncAge time.Duration `json:"sync_age_ns"` // of the oldest sync under way
	Sync    time.Duration `json:"sync_ns"`     // what syncs took in the last second, on average
	Changes []Change      `json:"changes,omitempty"`
}

// maxChanges is how many changes a monitor remembers, the newest.
const maxChanges = 64

// Change is a verdict: an organ's state is another one from then on.
type Change struct {
	At       time.Time     `json:"at"`
	Organ    string        `json:"organ"`
	From     string        `json:"from"`
	To       string        `json:"to"`
	Why      string        `json:"why"`
	Leaves   bool          `json:"leaves"`
	Patience time.Duration `json:"patience_ns"`
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

// A Monitor judges the organs of one node. Its methods may be called from any goroutine.
type Monitor struct {
	every time.Duration // from tick to tick
	log   *slog.Logger

	mu     sync.Mutex
	organs map[Organ]*organ
	disk   diskMeter
	ticked time.Time
	late   []time.Time // ticks that were late by more than TooOld
	mended string
	// changes are the newest, the oldest of them first.
	changes []Change
}

// NewMonitor makes the monitor of a node that ticks every so often.
func NewMonitor(every time.Duration, log *slog.Logger) *Monitor {
	m := &Monitor{every: every, log: log, organs: map[Organ]*organ{}}
	for _, o := range organs {
		m.organs[o] = new(organ)
	}
	return m
}

// Tick judges all organs by what is known now.
func (m *Monitor) Tick(now time.Time, f Facts) (v Verdict) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.mended = f.Mended
	found := map[Organ]string{Disk: m.diskTrouble(now, f), Process: m.processTrouble(now, f), Links: linkTrouble(f)}
	if f.Damage != nil {
		found[Store] = f.Damage.Error()
	}
	if f.Ending {
		found[Life] = "it was told to end"
	}
	if f.ClockFenced {
		found[Clock] = "it is outside its bound"
	}
	if f.ClockFenced && f.ClockNeeded {
		found[Issuer] = "it can issue no timestamps: its clock is outside its bound, and clock.mode is gclock"
	}
	for _, o := range organs {
		x := m.organs[o]
		was := x.state
		if why := found[o]; x.observe(now, why != "", why) {
			m.remember(now, o, was, x)
			if o != Clock { // the clock says so itself
				m.say(o, x)
			}
		}
		if x.state != Well {
			v.Unfit |= o
			if x.state == Recovering {
				v.Recovering |= o
			}
			v.Leave = v.Leave || o&Leading != 0 && x.state == Sick
		}
	}
	v.SyncAge, v.Sync = m.disk.age, m.disk.mean
	return v
}

// remember keeps a verdict with its reason.
func (m *Monitor) remember(now time.Time, o Organ, was State, x *organ) {
	why := x.why
	switch x.state {
	case Recovering:
		why = fmt.Sprintf("it is well again, and is trusted after %v of that", x.patience)
	case Well:
		why = fmt.Sprintf("it has been well for %v", x.patience)
	}
	if len(m.changes) == maxChanges {
		m.changes = slices.Delete(m.changes, 0, 1)
	}
	m.changes = append(m.changes, Change{At: now, Organ: o.String(), From: was.String(), To: x.state.String(), Why: why,
		Leaves: o&Leading != 0, Patience: x.patience})
}

// say logs that an organ has changed its state.
func (m *Monitor) say(o Organ, x *organ) {
	if o == Life {
		m.log.Info("the node ends: it hands its leads over")
		return
	}
	if x.state == Sick {
		m.log.Warn("health", "organ", o.String(), "state", x.state.String(), "why", x.why, "do", o.Advice())
		return
	}
	m.log.Info("health", "organ", o.String(), "state", x.state.String(), "patience", x.patience)
}

// Status is how the node finds itself to be.
func (m *Monitor) Status() *Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := &Status{SyncAge: m.disk.age, Sync: m.disk.mean, Changes: slices.Clone(m.changes)}
	for _, o := range organs {
		x := m.organs[o]
		st := OrganStatus{Organ: o.String(), State: x.state.String(), For: time.Since(x.since), Leaves: o&Leading != 0,
			Patience: x.patience}
		if x.state != Well {
			st.Why, st.Advice = x.why, o.Advice()
		}
		if o == Store && x.state != Sick {
			st.Why, st.Advice = m.mended, ""
		}
		s.Organs = append(s.Organs, st)
	}
	return s
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
func (m *Monitor) diskTrouble(now time.Time, f Facts) string {
	if f.Syncs == nil {
		return ""
	}
	d := &m.disk
	d.add(*f.Syncs, 1+int(syncWindow/m.every))
	switch slow := f.OthersSync > 0 && d.mean > max(slowLeast, slowTimes*f.OthersSync); {
	case d.mean == 0: // nothing was synced: it may be as it was
	case !slow:
		d.slowSince = time.Time{}
	case d.slowSince.IsZero():
		d.slowSince = now
	}
	switch {
	case d.age > TooOld:
		return fmt.Sprintf("it has taken nothing for %v", d.age.Round(time.Millisecond))
	case !d.slowSince.IsZero() && now.Sub(d.slowSince) >= slowFor:
		return fmt.Sprintf("a sync takes %v, those of the other nodes %v", d.mean.Round(time.Millisecond),
			f.OthersSync.Round(100*time.Microsecond))
	}
	return ""
}

// processTrouble is what is wrong with the process: it sleeps, and is not woken, or it handles late
// what arrives. mu is held.
func (m *Monitor) processTrouble(now time.Time, f Facts) string {
	if !m.ticked.IsZero() && now.Sub(m.ticked)-m.every > TooOld {
		m.late = append(m.late, now)
	}
	m.ticked = now
	for len(m.late) > 0 && now.Sub(m.late[0]) > lateWithin {
		m.late = m.late[1:]
	}
	switch {
	case len(m.late) >= lateTicks:
		return fmt.Sprintf("it was woken late by more than %v %d times in %v", TooOld, len(m.late), lateWithin)
	case f.Late > max(TooOld, LateTimes*f.OthersLate):
		return fmt.Sprintf("most nodes confirm its messages %v later than usual, and those of the others %v: it handles late "+
			"what arrives, or is heard late", f.Late.Round(time.Millisecond), f.OthersLate.Round(time.Millisecond))
	case f.Trip > max(FarTrip, FarTimes*f.OthersTrip):
		return fmt.Sprintf("a round trip to most nodes takes %v, and one of the others %v: it handles late what arrives, or its "+
			"links are slow", f.Trip.Round(time.Millisecond), f.OthersTrip.Round(time.Millisecond))
	}
	return ""
}

// linkTrouble is what is wrong with the links: this node hears no majority.
func linkTrouble(f Facts) string {
	if 2*f.Heard > f.Nodes {
		return ""
	}
	return fmt.Sprintf("it hears of %d of %d other nodes", f.Heard-1, f.Nodes-1)
}
