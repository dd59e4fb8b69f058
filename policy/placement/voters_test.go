package placement

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
)

// onLine is the distance of regions that lie on a line, each 10 ms from the next.
func onLine(a, b base.RegionID) time.Duration {
	return 10 * time.Millisecond * time.Duration(max(a, b)-min(a, b))
}

// TestVoters: which regions vote for the rows of a placement, which have read replicas, and where
// the rows of others are at home.
func TestVoters(t *testing.T) {
	topo := Place(basetest.Topology(1, 2, 1, 1, 1, 1))
	name := topo.RegionName
	all := []string{name(1), name(2), name(3), name(4), name(5)}
	spec := base.PlacementSpec{Name: "p", Regions: all, Voters: 3, Readers: []string{name(5)}}
	if err := Add(&topo, spec, onLine); err != nil {
		t.Fatal(err)
	}
	if err := Add(&topo, spec, onLine); err != nil {
		t.Errorf("the statement does not go on: %v", err)
	}
	topo = Place(topo)
	if err := topo.Validate(); err != nil {
		t.Fatal(err)
	}
	sets := topo.CopySets(1)
	want := [][]base.RegionID{{1, 2, 3}, {2, 1, 3}, {3, 2, 4}, {4, 3, 5}, {5, 4, 3}}
	for i, s := range sets {
		readers := []base.RegionID{5}
		if slices.Contains(want[i], 5) {
			readers = nil
		}
		if !slices.Equal(s.Regions, want[i]) || !slices.Equal(s.Readers, readers) || s.Number() != 1 {
			t.Errorf("rows of region %d: %v vote and %v read, want %v and %v", i+1, s.Regions, s.Readers, want[i], readers)
		}
		for k := range topo.Shards {
			shard := base.ShardID(s.ID.ShardBefore(topo.Shards) + k + 1)
			for _, r := range topo.Regions {
				for _, n := range topo.NodesIn(r.ID) {
					if topo.MayHold(shard, n) != s.Holds(r.ID) || topo.MayLiveIn(shard, r.ID) != s.Has(r.ID) {
						t.Errorf("set %d, region %d", s.ID, r.ID)
					}
				}
				if home := topo.HomeIn(shard, r.ID); home != s.Placed().HomeOf(r.ID) || !s.Has(home) || s.Has(r.ID) && home != r.ID {
					t.Errorf("set %d: rows of region %d are at home in %d", s.ID, r.ID, home)
				}
			}
			for _, r := range s.Regions {
				voters, learners := Members(&topo, base.DataGroup(shard, r))
				fv, fl := FirstMembers(&topo, base.DataGroup(shard, r))
				if len(voters) != 3 || len(learners) != len(s.Readers) || !slices.Equal(fv, voters) || !slices.Equal(fl, learners) {
					t.Errorf("set %d: voters %v, learners %v; at first %v and %v", s.ID, voters, learners, fv, fl)
				}
				if n := Preferred(&topo, base.DataGroup(shard, r), func(base.NodeID) bool { return true }); topo.RegionOf(n) != r {
					t.Errorf("set %d: node %d is to lead the rows of region %d", s.ID, n, r)
				}
			}
		}
	}
	if topo.HomeIn(base.ShardID(sets[0].ID.ShardBefore(topo.Shards)+1), 5) != 3 || topo.HomeIn(base.ShardID(sets[4].ID.ShardBefore(topo.Shards)+1), 1) != 3 {
		t.Error("rows are not at home in the nearest region that votes")
	}
	if n := len(slices.DeleteFunc(topo.Groups(), func(g base.GroupID) bool { return topo.PlacementOf(g.Shard()) == nil })); n != 5*3*topo.Shards {
		t.Errorf("%d groups", n)
	}
	// Nodes in regions of the placement may send each other what they like over a third one in it.
	if !topo.MayPass(topo.NodesIn(1)[0], topo.NodesIn(2)[0], topo.NodesIn(5)[0]) {
		t.Error("a way over a region of the placement")
	}
	if v, what := topo.Survives(sets[0]); v != 3 || what != "a region" {
		t.Errorf("it survives %s with %d", what, v)
	}
	// It is in the topology as a whole, by JSON too, and opens and goes as a whole.
	var again base.Topology
	if b, err := json.Marshal(topo); err != nil || json.Unmarshal(b, &again) != nil || !reflect.DeepEqual(again.Placements, topo.Placements) {
		t.Errorf("read back it is %+v (%v)", again.Placements, err)
	}
	if _, err := Named(&topo, "p"); err == nil {
		t.Error("it can be used before it is open")
	}
	for _, s := range sets {
		s.Opening = false
	}
	if p, err := Named(&topo, "P"); err != nil || p != (base.Placed{ID: 1, Regions: base.RegionsOf(1, 2, 3, 4, 5), First: 1}) {
		t.Errorf("%+v (%v)", p, err)
	}
	if err := Drop(&topo, "p"); err != nil || topo.PlacementByName("p") != nil {
		t.Errorf("%v, %v", err, topo.PlacementByName("p"))
	}
	// The next one takes the groups of those with the same members, and makes others.
	if err := Add(&topo, base.PlacementSpec{Name: "q", Regions: all[1:], Survive: 1, Readers: []string{name(5)}}, onLine); err != nil {
		t.Fatal(err)
	}
	var ids []base.PlacementID
	for _, s := range topo.CopySets(topo.PlacementByName("q").ID) {
		ids = append(ids, s.ID)
	}
	if fmt.Sprint(ids) != "[6 3 4 5]" || topo.NumberOf(3) != 6 || topo.NumberOf(1) != 1 || topo.PlacementByName("q").ID != 6 {
		t.Errorf("q has the sets %v", ids)
	}
}

// TestVotersRefused: what CREATE PLACEMENT cannot do, it says.
func TestVotersRefused(t *testing.T) {
	for _, c := range []struct {
		regions, voters, survive int
		readers                  []base.RegionID
		why                      string
	}{
		{5, 3, 0, nil, ""}, {5, 5, 0, nil, ""}, {5, 0, 1, nil, ""}, {5, 0, 2, nil, ""}, {5, 5, 1, nil, ""}, {2, 3, base.SurviveNode, nil, ""},
		{5, 3, 1, []base.RegionID{5, 4}, ""}, {3, 3, 1, nil, ""},
		{5, 4, 0, nil, "no more than VOTERS 3"},
		{5, 7, 0, nil, "has 5 regions"},
		{5, 1, 0, nil, "3 are the fewest"},
		{5, 3, 2, nil, "that takes VOTERS 5"},
		{5, 0, 3, nil, "takes 7 that vote"},
		{2, 0, 1, nil, "takes 3 that vote"},
		{3, 0, base.SurviveNode, nil, "and region-3 has 1"},
		{2, 5, base.SurviveNode, nil, "not with VOTERS 5"},
		{5, 0, 0, []base.RegionID{5}, "all regions of placement p vote"},
		{4, 3, 0, []base.RegionID{5}, "not among the REGIONS"},
		{5, 3, 0, []base.RegionID{9}, "there is no region"},
	} {
		topo := Place(basetest.Topology(1, 3, 3, 1, 1, 1))
		s := base.PlacementSpec{Name: "p", Voters: c.voters, Survive: c.survive}
		for _, r := range topo.Regions[:c.regions] {
			s.Regions = append(s.Regions, r.Name)
		}
		for _, r := range c.readers {
			s.Readers = append(s.Readers, topo.RegionName(r))
		}
		err := Add(&topo, s, onLine)
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(strings.ReplaceAll(err.Error(), topo.RegionName(3), "region-3"), c.why) {
			t.Errorf("%+v: %v", c, err)
		}
		if topo = Place(topo); err == nil {
			if err := topo.Validate(); err != nil {
				t.Errorf("%+v: %v", c, err)
			}
		}
	}
	old := Place(basetest.Topology(1, 1, 1, 1, 1))
	old.ClusterVersion = base.VersionVoters - 1
	s := base.PlacementSpec{Name: "p", Regions: []string{old.RegionName(1), old.RegionName(2), old.RegionName(3), old.RegionName(4)}, Voters: 3}
	if err := Add(&old, s, onLine); err == nil || !strings.Contains(err.Error(), "cluster version") {
		t.Errorf("%v", err)
	}
	if s.Voters = 0; Add(&old, s, onLine) != nil {
		t.Error("a placement in which all vote needs the new version")
	}
}

// TestSurvivesNode: three copies vote in the home region alone, and what is left is said when a
// node is gone.
func TestSurvivesNode(t *testing.T) {
	topo := Place(basetest.Topology(2, 3, 3, 1))
	s := base.PlacementSpec{Name: "p", Regions: []string{topo.RegionName(1), topo.RegionName(2)}, Survive: base.SurviveNode}
	if err := Add(&topo, s, onLine); err != nil {
		t.Fatal(err)
	}
	topo = Place(topo)
	for _, p := range topo.CopySets(1) {
		for _, nodes := range p.Replicas {
			if len(nodes) != 3 || topo.RegionOf(nodes[0]) != p.Regions[0] || topo.RegionOf(nodes[2]) != p.Regions[0] {
				t.Errorf("set %d is at %v", p.ID, nodes)
			}
		}
	}
	if v, what := topo.Survives(topo.Placement(1)); v != 3 || what != "a node" {
		t.Errorf("%d vote, and it survives %s", v, what)
	}
	topo.Nodes[0].Gone = true
	topo = Place(topo)
	if v, what := topo.Survives(topo.Placement(1)); v != 1 || what != "nothing" {
		t.Errorf("%d vote, and it survives %s", v, what)
	}
}
