package replace

import (
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
	"github.com/godwitdb/godwit/cluster/report"
	"github.com/godwitdb/godwit/policy/placement"
)

// situation is a cluster in which some nodes are silent.
type situation struct {
	top    base.Topology
	status report.Status
	silent map[base.NodeID]bool
}

// at makes a situation of regions with so many nodes each, in which all is well but for the silent.
func at(nodes []int, silent ...base.NodeID) *situation {
	x := &situation{top: placement.Place(basetest.Topology(4, nodes...)), silent: map[base.NodeID]bool{}}
	for _, n := range silent {
		x.silent[n] = true
	}
	for _, n := range x.top.Nodes {
		x.status.Nodes = append(x.status.Nodes, report.NodeStatus{ID: n.ID, Live: !x.silent[n.ID], DiskBytes: 10 << 30, DiskFree: 50 << 30,
			DiskTotal: 100 << 30})
	}
	for _, g := range x.top.Groups() {
		voters, learners := placement.Members(&x.top, g)
		x.status.Groups = append(x.status.Groups, report.GroupStatus{ID: g, Name: g.String(), Leader: 1, Voters: voters, Learners: learners})
	}
	return x
}

// TestDecide: a node that is silent for long is replaced where that is safe, and otherwise it is
// said why it is not (AWAY-1, AWAY-2).
func TestDecide(t *testing.T) {
	for name, c := range map[string]struct {
		x    *situation
		tune func(*situation)
		want base.NodeID
		why  string
	}{
		"one of two":        {x: at([]int{2, 2, 2}, 3), want: 3},
		"one of three":      {x: at([]int{3, 3, 3}, 5), want: 5},
		"nobody":            {x: at([]int{2, 2, 2})},
		"the only one":      {x: at([]int{1, 2, 2}, 1), why: "last of region"},
		"the whole region":  {x: at([]int{2, 2, 2, 2}, 3, 4), why: "no other node of region region-2 is alive"},
		"half of all":       {x: at([]int{2, 2, 2}, 1, 3, 5), why: "more than a third"},
		"no spare node":     {x: at([]int{3}, 2), why: "no other node of its region is free"},
		"one of four alone": {x: at([]int{4}, 2), want: 2},
		"a node that answers": {x: at([]int{2, 2, 2}, 3), tune: func(x *situation) { x.status.Nodes[2].Live = true },
			why: "it answers"},
		"a second one of four": {x: at([]int{4, 4, 4}, 1, 2), tune: func(x *situation) {
			x.top.Nodes[0].Away = true
			x.top = placement.Place(x.top)
		}, why: "more than a third of the nodes of region"},
		"a group without a leader": {x: at([]int{2, 2, 2}, 3), tune: func(x *situation) {
			for i := range x.status.Groups {
				x.status.Groups[i].Leader = 0
			}
		}, why: "have no leader now"},
		"replicas on the move": {x: at([]int{2, 2, 2}, 3), tune: func(x *situation) { x.status.Groups[3].Voters = []base.NodeID{1, 2, 3} },
			why: "still on the move"},
		"full disks": {x: at([]int{2, 2, 2}, 3), tune: func(x *situation) { x.status.Nodes[3].DiskFree = 15 << 30 },
			why: "have 7680 MiB to spare"},
		"a region that leaves": {x: at([]int{2, 2, 2}, 3), tune: func(x *situation) {
			x.top.Regions[1].State, x.top.Regions[1].Into = base.RegionLeaving, 1
		}, why: "being dropped"},
		"older builds": {x: at([]int{2, 2, 2}, 3), tune: func(x *situation) { x.top.ClusterVersion = base.VersionFirst },
			why: "needs cluster version 7"},
		"gone":         {x: at([]int{2, 2, 2}, 3), tune: func(x *situation) { x.top.Nodes[2].Gone = true }},
		"away already": {x: at([]int{2, 2, 2}, 3), tune: func(x *situation) { x.top.Nodes[2].Away = true }},
	} {
		t.Run(name, func(t *testing.T) {
			if c.tune != nil {
				c.tune(c.x)
			}
			got, waits := Decide(&c.x.top, &c.x.status, func(n base.NodeID) bool { return c.x.silent[n] })
			if got != c.want {
				t.Errorf("node %d is replaced, want %d", got, c.want)
			}
			said := ""
			for _, why := range waits {
				said += why + "\n"
			}
			if !strings.Contains(said, c.why) || c.why == "" && said != "" {
				t.Errorf("it says %q, want %q", said, c.why)
			}
		})
	}
}

func TestParams(t *testing.T) {
	for _, bad := range []string{`{"mode":"auto","after":"4s"}`, `{"mode":"on","after":"5m"}`, `{"mode":"auto","after":"soon"}`,
		`{"mode":"auto","after":"5m","copy_mb_per_s":1}`} {
		if _, err := Read([]byte(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if p := Defaults(); p.Validate() != nil {
		t.Error("the defaults are refused")
	}
}
