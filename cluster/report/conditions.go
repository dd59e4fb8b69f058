package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/health"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/policy/placement"
)

// condition is a named state of a cluster that an operator should look at.
type condition struct {
	name string
	// texts says, for people, where the condition holds and what to do about it; none: it does not
	// hold.
	texts func(*examination) []string
}

// conditions are all that a status is examined for, the worst first.
var conditions = []condition{
	{"group-without-leader", (*examination).groupsWithoutLeader},
	{"leader-not-serving", (*examination).leadersNotServing},
	{"region-down", (*examination).regionsDown},
	{"node-down", (*examination).nodesDown},
	{"path-cut", (*examination).pathsCut},
	{"node-sick", (*examination).nodesSick},
	{"disk-filling", (*examination).disksFilling},
	{"clock", (*examination).clocks}, // see sourceConditions
	{"led-away-from-home", (*examination).standIns},
	{"promoted-away-from-home", (*examination).promotedGroups},
	{"regions-on-their-way", (*examination).regionsOnTheirWay},
	{"builds-differ", (*examination).buildsDiffer},
	{"upgrade-not-final", (*examination).upgradeNotFinal},
	{"decommissioning", (*examination).nodesLeaving},
	{"replicas-moving", (*examination).replicasMoving},
	{"replicas-far-behind", (*examination).replicasFarBehind},
}

// Problem is a condition that holds: its name, and what to tell people.
type Problem struct{ Name, Text string }

// Examine finds the conditions that hold in a status, the worst first.
func Examine(s *Status) (out []Problem) {
	x := examine(s)
	for _, c := range conditions {
		for _, text := range c.texts(x) {
			out = append(out, Problem{c.name, text})
		}
	}
	return out
}

// Problems are the texts of Examine.
func Problems(s *Status) (out []string) {
	for _, p := range Examine(s) {
		out = append(out, p.Text)
	}
	return out
}

// examination is a status with what several conditions need of it.
type examination struct {
	*Status
	t          *base.Topology
	live       map[base.NodeID]bool
	withLeader map[base.GroupID]*GroupStatus // groups with a leader that answered
}

func examine(s *Status) *examination {
	x := &examination{Status: s, t: &s.Topology, live: map[base.NodeID]bool{}, withLeader: map[base.GroupID]*GroupStatus{}}
	for _, n := range s.Nodes {
		x.live[n.ID] = n.Live
	}
	for i := range s.Groups {
		if s.Groups[i].Leader != 0 {
			x.withLeader[s.Groups[i].ID] = &s.Groups[i]
		}
	}
	return x
}

func (x *examination) isLive(n base.NodeID) bool { return x.live[n] }
func (x *examination) isDown(n base.NodeID) bool { return !x.live[n] }

// down reports whether a region has nodes and none of them answers.
func (x *examination) down(r base.RegionID) bool {
	nodes := x.t.NodesIn(r)
	return len(nodes) > 0 && allNodes(nodes, x.isDown)
}

// groupsWithoutLeader: without a leader nothing of a group can be read or written.
func (x *examination) groupsWithoutLeader() []string {
	var without []base.GroupID
	var down []base.NodeID // that hold some of these groups
	for _, id := range x.t.Groups() {
		if x.withLeader[id] != nil {
			continue
		}
		without = append(without, id)
		for _, n := range x.t.ShardReplicas(id.Shard()) {
			if x.isDown(n) && !slices.Contains(down, n) {
				down = append(down, n)
			}
		}
	}
	if len(without) == 0 {
		return nil
	}
	slices.Sort(down)
	what := "an election should end this within seconds"
	if len(down) > 0 {
		what = fmt.Sprintf("of the nodes that hold them, %v do not answer: start those if this lasts", down)
	}
	for _, r := range x.regionsToPromoteOver() {
		what += fmt.Sprintf("; if region %s will not come back, let the others take its asynchronous tables over: "+
			"godwit promote --lost %s", r, r)
	}
	return []string{fmt.Sprintf("%s without a leader that answers; rows there cannot be read or written now: %s",
		named(without), what)}
}

// regionsToPromoteOver are the regions that are down with voters of asynchronous groups.
func (x *examination) regionsToPromoteOver() (names []string) {
	for _, r := range x.t.Regions {
		votes := func(of base.Region) bool {
			return len(x.t.AsyncGroups(of.ID)) > 0 && x.t.Votes(of.ID, r.ID)
		}
		if x.down(r.ID) && slices.ContainsFunc(x.t.Regions, votes) {
			names = append(names, r.Name)
		}
	}
	return names
}

func (x *examination) leadersNotServing() []string {
	var starting []base.GroupID
	for _, id := range x.t.Groups() {
		if g := x.withLeader[id]; g != nil && !g.Serving {
			starting = append(starting, id)
		}
	}
	if len(starting) == 0 {
		return nil
	}
	return []string{named(starting) + " with a leader that does not serve yet or has no lease: " +
		"it waits out its predecessor's lease, or cannot reach a majority"}
}

func (x *examination) regionsDown() (out []string) {
	for _, r := range x.t.Regions {
		if x.down(r.ID) {
			out = append(out, fmt.Sprintf("region %s is down: none of its nodes %v answers; "+
				"its rows are served from other regions while most voters live",
				r.Name, x.t.NodesIn(r.ID)))
		}
	}
	return out
}

func (x *examination) nodesDown() (out []string) {
	for _, n := range x.Nodes {
		if in := x.t.Node(n.ID); n.Live || in == nil || in.Gone {
			continue
		}
		if x.t.Node(n.ID).Away {
			out = append(out, fmt.Sprintf("node %d in %s has been silent for %s, and is away: other nodes of the region have its replicas, "+
				"or get them; it comes back by itself when it is started, with empty shards, or decommission it", n.ID, n.Region,
				n.LastHeard.Round(time.Second)))
			continue
		}
		at := "at " + n.Addr
		if n.Addr == "" {
			at = "(its address belongs to another node now)"
		}
		out = append(out, fmt.Sprintf("node %d in %s %s does not answer, last heard of %s ago: start it again, "+
			"or replace it (join another node in %s, then `godwit node decommission %d`)",
			n.ID, n.Region, at, n.LastHeard.Round(100*time.Millisecond), n.Region, n.ID)+x.notReplaced(n.ID))
	}
	return out
}

// pathsCut are direct paths between nodes that answer.
func (x *examination) pathsCut() (out []string) {
	for _, n := range x.Nodes {
		for _, c := range n.Cut {
			if x.isDown(n.ID) || x.isDown(c.To) || n.ID > c.To && slices.ContainsFunc(x.Nodes, func(o NodeStatus) bool {
				return o.ID == c.To && slices.ContainsFunc(o.Cut, func(c CutPath) bool { return c.To == n.ID })
			}) {
				continue
			}
			way := "no other nodes hear both"
			if len(c.Over) > 0 {
				way = fmt.Sprintf("messages go over %v, which takes longer", c.Over)
			}
			out = append(out, fmt.Sprintf("the direct path between nodes %d and %d is cut, one way or both: %s: "+
				"look at the network between their hosts", n.ID, c.To, way))
		}
	}
	return out
}

// nodesSick: the organs of nodes that answer, but for the clock, which has conditions of its own.
func (x *examination) nodesSick() (out []string) {
	for _, n := range x.Nodes {
		if n.Health == nil {
			continue
		}
		for _, o := range n.Health.Organs {
			leads := "its leads go to other nodes, unless most voters are sick"
			if !o.Leaves {
				leads = "its leads stay"
			}
			switch {
			case o.Organ == health.Clock.String():
			case o.State == health.Sick.String():
				out = append(out, fmt.Sprintf("node %d in %s: its %s is sick: %s; %s: %s", n.ID, n.Region, o.Organ,
					o.Why, leads, o.Advice))
			case o.State == health.Recovering.String() && o.Leaves:
				out = append(out, fmt.Sprintf("node %d in %s: its %s was sick (%s) and has been well for %s: "+
					"it gets its leads back after %s",
					n.ID, n.Region, o.Organ, o.Why, o.For.Round(100*time.Millisecond), o.Patience))
			}
		}
	}
	return out
}

// away reports whether a group votes in another region than that of its name, since a promotion.
func (x *examination) away(id base.GroupID) bool {
	return x.t.IsAsync(id.Shard()) && x.t.Home(id) != id.Region()
}

// standIns are groups that are led from outside of their homes.
func (x *examination) standIns() (out []string) {
	for _, r := range x.t.Regions {
		if r.Into != 0 {
			continue // it is being dropped
		}
		var led []base.GroupID
		for _, id := range x.t.Groups() {
			if g := x.withLeader[id]; g != nil && !x.away(id) && g.Home == r.Name &&
				x.t.RegionName(x.t.RegionOf(g.Leader)) != r.Name {
				led = append(led, id)
			}
		}
		if len(led) > 0 {
			out = append(out, fmt.Sprintf("%s led by a stand-in outside of home %s: statements there pay round trips "+
				"until the lead is back", named(led), r.Name))
		}
	}
	return out
}

// promotedGroups are asynchronous groups that vote elsewhere since their region was lost.
func (x *examination) promotedGroups() (out []string) {
	for _, r := range x.t.Regions {
		for _, seat := range x.t.Regions {
			votes := func(id base.GroupID) bool {
				return x.withLeader[id] != nil && x.away(id) && id.Region() == r.ID && x.t.Home(id) == seat.ID
			}
			if !slices.ContainsFunc(x.t.Groups(), votes) {
				continue
			}
			when := "when the region is back"
			if allNodes(x.t.NodesIn(r.ID), x.isLive) {
				when = "the region is back"
			}
			out = append(out, fmt.Sprintf("the asynchronous groups of %s vote in %s since a promotion; %s: "+
				"`godwit promote --return %s` lets them vote there again",
				r.Name, seat.Name, when, r.Name))
		}
	}
	return out
}

// regionsOnTheirWay are regions that are being added or dropped, and what that waits for.
func (x *examination) regionsOnTheirWay() (out []string) {
	for _, r := range x.t.Present() {
		what := "added (" + string(r.State) + ")"
		switch r.State {
		case base.RegionActive:
			continue
		case base.RegionLeaving:
			what = "dropped, and its rows move to " + x.t.RegionName(r.Into)
		}
		why := x.RegionWaits[r.ID]
		if why == "" {
			why = "asks all nodes"
		}
		out = append(out, fmt.Sprintf("region %s is being %s: it %s", r.Name, what, why))
	}
	return out
}

func (x *examination) nodesLeaving() (out []string) {
	for _, n := range x.t.Nodes {
		held := 0
		for _, g := range x.withLeader {
			if n.Gone && slices.Contains(slices.Concat(g.Voters, g.Learners), n.ID) {
				held++
			}
		}
		if held > 0 {
			out = append(out, fmt.Sprintf("node %d is being decommissioned: %d groups still have a replica there", n.ID, held))
		}
	}
	return out
}

func (x *examination) replicasMoving() []string {
	var moving []string
	for _, id := range x.t.Groups() {
		g := x.withLeader[id]
		if g == nil {
			continue
		}
		voters, learners := placement.Members(x.t, id)
		if !Same(g.Voters, voters) || !Same(g.Learners, learners) {
			moving = append(moving, x.move(g, voters, learners))
		}
	}
	return listed("replicas on the move", moving)
}

// move describes a group on its way to the members it should have, and what that waits for.
func (x *examination) move(g *GroupStatus, voters, learners []base.NodeID) string {
	what := fmt.Sprintf("%s from nodes %v to %v", g.ID, g.Voters, voters)
	if len(g.Learners)+len(learners) > 0 {
		what += fmt.Sprintf(" (learners %v to %v)", g.Learners, learners)
	}
	for _, l := range g.Lag {
		if l.Snapshot && !slices.Contains(g.Voters, l.Node) {
			what += fmt.Sprintf(", node %d is being sent the shard", l.Node)
		}
		if slices.Contains(voters, l.Node) && x.isDown(l.Node) {
			what += fmt.Sprintf(", waiting for node %d, which does not answer", l.Node)
		}
	}
	return what
}

func (x *examination) replicasFarBehind() []string {
	var behind []string
	for _, id := range x.t.Groups() {
		g := x.withLeader[id]
		if g == nil {
			continue
		}
		voters, _ := placement.Members(x.t, id)
		for _, l := range g.Lag {
			if l.Snapshot && slices.Contains(voters, l.Node) && slices.Contains(g.Voters, l.Node) {
				behind = append(behind, fmt.Sprintf("node %d of group %s", l.Node, id))
			}
		}
	}
	return listed("replicas far behind are being sent the whole shard", behind)
}

// clockCondition is a condition of one node's clock.
type clockCondition struct {
	name  string
	holds func(*ClockStatus) bool
	text  func(base.NodeID, *ClockStatus) string
}

// sourceConditions are those of a clock's source. The first that holds explains the others, so only
// that is shown.
var sourceConditions = []clockCondition{
	{"clock-wrong", func(c *ClockStatus) bool { return c.Fenced && c.Verdict == clock.Wrong.String() },
		func(n base.NodeID, c *ClockStatus) string {
			return fmt.Sprintf("node %d's clock is outside its bound, by at least %s against most others: "+
				"correct it (chronyc tracking, timedatectl); until then the node serves only in clock mode gtm",
				n, c.Off.Abs())
		}},
	{"clock-recovering", func(c *ClockStatus) bool { return c.Fenced },
		func(n base.NodeID, c *ClockStatus) string {
			return fmt.Sprintf("node %d's clock was outside its bound; it is taken into use again once it has agreed "+
				"with the others for a while", n)
		}},
	{"clock-unsure", func(c *ClockStatus) bool { return c.Verdict == clock.Unsure.String() },
		func(n base.NodeID, c *ClockStatus) string {
			return fmt.Sprintf("node %d's clock and another one are %s apart, more than their bounds allow, "+
				"and it cannot be told which is wrong: compare them with a third", n, c.Off.Abs())
		}},
	{"clock-set", func(c *ClockStatus) bool { return c.Stepped != 0 },
		func(n base.NodeID, c *ClockStatus) string {
			return fmt.Sprintf("node %d's clock was set by %s against its own running: "+
				"its bound covers both times until it has agreed with the others for a while", n, c.Stepped)
		}},
	{"clock-bound", func(c *ClockStatus) bool { return c.Bound > c.MaxBound && c.MaxBound > 0 },
		func(n base.NodeID, c *ClockStatus) string {
			return fmt.Sprintf("node %d's clock may be off by %s, more than clock.max_bound (%s): mend its source (%s)",
				n, c.Bound, c.MaxBound, c.Source)
		}},
	{"clock-source-silent", func(c *ClockStatus) bool { return strings.Contains(c.Source, clock.Silent) },
		func(n base.NodeID, c *ClockStatus) string {
			return fmt.Sprintf("node %d's clock source does not answer (%s): its bound is %s and grows by 200 µs a "+
				"second; above clock.max_bound (%s) the cluster goes over to the oracle", n, c.Source,
				c.Bound, c.MaxBound)
		}},
}

// modeConditions are those of the clock mode. Each that holds is shown.
var modeConditions = []clockCondition{
	{"clock-mode-blocked", func(c *ClockStatus) bool { return c.Blocked != "" },
		func(_ base.NodeID, c *ClockStatus) string {
			return "the clock mode cannot change now: " + c.Blocked
		}},
	{"clock-lease-ended", func(c *ClockStatus) bool { return c.Right < 0 },
		func(n base.NodeID, _ *ClockStatus) string {
			return fmt.Sprintf("node %d has not heard the meta group's leader for too long and serves no reads or "+
				"writes: check the network between them, and that the meta group has a leader", n)
		}},
}

func (x *examination) clocks() (out []string) {
	for _, n := range x.Nodes {
		if n.Clock == nil {
			continue
		}
		holds := func(c clockCondition) bool { return c.holds(n.Clock) }
		if i := slices.IndexFunc(sourceConditions, holds); i >= 0 {
			out = append(out, sourceConditions[i].text(n.ID, n.Clock))
		}
		for _, c := range modeConditions {
			if holds(c) {
				out = append(out, c.text(n.ID, n.Clock))
			}
		}
	}
	return out
}

func allNodes(nodes []base.NodeID, is func(base.NodeID) bool) bool {
	return !slices.ContainsFunc(nodes, func(n base.NodeID) bool { return !is(n) })
}

// maxNamed is how many groups or replicas one text names.
const maxNamed = 6

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

// listed is one text of a list, with the first few of many; none of an empty one.
func listed(head string, list []string) []string {
	if len(list) == 0 {
		return nil
	}
	if more := len(list) - maxNamed; more > 0 {
		list = append(slices.Clone(list[:maxNamed]), fmt.Sprintf("and %d more", more))
	}
	return []string{head + ": " + strings.Join(list, "; ")}
}

// Same reports whether two lists are of the same nodes.
func Same(a, b []base.NodeID) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
