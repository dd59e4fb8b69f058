package cluster

import (
	"fmt"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
)

// maxNamed is how many groups one problem names.
const maxNamed = 6

// problems are what an operator should look at, the worst first.
func problems(s *Status) (out []string) {
	t := &s.Topology
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	live := map[base.NodeID]bool{}
	for _, n := range s.Nodes {
		live[n.ID] = n.Live
	}
	groups := map[base.GroupID]*GroupStatus{}
	for i := range s.Groups {
		if s.Groups[i].Leader != 0 {
			groups[s.Groups[i].ID] = &s.Groups[i]
		}
	}

	// Without a leader nothing goes.
	var without, starting []base.GroupID
	var lost []string // regions that are down with the voters of asynchronous tables
	for _, r := range t.Regions {
		down := func(n base.NodeID) bool { return !live[n] }
		if nodes := liveNodes(t, r.ID); len(nodes) == 0 || !allNodes(nodes, down) {
			continue
		}
		for _, of := range t.Regions {
			if gs := t.AsyncGroups(of.ID); len(gs) > 0 && t.Votes(of.ID, r.ID) && !slices.Contains(lost, r.Name) {
				lost = append(lost, r.Name)
			}
		}
	}
	for _, id := range t.Groups() {
		switch g := groups[id]; {
		case g == nil:
			without = append(without, id)
		case !g.Serving:
			starting = append(starting, id)
		}
	}
	if len(without) > 0 {
		var down []base.NodeID
		for _, id := range without {
			for _, n := range t.ShardReplicas(id.Shard()) {
				if !live[n] && !slices.Contains(down, n) {
					down = append(down, n)
				}
			}
		}
		slices.Sort(down)
		what := "an election should end this within seconds"
		if len(down) > 0 {
			what = fmt.Sprintf("of the nodes that hold them, %v do not answer: start those if this lasts", down)
		}
		for _, r := range lost {
			what += fmt.Sprintf("; if region %s will not come back, let the others take its asynchronous tables over: godwit promote --lost %s", r, r)
		}
		say("%s without a leader that answers; rows there cannot be read or written now: %s", named(without), what)
	}
	if len(starting) > 0 {
		say("%s with a leader that does not serve yet or has no lease: it waits out its predecessor's lease, or cannot reach a majority", named(starting))
	}
	for _, r := range t.Regions {
		if nodes := liveNodes(t, r.ID); len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n base.NodeID) bool { return live[n] }) {
			say("region %s is down: none of its nodes %v answers; its rows are served from other regions while most voters live", r.Name, nodes)
		}
	}
	for _, n := range s.Nodes {
		if x := t.Node(n.ID); !n.Live && x != nil && !x.Gone {
			at := "at " + n.Addr
			if n.Addr == "" {
				at = "(its address belongs to another node now)"
			}
			say("node %d in %s %s does not answer, last heard of %s ago: start it again, or replace it (join another node in %s, then `godwit node decommission %d`)",
				n.ID, n.Region, at, n.LastHeard.Round(100e6), n.Region, n.ID)
		}
	}

	out = append(out, clockProblems(s)...)

	// Replicas that are not where they should be.
	standIn := map[string][]base.GroupID{}
	promoted := map[[2]base.RegionID][]base.GroupID{} // by home and seat
	leaving := map[base.NodeID]int{}
	var moving, behind []string
	for _, id := range t.Groups() {
		g := groups[id]
		if g == nil {
			continue
		}
		voters, learners := Members(t, id)
		if !sameNodes(g.Voters, voters) || !sameNodes(g.Learners, learners) {
			what := fmt.Sprintf("%s from nodes %v to %v", id, g.Voters, voters)
			if len(g.Learners)+len(learners) > 0 {
				what += fmt.Sprintf(" (learners %v to %v)", g.Learners, learners)
			}
			for _, l := range g.Lag {
				if !slices.Contains(g.Voters, l.Node) && l.Snapshot {
					what += fmt.Sprintf(", node %d is being sent the shard", l.Node)
				}
				if slices.Contains(voters, l.Node) && !live[l.Node] {
					what += fmt.Sprintf(", waiting for node %d, which does not answer", l.Node)
				}
			}
			moving = append(moving, what)
		}
		for _, n := range slices.Concat(g.Voters, g.Learners) {
			if x := t.Node(n); x != nil && x.Gone {
				leaving[n]++
			}
		}
		for _, l := range g.Lag {
			if l.Snapshot && slices.Contains(voters, l.Node) && slices.Contains(g.Voters, l.Node) {
				behind = append(behind, fmt.Sprintf("node %d of group %s", l.Node, id))
			}
		}
		if seat := t.Home(id); id != base.MetaGroup && seat != id.Region() {
			k := [2]base.RegionID{id.Region(), seat}
			promoted[k] = append(promoted[k], id)
		} else if g.Home != "" && t.RegionName(t.RegionOf(g.Leader)) != g.Home {
			standIn[g.Home] = append(standIn[g.Home], id)
		}
	}
	for _, r := range t.Regions {
		if gs := standIn[r.Name]; len(gs) > 0 {
			say("%s led by a stand-in outside of home %s: statements there pay round trips until the lead is back", named(gs), r.Name)
		}
	}
	for _, r := range t.Regions {
		for _, seat := range t.Regions {
			gs := promoted[[2]base.RegionID{r.ID, seat.ID}]
			if len(gs) == 0 {
				continue
			}
			when := "when the region is back"
			if allNodes(liveNodes(t, r.ID), func(n base.NodeID) bool { return live[n] }) {
				when = "the region is back"
			}
			say("the asynchronous groups of %s vote in %s since a promotion; %s: `godwit promote --return %s` lets them vote there again", r.Name, seat.Name, when, r.Name)
		}
	}
	for _, n := range t.Nodes {
		if k := leaving[n.ID]; k > 0 {
			say("node %d is being decommissioned: %d groups still have a replica there", n.ID, k)
		}
	}
	say10 := func(head string, list []string) {
		if more := len(list) - maxNamed; more > 0 {
			list = append(slices.Clone(list[:maxNamed]), fmt.Sprintf("and %d more", more))
		}
		if len(list) > 0 {
			say("%s: %s", head, strings.Join(list, "; "))
		}
	}
	say10("replicas on the move", moving)
	say10("replicas far behind are being sent the whole shard", behind)
	return out
}

// clockProblems are those of the clocks and of the clock mode.
func clockProblems(s *Status) (out []string) {
	say := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for _, n := range s.Nodes {
		c := n.Clock
		if c == nil {
			continue
		}
		switch {
		case c.Fenced && c.Verdict == "wrong":
			say("node %d's clock is outside its bound, by at least %s against most others: correct it (chronyc tracking, timedatectl); until then the node serves only in clock mode gtm", n.ID, c.Off.Abs())
		case c.Fenced:
			say("node %d's clock was outside its bound; it is taken into use again once it has agreed with the others for a while", n.ID)
		case c.Verdict == "unsure":
			say("node %d's clock and another one are %s apart, more than their bounds allow, and it cannot be told which is wrong: compare them with a third", n.ID, c.Off.Abs())
		case c.Stepped != 0:
			say("node %d's clock was set by %s against its own running: its bound covers both times until it has agreed with the others for a while", n.ID, c.Stepped)
		case c.Bound > c.MaxBound && c.MaxBound > 0:
			say("node %d's clock may be off by %s, more than clock.max_bound (%s): mend its source (%s)", n.ID, c.Bound, c.MaxBound, c.Source)
		case strings.Contains(c.Source, clock.Silent):
			say("node %d's clock source does not answer (%s): its bound is %s and grows by 200 µs a second; above clock.max_bound (%s) the cluster goes over to the oracle", n.ID, c.Source, c.Bound, c.MaxBound)
		}
		if c.Blocked != "" {
			say("the clock mode cannot change now: %s", c.Blocked)
		}
		if c.Right < 0 {
			say("node %d has had no word from the meta group's leader for too long and serves no reads or writes: can it reach it?", n.ID)
		}
	}
	return out
}

func allNodes(nodes []base.NodeID, is func(base.NodeID) bool) bool {
	return !slices.ContainsFunc(nodes, func(n base.NodeID) bool { return !is(n) })
}

// named are groups by name, the first few of many, as the subject of a sentence.
func named(gs []base.GroupID) string {
	var names []string
	for _, g := range gs[:min(len(gs), maxNamed)] {
		names = append(names, g.String())
	}
	switch more := len(gs) - len(names); {
	case len(gs) == 1:
		return "group " + names[0] + " is"
	case more > 0:
		return fmt.Sprintf("groups %s and %d more are", strings.Join(names, ", "), more)
	}
	return "groups " + strings.Join(names, ", ") + " are"
}
