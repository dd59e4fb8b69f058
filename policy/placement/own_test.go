package placement

import (
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
)

// own adds sets to a topology as a change of it does.
func own(t *testing.T, topo *base.Topology, id base.PlacementID, shards int, used ...int) int {
	t.Helper()
	got, err := AddOwn(topo, []base.PlacementID{id, id}, shards, func(b int) bool { return slices.Contains(used, b) })
	if err != nil {
		t.Fatal(err)
	}
	*topo = Place(*topo)
	if err := topo.Validate(); err != nil {
		t.Fatal(err)
	}
	return got[id]
}

// TestOwnShards: sets are numbered one behind the other, spread evenly however small they are, in
// their placement, and used again.
func TestOwnShards(t *testing.T) {
	topo := Place(basetest.Topology(2, 3, 2, 1))
	topo.ClusterVersion = base.VersionOwnShards
	if err := Add(&topo, base.PlacementSpec{Name: "p", Regions: []string{topo.RegionName(1), topo.RegionName(2)}}, onLine); err != nil {
		t.Fatal(err)
	}
	topo = Place(topo)
	var before []int
	for range 6 {
		before = append(before, own(t, &topo, 0, 1, before...))
	}
	inside := own(t, &topo, 1, 4)
	if !slices.IsSorted(before) || before[1] != before[0]+1 || inside != before[5]+1 || topo.NextOwn() != inside+4 {
		t.Errorf("the sets begin behind %v and %d", before, inside)
	}
	load := map[base.NodeID]int{}
	for _, b := range before {
		s := base.ShardID(b + 1)
		for _, n := range topo.ShardReplicas(s) {
			load[n]++
		}
		if topo.OwnOf(s) == nil || topo.OwnOf(s).Before != b || topo.PlacementOf(s) != nil || len(topo.ShardReplicas(s)) != 3 {
			t.Errorf("shard %d: %+v", s, topo.OwnOf(s))
		}
	}
	for _, n := range topo.Nodes {
		if want := 6 / len(topo.NodesIn(n.Region)); load[n.ID] != want {
			t.Errorf("node %d has %d of six shards, want %d: %v", n.ID, load[n.ID], want, load)
		}
	}
	for n := range 4 {
		s := base.ShardID(inside + n + 1)
		if p := topo.PlacementOf(s); p == nil || p.ID != 1 || topo.MayHold(s, topo.NodesIn(3)[0]) || topo.MayLiveIn(s, 3) {
			t.Errorf("shard %d is not in its placement", s)
		}
	}
	for _, g := range topo.Groups() {
		o := topo.OwnOf(g.Shard())
		if o == nil {
			continue
		}
		voters, learners := Members(&topo, g)
		first, _ := FirstMembers(&topo, g)
		if !slices.Equal(voters, topo.ShardReplicas(g.Shard())) || !slices.Equal(first, voters) || len(learners) > 0 ||
			o.Placement == 1 && g.Region() == 3 {
			t.Errorf("group %v begins with %v and has %v", g, first, voters)
		}
	}
	if n := len(topo.DataShards()); n != 2+2+6+4 {
		t.Errorf("there are %d shards", n)
	}
	if again := own(t, &topo, 0, 1, before[:3]...); again != before[3] {
		t.Errorf("of free sets the one behind %d is used, and not that behind %d", again, before[3])
	}
	for what, c := range map[string]func(*base.Topology) int{
		"needs cluster version": func(x *base.Topology) int { x.ClusterVersion = base.VersionVoters; return 1 },
		"1 to 1024 shards":      func(*base.Topology) int { return 1025 },
		"is being added": func(x *base.Topology) int {
			x.Opening = []base.Region{{ID: 4, Name: "r4", State: base.RegionOpening}}
			return 3
		},
		"order transactions": func(x *base.Topology) int { x.Concurrency = base.ByTimestamp; return 1 },
		"shards are left": func(x *base.Topology) int {
			x.Own = slices.Clone(x.Own)
			x.Own[len(x.Own)-1].Shards = 32000
			return 1024
		},
	} {
		x := topo
		n := c(&x)
		if _, err := AddOwn(&x, []base.PlacementID{0}, n, func(int) bool { return true }); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestOwnShardsAndRegions: the groups of a region that comes begin with the replicas of the sets
// that there are by then, the groups of others with those of before.
func TestOwnShardsAndRegions(t *testing.T) {
	topo := Place(basetest.Topology(2, 2, 2))
	topo.ClusterVersion = base.VersionOwnShards
	b := own(t, &topo, 0, 2)
	was := topo.ShardReplicas(base.ShardID(b + 1))
	topo.Opening = []base.Region{{ID: 3, Name: "late", State: base.RegionOpening}}
	topo.Nodes = append(topo.Nodes, base.Node{ID: 9, Region: 3})
	topo = Place(topo)
	s := base.ShardID(b + 1)
	if first := topo.FirstReplicas(base.DataGroup(s, 1)); !slices.Equal(first, was) || topo.OwnOf(s).BeganWith(3) {
		t.Errorf("an old group began with %v, and not %v", first, was)
	}
	if first := topo.FirstReplicas(base.DataGroup(s, 3)); !slices.Contains(first, 9) || !slices.Equal(first, topo.ShardReplicas(s)) {
		t.Errorf("the group of the region that comes begins with %v", first)
	}
	x := Place(topo)
	if len(x.OwnOf(s).Later) != 1 {
		t.Errorf("it began %d times", len(x.OwnOf(s).Later))
	}
}
