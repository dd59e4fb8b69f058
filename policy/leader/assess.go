package leader

import (
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Node is a member of the group, or a place where its requests come from.
type Node struct {
	ID     base.NodeID
	Region base.RegionID
	Voter  bool // it counts for quorums
	Able   bool // it could take the lead now: a voter, alive, its log keeps up
	// Requests is the rate of requests from its own clients, in whatever unit is the same for all
	// nodes, and Writes the rate of those that wait for a commit. See [Meter].
	Requests, Writes float64
}

// Facts are what is known of a group at one heartbeat.
type Facts struct {
	Nodes  []Node
	Leader base.NodeID // 0: none is known
	// RTT[i][j] is the smoothed round trip that Nodes[i] measured to Nodes[j]; negative: not
	// measured. Where both ends have measured, the mean counts.
	RTT [][]time.Duration
	// Home is the region that a group of rows belongs to; 0: the group is homed as a whole and
	// follows the load.
	Home base.RegionID
	// MayLead are the regions that may lead; empty: all.
	MayLead []base.RegionID
}

// Unknown is a round trip that was not measured.
const Unknown time.Duration = -1

// Standing is how one node would do as leader.
type Standing struct {
	Node base.NodeID
	// Known is false if a round trip that counts was not measured.
	Known bool
	// Access is the round trip of an average request to the node, Commit what a commit takes there.
	Access, Commit time.Duration
	// Cost is what an average request would take, Utility what it would save.
	Cost, Utility time.Duration
	// Candidate is whether the node may lead, by placement, and is able to.
	Candidate bool
}

// Assessment is the utility vector of one heartbeat.
type Assessment struct {
	Standings []Standing // in the order of Facts.Nodes
	// Idle is whether there are no requests to judge by.
	Idle bool
	// Astray is whether the leader is not one that placement wants while there is one.
	Astray bool

	leader int // index; -1 unknown
}

// Of is the standing of a node.
func (a *Assessment) Of(id base.NodeID) (Standing, bool) {
	i := slices.IndexFunc(a.Standings, func(s Standing) bool { return s.Node == id })
	if i < 0 {
		return Standing{}, false
	}
	return a.Standings[i], true
}

// Best is the candidate that requests would cost least; 0 if nothing is known of any. It is the one
// to prefer in an election: damping is for moving the lead away from a leader that works.
func (a *Assessment) Best() base.NodeID {
	best := -1
	for i, s := range a.Standings {
		if s.Candidate && s.Known && (best < 0 || s.Cost < a.Standings[best].Cost) {
			best = i
		}
	}
	if best < 0 {
		return 0
	}
	return a.Standings[best].Node
}

// check refuses facts that nothing can be computed from.
func (f *Facts) check() error {
	if len(f.RTT) != len(f.Nodes) {
		return base.Errorf(base.CodeInvalid, "leader: round trips of %d nodes, but there are %d", len(f.RTT), len(f.Nodes))
	}
	for i, row := range f.RTT {
		if len(row) != len(f.Nodes) {
			return base.Errorf(base.CodeInvalid, "leader: node %d measured round trips to %d nodes, but there are %d",
				f.Nodes[i].ID, len(row), len(f.Nodes))
		}
	}
	for i, n := range f.Nodes {
		if n.ID == 0 || slices.ContainsFunc(f.Nodes[:i], func(o Node) bool { return o.ID == n.ID }) {
			return base.Errorf(base.CodeInvalid, "leader: node %d is nameless or twice in the facts", n.ID)
		}
		if !(n.Requests >= 0) || !(n.Writes >= 0) || n.Writes > n.Requests*(1+1e-9) {
			return base.Errorf(base.CodeInvalid, "leader: node %d has %v requests, %v of them writes", n.ID, n.Requests, n.Writes)
		}
	}
	return nil
}

// rtt is the round trip between two nodes, by whoever has measured it.
func (f *Facts) rtt(i, j int) time.Duration {
	switch a, b := f.RTT[i][j], f.RTT[j][i]; {
	case i == j:
		return 0
	case a < 0:
		return b
	case b < 0:
		return a
	default:
		return (a + b) / 2
	}
}

// commit is how long a commit takes with node n as leader.
func (f *Facts) commit(n int, c Commit) (time.Duration, bool) {
	var known []time.Duration
	others := 0
	for i, v := range f.Nodes {
		if !v.Voter || i == n {
			continue
		}
		others++
		if d := f.rtt(n, i); d >= 0 {
			known = append(known, d)
		}
	}
	if others == 0 {
		return 0, true
	}
	slices.Sort(known)
	if c == Median {
		// Those not measured are taken to be the slowest.
		lo, hi := (others-1)/2, others/2
		if hi >= len(known) {
			return 0, false
		}
		return (known[lo] + known[hi]) / 2, true
	}
	// acknowledgements besides the leader's own: half of all voters, rounded down
	need := (others+1)/2 - 1
	if need >= len(known) {
		return 0, false
	}
	return known[need], true
}

// shares are the popularity and the write ratio of each node.
func (f *Facts) shares(l Load) (pop, writes []float64, idle bool) {
	pop, writes = make([]float64, len(f.Nodes)), make([]float64, len(f.Nodes))
	var sum float64
	for i, n := range f.Nodes {
		if n.Requests > 0 {
			writes[i] = min(1, n.Writes/n.Requests)
		}
		pop[i] = n.Requests
		sum += n.Requests
	}
	if sum == 0 {
		return pop, writes, true
	}
	for i := range pop {
		if l == Measured {
			pop[i] /= sum
		} else {
			pop[i] = 1 / float64(len(pop))
		}
	}
	return pop, writes, false
}

// wanted are the nodes that placement would have lead: able ones of the home, else all able ones
// that may.
func (f *Facts) wanted() []bool {
	may := func(n Node) bool {
		return n.Able && n.Voter && (len(f.MayLead) == 0 || slices.Contains(f.MayLead, n.Region))
	}
	home := f.Home != 0 && slices.ContainsFunc(f.Nodes, func(n Node) bool { return may(n) && n.Region == f.Home })
	out := make([]bool, len(f.Nodes))
	for i, n := range f.Nodes {
		out[i] = may(n) && (!home || n.Region == f.Home)
	}
	return out
}

// Assess computes every node's utility by equation 4. Errors are of CodeInvalid.
func Assess(f *Facts, p Params) (Assessment, error) {
	p, err := p.filled()
	if err != nil {
		return Assessment{}, base.Errorf(base.CodeInvalid, "leader: %v", err)
	}
	if err := f.check(); err != nil {
		return Assessment{}, err
	}
	return f.assess(p), nil
}

func (f *Facts) assess(p Params) Assessment {
	a := Assessment{Standings: make([]Standing, len(f.Nodes)),
		leader: slices.IndexFunc(f.Nodes, func(n Node) bool { return n.ID == f.Leader })}
	pop, writes, idle := f.shares(p.Load)
	a.Idle = idle
	wanted := f.wanted()
	for n := range f.Nodes {
		s := &a.Standings[n]
		s.Node, s.Candidate = f.Nodes[n].ID, wanted[n]
		s.Commit, s.Known = f.commit(n, p.Commit)
		if p.Load == Ignored {
			s.Cost = s.Commit
			continue
		}
		var access, cost float64
		for i := range f.Nodes {
			if pop[i] == 0 {
				continue
			}
			d := f.rtt(i, n)
			if d < 0 {
				s.Known = false
				break
			}
			access += pop[i] * float64(d)
			cost += pop[i] * (float64(d) + writes[i]*float64(s.Commit))
		}
		s.Access, s.Cost = time.Duration(access), time.Duration(cost)
	}
	if a.leader < 0 {
		return a
	}
	a.Astray = !wanted[a.leader] && slices.Contains(wanted, true)
	now := &a.Standings[a.leader]
	for i := range a.Standings {
		if s := &a.Standings[i]; s.Known && now.Known && !idle {
			s.Utility = now.Cost - s.Cost
		}
	}
	return a
}

// String shows the node and its utility: how much an average request would save if it led.
func (s Standing) String() string {
	if !s.Known {
		return fmt.Sprintf("node %d: unknown", s.Node)
	}
	return fmt.Sprintf("node %d: %s", s.Node, s.Utility.Round(10*time.Microsecond))
}
