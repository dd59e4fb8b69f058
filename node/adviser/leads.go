package adviser

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/policy/advice"
	"github.com/godwitdb/godwit/policy/leader"
)

// lead is a group of rows in the shards that tables share, and how its nodes would do as leaders.
type lead struct {
	group base.GroupID
	now   base.NodeID
	free  bool // it follows its load
	load  float64
	rows  []cluster.LeaderRow
}

// leadsOf are the groups of the shards that tables share.
func leadsOf(t *base.Topology, rows []cluster.LeaderRow) (out []lead) {
	for _, r := range rows {
		if s := r.Group.Shard(); r.Group == base.MetaGroup || int(s) > t.Shards {
			continue
		}
		if n := len(out); n == 0 || out[n-1].group != r.Group {
			out = append(out, lead{group: r.Group, now: r.Leader, free: r.Free})
		}
		l := &out[len(out)-1]
		l.load += r.Requests
		if slices.Contains(t.VotersOf(r.Group.Shard()), r.Standing.Node) {
			l.rows = append(l.rows, r)
		}
	}
	return out
}

// best is the node that the policy of leaders would have lead; others: also where the setting
// leader.may_lead leaves no room. It is the leader of now where nothing else is known.
func (l *lead) best(t *base.Topology, others bool) base.NodeID {
	var at *cluster.LeaderRow
	home := false
	for i := range l.rows {
		r := &l.rows[i]
		if !r.Standing.Known || !others && !r.Standing.Candidate {
			continue
		}
		here := !l.free && t.RegionOf(r.Standing.Node) == t.Home(l.group)
		if at == nil || here && !home || here == home && r.Standing.Cost < at.Standing.Cost {
			at, home = r, here
		}
	}
	if at == nil || l.free && l.load == 0 {
		return l.now
	}
	return at.Standing.Node
}

// AddLeads tells where rows are led, and which settings keep them from being led where they would
// be. rows are the standings in all groups, in their order.
func AddLeads(f *advice.Facts, t *base.Topology, rows []cluster.LeaderRow, p cluster.LeaderParams) {
	pins, err := leader.ParsePins(p.Pin)
	if err != nil || len(pins) == 0 && p.MayLead == "" && p.Mode == "on" {
		return // they go by themselves
	}
	leads := leadsOf(t, rows)
	var groups []base.GroupID
	for _, l := range leads {
		groups = append(groups, l.group)
	}
	f.Led = led(t, groups, func(i int) base.NodeID { return leads[i].now })
	away := func(l *lead, to base.NodeID) bool { return t.RegionOf(to) != t.RegionOf(l.now) }
	add := func(to func(l *lead) base.NodeID, s advice.Stop) {
		if s.Led = led(t, groups, func(i int) base.NodeID { return to(&leads[i]) }); slices.ContainsFunc(leads, func(l lead) bool { return away(&l, to(&l)) }) {
			f.Stops = append(f.Stops, s)
		}
	}
	byPolicy := func(l *lead) base.NodeID {
		if p.Mode == "on" {
			return l.best(t, false)
		}
		return l.preferred()
	}
	unpinned := func(to func(l *lead) base.NodeID) func(l *lead) base.NodeID {
		return func(l *lead) base.NodeID {
			if pins[l.group] != 0 {
				return l.now
			}
			return to(l)
		}
	}
	rest, said := maps.Clone(pins), []string{}
	for i := range leads {
		l := &leads[i]
		if pins[l.group] == 0 || !away(l, byPolicy(l)) {
			continue
		}
		delete(rest, l.group)
		said = append(said, fmt.Sprintf("%v is pinned to node %d in %s and would be led in %s", l.group, pins[l.group],
			t.RegionName(t.RegionOf(pins[l.group])), t.RegionName(t.RegionOf(byPolicy(l)))))
	}
	released := func(l *lead) base.NodeID {
		if pins[l.group] != 0 && rest[l.group] == 0 {
			return byPolicy(l)
		}
		return l.now
	}
	add(released, advice.Stop{Why: several(said), Do: set("leader.pin", leader.FormatPins(rest)),
		GivesUp: "that these groups are led by the nodes that somebody has chosen"})
	if p.Mode == "on" && p.MayLead != "" {
		add(unpinned(func(l *lead) base.NodeID { return l.best(t, true) }), advice.Stop{Do: set("leader.may_lead", ""),
			Why:     "leader.may_lead is '" + p.MayLead + "', so rows that are at home elsewhere are not led at home",
			GivesUp: "that no other regions lead"})
	}
	if p.Mode != "on" {
		add(unpinned(func(l *lead) base.NodeID { return l.best(t, false) }), advice.Stop{Do: set("leader.mode", ""),
			Why:     "leader.mode is " + p.Mode + ", so the leads of rows that do not move do not follow their users",
			GivesUp: "leads that move for faults only"})
	}
}

// set is the statement that sets a cluster setting; an empty value is its default.
func set(name, value string) string {
	if value == "" {
		return "SET CLUSTER SETTING " + name + " = DEFAULT"
	}
	return "SET CLUSTER SETTING " + name + " = '" + value + "'"
}

// several is some sentences of a reason, not all if they are many.
func several(said []string) string {
	const most = 3
	if n := len(said); n > most {
		return strings.Join(said[:most], "; ") + fmt.Sprintf("; and %d more", n-most)
	}
	return strings.Join(said, "; ")
}

// preferred is the node by which a group is led without a policy.
func (l *lead) preferred() base.NodeID {
	for _, r := range l.rows {
		if r.Preferred {
			return r.Standing.Node
		}
	}
	return l.now
}

// led is where rows are led if groups were led by some nodes: the share of the rows of each home
// that is led in each region. Keys spread rows evenly over the shards. How many requests a group
// gets says less, as reads from elsewhere do not ask its leader.
func led(t *base.Topology, groups []base.GroupID, by func(i int) base.NodeID) (out advice.Led) {
	for range t.Regions {
		out = append(out, make([]float64, len(t.Regions)))
	}
	for i, g := range groups {
		home, at := RegionIndex(t, t.Home(g)), RegionIndex(t, t.RegionOf(by(i)))
		if home >= 0 && at >= 0 {
			out[home][at]++
		}
	}
	for i, row := range out {
		sum := 0.0
		for _, n := range row {
			sum += n
		}
		for j := range row {
			row[j] /= max(1, sum)
		}
		if sum == 0 { // nothing is known
			row[i] = 1
		}
	}
	return out
}
