package placement

import (
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
)

// TestPlacements: where the replicas of a placement are, and what becomes of it.
func TestPlacements(t *testing.T) {
	topo := Place(basetest.Topology(4, 3, 2, 1, 2))
	name := func(r base.RegionID) string { return topo.RegionName(r) }
	add := func(p string, regions ...string) error {
		if err := Add(&topo, base.PlacementSpec{Name: p, Regions: regions}, nil); err != nil {
			return err
		}
		topo = Place(topo)
		return topo.Validate()
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error, why string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%v, want %q", err, why)
		}
	}
	must(add("one", name(1)))
	must(add("two", name(4), name(2)))
	must(add("three", name(1), name(2), name(4)))
	must(add("three", name(1), name(2), name(4))) // it is opening: the statement goes on
	refused(add("THREE", name(2)), "already")
	refused(add("four"), "needs a region")
	old := basetest.Topology(4, 3)
	old.ClusterVersion = base.VersionFirst
	refused(Add(&old, base.PlacementSpec{Name: "p", Regions: []string{old.RegionName(1)}}, nil), "CREATE PLACEMENT")
	refused(add("four", "nowhere"), "there is no region")
	for p, c := range map[string]struct{ groups, replicas int }{"one": {1, 3}, "two": {2, 3}, "three": {3, 3}} {
		pl := topo.PlacementByName(p)
		groups := 0
		for _, g := range topo.Groups() {
			if topo.PlacementOf(g.Shard()) != pl {
				continue
			}
			groups++
			voters, learners := Members(&topo, g)
			if len(voters) != c.replicas || len(learners) != 0 {
				t.Errorf("%s: %v has voters %v and learners %v", p, g, voters, learners)
			}
			first, _ := FirstMembers(&topo, g)
			for _, n := range append(first, voters...) {
				if !topo.MayHold(g.Shard(), n) {
					t.Errorf("%s: node %d has %v", p, n, g)
				}
			}
			if r := topo.RegionOf(Preferred(&topo, g, func(base.NodeID) bool { return true })); r != g.Region() {
				t.Errorf("%s: region %d is to lead %v", p, r, g)
			}
		}
		if groups != c.groups*topo.Shards {
			t.Errorf("%s has %d groups", p, groups)
		}
	}
	s := base.ShardID(topo.PlacementByName("two").ID.ShardBefore(topo.Shards) + 1)
	if topo.HomeIn(s, 1) != 4 || topo.HomeIn(s, 2) != 2 || topo.MayLiveIn(s, 1) || !topo.MayLiveIn(s, 2) || topo.HomeIn(1, 3) != 3 {
		t.Error("homes of rows in placement two")
	}
	// What nodes in regions 2 and 4 tell each other may go over none elsewhere: both are in "two".
	in2, in4, in1, in3 := topo.NodesIn(2)[0], topo.NodesIn(4)[0], topo.NodesIn(1)[0], topo.NodesIn(3)[0]
	if topo.MayPass(in2, in4, in1) || topo.MayPass(in2, in4, in3) || !topo.MayPass(in2, in4, topo.NodesIn(2)[1]) ||
		topo.MayPass(in1, in2, in3) || !topo.MayPass(in1, in2, in4) || !topo.MayPass(in1, in3, in2) {
		t.Error("paths between regions of placements")
	}
	// A node that is gone is replaced inside, and its region is not dropped.
	gone := topo.PlacementByName("two").Replicas[0][0]
	topo.Node(gone).Gone = true
	topo = Place(topo)
	must(topo.Validate())
	for _, set := range topo.PlacementByName("two").Replicas {
		for _, n := range set {
			if n == gone {
				t.Errorf("node %d is gone and still has a replica", n)
			}
		}
	}
	refused(Removable(&topo, topo.Region(2)), "in placement two")
	must(Removable(&topo, topo.Region(3)))
	// It can be used once it is open.
	_, err := Named(&topo, "two")
	refused(err, "cannot be used yet")
	topo.Placement(topo.PlacementByName("two").ID).Opening = false
	p, err := Named(&topo, "TWO")
	must(err)
	if p.First != 4 || p.Regions.Len() != 2 {
		t.Errorf("%+v", p)
	}
	// The next one of the same regions has its shards.
	must(Drop(&topo, "two"))
	refused(Drop(&topo, "two"), "there is no placement two: there are [one three]")
	refused(Removable(&topo, topo.Region(4)), "cannot be dropped")
	must(add("other", name(2), name(4)))
	must(add("again", name(4), name(2)))
	if id := topo.PlacementByName("again").ID; id != p.ID || len(topo.Placements) != 4 {
		t.Errorf("it is number %d of %d", id, len(topo.Placements))
	}
}
