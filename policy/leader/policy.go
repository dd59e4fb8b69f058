package leader

import (
	"fmt"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Reason is why the lead moves or stays.
type Reason string

// Reasons of a decision.
const (
	Watching Reason = "watching"  // the window has not ended
	Better   Reason = "better"    // To was better throughout the window: move
	Placed   Reason = "placement" // To is where placement wants the leader: move
	// the window has ended and nobody was better throughout, by enough
	NoBetter   Reason = "no better"
	HeldDown   Reason = "held down"  // the leader has changed a moment ago
	NoLeader   Reason = "no leader"  // nobody leads
	NoLoad     Reason = "no load"    // there are no requests to judge by
	Unmeasured Reason = "unmeasured" // the leader's own round trips are not known
	// a node where placement wants the leader has not been able for long enough
	Returning Reason = "returning"
)

// Decision is what follows from one heartbeat.
type Decision struct {
	// To is the node to hand the lead to; 0: stay.
	To     base.NodeID
	From   base.NodeID
	Reason Reason
	// Gain is what an average request saves with To, on average over the window; of NoBetter, what
	// it would save with the best node, which was not enough or did not last.
	Gain time.Duration
	// Window is the damping window that has ended, or is under way, and Next the one that follows.
	Window, Next int
	Assessment
}

// Move reports whether the lead should move.
func (d *Decision) Move() bool { return d.To != 0 }

// String says in a sentence what is to be done with the lead, and why.
func (d *Decision) String() string {
	switch d.Reason {
	case Better:
		return fmt.Sprintf("move the lead from node %d to node %d: an average request saves %s, "+
			"in each of %d heartbeats; next window %d",
			d.From, d.To, d.Gain.Round(10*time.Microsecond), d.Window, d.Next)
	case Placed:
		return fmt.Sprintf("move the lead from node %d to node %d, where placement wants it", d.From, d.To)
	default:
		return fmt.Sprintf("the lead stays with node %d: %s", d.From, d.Reason)
	}
}

// record is what a window has seen of a node.
type record struct {
	positive int           // heartbeats with positive utility
	sum      time.Duration // of the utilities
	able     int           // heartbeats in a row as a candidate
}

// Policy decides for one group. It is not safe for concurrent use.
type Policy struct {
	p      Params
	leader base.NodeID
	hold   int // heartbeats of the hold-down to come
	window int
	seen   int // heartbeats of this window
	nodes  map[base.NodeID]*record
	moves  int
}

// New makes a policy for a group whose leader it does not know yet. Errors name all bad parameters.
func New(p Params) (*Policy, error) {
	x := &Policy{nodes: map[base.NodeID]*record{}}
	return x, x.SetParams(p)
}

// SetParams changes the settings; the window starts again, and no shorter or longer than is allowed
// now.
func (p *Policy) SetParams(n Params) error {
	n, err := n.filled()
	if err != nil {
		return base.Errorf(base.CodeInvalid, "leader: %v", err)
	}
	p.p = n
	p.window = min(max(p.window, n.Window), n.MaxWindow)
	p.hold = min(p.hold, n.HoldDown)
	p.restart()
	return nil
}

// State is how far the policy has come.
type State struct {
	Leader       base.NodeID
	Window, Seen int // heartbeats
	HoldDown     int // heartbeats to come
	Moves        int // decided for the sake of utility or placement
}

// State tells how far the policy has come.
func (p *Policy) State() State {
	return State{Leader: p.leader, Window: p.window, Seen: p.seen, HoldDown: p.hold, Moves: p.moves}
}

// restart begins a window.
func (p *Policy) restart() {
	p.seen = 0
	for _, r := range p.nodes {
		r.positive, r.sum = 0, 0
	}
}

// Observe takes the facts of one heartbeat and decides. Errors are of CodeInvalid, and then it was
// no heartbeat.
func (p *Policy) Observe(f *Facts) (Decision, error) {
	if err := f.check(); err != nil {
		return Decision{}, err
	}
	d := Decision{From: f.Leader, Window: p.window, Next: p.window, Assessment: f.assess(p.p)}
	p.know(&d.Assessment)
	switch {
	case f.Leader == 0 || d.leader < 0:
		p.restart()
		d.Reason = NoLeader
		return d, nil
	case f.Leader != p.leader:
		p.leader, p.hold = f.Leader, p.p.HoldDown
		p.restart()
	}
	if p.hold > 0 {
		p.hold--
		d.Reason = HeldDown
		return d, nil
	}
	if d.Astray {
		p.restart()
		p.returnHome(&d)
		return d, nil
	}
	p.watch(&d)
	return d, nil
}

// know keeps a record of each node there is, and of no other.
func (p *Policy) know(a *Assessment) {
	for id := range p.nodes {
		if _, ok := a.Of(id); !ok {
			delete(p.nodes, id)
		}
	}
	for _, s := range a.Standings {
		r := p.nodes[s.Node]
		if r == nil {
			r = &record{}
			p.nodes[s.Node] = r
		}
		if r.able++; !s.Candidate {
			r.able = 0
		}
	}
}

// returnHome moves a lead that placement wants elsewhere.
func (p *Policy) returnHome(d *Decision) {
	d.Reason = Returning
	best := -1
	for i, s := range d.Standings {
		if !s.Candidate || p.nodes[s.Node].able < max(1, p.p.HoldDown) {
			continue
		}
		if best < 0 || s.Known && (!d.Standings[best].Known || s.Cost < d.Standings[best].Cost) {
			best = i
		}
	}
	if best < 0 {
		return
	}
	d.To, d.Reason, d.Gain = d.Standings[best].Node, Placed, d.Standings[best].Utility
	p.moves++
	for _, r := range p.nodes {
		r.able = 0 // a hand-over that fails is tried again after as long
	}
}

// best is what the best candidate of a whole window gains for each heartbeat. d.To is that
// candidate, or 0 if none was better at every heartbeat and gains enough; d.Gain the largest gain
// of any.
func (p *Policy) best(d *Decision) (best time.Duration) {
	enough := max(p.p.MinGain, time.Duration(p.p.MinGainShare*float64(d.Standings[d.leader].Cost)))
	for i, s := range d.Standings {
		r := p.nodes[s.Node]
		gain := r.sum / time.Duration(p.seen)
		if i != d.leader && s.Candidate {
			d.Gain = max(d.Gain, gain)
		}
		if r.positive == p.seen && gain >= enough && gain > best {
			best, d.To = gain, s.Node
		}
	}
	return best
}

// watch counts a heartbeat of the window and decides at its end.
func (p *Policy) watch(d *Decision) {
	for i, s := range d.Standings {
		r := p.nodes[s.Node]
		if r.sum += s.Utility; i != d.leader && s.Candidate && s.Known && s.Utility > 0 {
			r.positive++
		}
	}
	p.seen++
	d.Reason = Watching
	switch {
	case d.Idle:
		d.Reason = NoLoad
	case !d.Standings[d.leader].Known:
		d.Reason = Unmeasured
	}
	if p.seen < p.window {
		return
	}
	if d.Reason == Watching {
		d.Reason = NoBetter
	}
	best := p.best(d)
	if d.To != 0 {
		d.Reason, d.Gain = Better, best
		d.Next = min(2*p.window, p.p.MaxWindow)
		p.moves++
	} else {
		// The paper has min here; see the package comment.
		d.Next = max(p.window/2, p.p.Window)
	}
	p.window = d.Next
	p.restart()
}
