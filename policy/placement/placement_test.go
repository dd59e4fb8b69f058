package placement

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
)

func shardsOf(t *base.Topology) map[base.NodeID]int {
	m := map[base.NodeID]int{}
	for _, set := range t.Replicas {
		for _, n := range set {
			m[n]++
		}
	}
	return m
}

func TestPlaceCountsAndBalance(t *testing.T) {
	for _, c := range []struct {
		regions  []int
		replicas int
	}{
		{[]int{1}, 1}, {[]int{2}, 1}, {[]int{3}, 3}, {[]int{5}, 3}, {[]int{1, 1}, 2}, {[]int{2, 1}, 3},
		{[]int{1, 1, 1}, 3}, {[]int{2, 2, 2}, 3}, {[]int{3, 1, 2, 1, 1}, 5},
	} {
		p := Place(basetest.Topology(8, c.regions...))
		if err := p.Validate(); err != nil {
			t.Fatalf("%v: %v", c.regions, err)
		}
		for s, set := range p.Replicas {
			if len(set) != c.replicas {
				t.Errorf("%v: shard %d has replicas %v, want %d", c.regions, s+1, set, c.replicas)
			}
		}
		load := shardsOf(&p)
		for _, r := range p.Regions {
			lo, hi := 1<<30, 0
			for _, n := range p.NodesIn(r.ID) {
				lo, hi = min(lo, load[n]), max(hi, load[n])
			}
			if hi-lo > 1 {
				t.Errorf("%v: region %d is uneven: %v", c.regions, r.ID, load)
			}
		}
	}
}

func TestPlaceMovesLittle(t *testing.T) {
	old := Place(basetest.Topology(8, 1, 1, 1))
	grown := old
	grown.Nodes = append(grown.Nodes, base.Node{ID: 9, Region: 2})
	next := Place(grown)
	moved := 0
	for s := range next.Replicas {
		for i, n := range next.Replicas[s] {
			if n != old.Replicas[s][i] {
				moved++
				if n != 9 {
					t.Errorf("shard %d moved to node %d, not to the new node", s+1, n)
				}
			}
		}
	}
	if moved != 4 {
		t.Errorf("%d replicas moved, want half of eight", moved)
	}
	if again := Place(next); fmt.Sprint(again.Replicas) != fmt.Sprint(next.Replicas) {
		t.Errorf("placement is not stable: %v then %v", next.Replicas, again.Replicas)
	}
}

func TestPlaceReplacesGone(t *testing.T) {
	old := Place(basetest.Topology(4, 2, 1, 1))
	old.Nodes[0].Gone = true
	next := Place(old)
	for s, set := range next.Replicas {
		for _, n := range set {
			if n == 1 {
				t.Errorf("shard %d is still on the node that is gone", s+1)
			}
		}
	}
	for _, n := range next.MetaVoters {
		if n == 1 {
			t.Error("the node that is gone still votes in the meta group")
		}
	}
}

func TestPreferredIsAtHome(t *testing.T) {
	p := Place(basetest.Topology(4, 1, 2, 1))
	for _, g := range p.Groups() {
		if g == base.MetaGroup {
			continue
		}
		if got := p.RegionOf(Preferred(&p, g, func(base.NodeID) bool { return true })); got != g.Region() {
			t.Errorf("%s prefers region %d", g, got)
		}
	}
}

func TestPreferredIsAlive(t *testing.T) {
	p := Place(basetest.Topology(4, 2, 1)) // both nodes of the first region hold every shard
	g, meta := base.DataGroup(1, 1), base.MetaGroup
	first := Preferred(&p, g, basetest.Only(1, 2, 3))
	other := 3 - first
	if got := Preferred(&p, g, basetest.Only(other, 3)); got != other {
		t.Errorf("with node %d dead, %v prefers node %d, want the other one at home", first, g, got)
	}
	if got := Preferred(&p, g, basetest.Only(3)); got != first {
		t.Errorf("with its home dead, %v prefers node %d, want none but %d", g, got, first)
	}
	if got := Preferred(&p, meta, basetest.Only(2, 3)); got != 2 {
		t.Errorf("the meta group prefers node %d", got)
	}
	if a, b := Preferred(&p, base.DataGroup(1, 1), basetest.Only(1, 2, 3)),
		Preferred(&p, base.DataGroup(2, 1), basetest.Only(1, 2, 3)); a == b {
		t.Errorf("leads are not spread: node %d has both shards", a)
	}
}

// TestAsynchronousShards: the voters of a group are in its region, or where it was promoted to; all
// others learn.
func TestAsynchronousShards(t *testing.T) {
	topo := base.Topology{Shards: 2, Async: 2, Regions: []base.Region{{ID: 1, Name: "a"}, {ID: 2, Name: "b"}, {ID: 3, Name: "c"}}}
	id := base.NodeID(0)
	for _, n := range []struct {
		region base.RegionID
		nodes  int
	}{{1, 4}, {2, 3}, {3, 2}} {
		for range n.nodes {
			id++
			topo.Nodes = append(topo.Nodes, base.Node{ID: id, Region: n.region})
		}
	}
	topo = Place(topo)
	topo.AsyncFirst = topo.Replicas[topo.Shards:]
	if err := topo.Validate(); err != nil {
		t.Fatal(err)
	}
	count := func(s base.ShardID, r base.RegionID) (voters, learners int) {
		vs, ls := Members(&topo, base.DataGroup(s, r))
		for _, v := range vs {
			if seat := topo.Home(base.DataGroup(s, r)); topo.RegionOf(v) != seat && topo.IsAsync(s) {
				t.Errorf("node %d votes in %v, whose seat is region %d", v, base.DataGroup(s, r), seat)
			}
		}
		return len(vs), len(ls)
	}
	check := func(want map[base.RegionID][2]int) {
		t.Helper()
		for r, w := range want {
			for s := base.ShardID(3); s <= 4; s++ {
				if v, l := count(s, r); v != w[0] || l != w[1] {
					t.Errorf("%v has %d voters and %d learners, want %v", base.DataGroup(s, r), v, l, w)
				}
			}
		}
		if v, l := count(1, 1); v != 3 || l != 0 {
			t.Errorf("a synchronous group has %d voters and %d learners", v, l)
		}
	}
	check(map[base.RegionID][2]int{1: {3, 4}, 2: {3, 4}, 3: {1, 6}})
	p := base.Promotion{ID: 1, Region: 1, Lost: 1, Seat: 3}
	for _, g := range topo.AsyncGroups(1) {
		p.Groups = append(p.Groups, base.Promoted{Group: g})
	}
	topo.Promotions = []base.Promotion{p}
	check(map[base.RegionID][2]int{1: {1, 6}, 2: {3, 4}, 3: {1, 6}})
	if g := base.DataGroup(3, 1); topo.Incarnation(g) != 1 || topo.Incarnation(base.DataGroup(3, 2)) != 0 ||
		topo.Incarnation(base.DataGroup(1, 1)) != 0 {
		t.Error("incarnations are counted wrong")
	}
	topo.Promotions[0].Back = true
	check(map[base.RegionID][2]int{1: {3, 4}})
}
