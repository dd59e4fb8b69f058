package cluster

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
)

// A region goes through its states one by one, and what has happened once does not happen again.
func TestRegionSteps(t *testing.T) {
	top := addressed(topo(2, 1, 1, 1))
	next, err := edited(top, func(e *base.Topology) error {
		return addNode(e, join.Joiner{UUID: "new", Region: "mars", Addr: "h9:1", Knows: base.VersionNewest}, only())
	})
	if err != nil {
		t.Fatal(err)
	}
	mars := *next.Region(4)
	if mars.Name != "mars" || mars.State != base.RegionOpening || len(next.Regions) != 3 || next.MayLive(4) ||
		next.HomeByName("mars") != 0 || next.HomeFor(4) != 1 {
		t.Errorf("opening: %+v", next)
	}
	if first := next.FirstReplicas(base.DataGroup(2, 4)); !slices.Equal(first, next.Replicas[1]) || len(first) != 4 {
		t.Errorf("the group of the new region begins with %v, the shard has %v", first, next.Replicas[1])
	}
	if slices.Contains(next.Groups(), base.DataGroup(1, 4)) || !slices.Contains(next.AllGroups(), base.DataGroup(1, 4)) {
		t.Errorf("groups %v, all %v", next.Groups(), next.AllGroups())
	}
	states := []base.RegionState{base.RegionJoining, base.RegionActive}
	for _, want := range states {
		all := onTheirWay(next)
		if len(all) != 1 || all[0].ID != 4 {
			t.Fatalf("before %q: on their way are %+v", want, all)
		}
		r := all[0]
		next, err = edited(next, func(e *base.Topology) error { return step(e, r) })
		if err != nil || next.Region(4).State != want || !next.MayLive(4) || len(next.Opening) != 0 ||
			(next.HomeByName("mars") == 4) != (want == base.RegionActive) {
			t.Fatalf("%q: %v, %+v", want, err, next)
		}
		if err := step(next, r); err != errStepped {
			t.Errorf("a step that was made already: %v", err)
		}
	}
	if len(next.Later) != 1 || len(next.FirstReplicas(base.DataGroup(2, 4))) != 4 {
		t.Errorf("how its groups began is forgotten: %+v", next.Later)
	}
	if all := onTheirWay(next); len(all) > 0 {
		t.Errorf("an active region steps on: %+v", all)
	}
	near := func(a, b base.RegionID) time.Duration { return time.Duration(10+int(b)) * time.Millisecond }
	next, err = edited(next, func(e *base.Topology) error { return leave(e, "region-1", "", near) })
	if err != nil || next.HomeFor(1) != 2 || next.MayLive(1) || next.Home(base.DataGroup(1, 1)) != 2 {
		t.Fatalf("leaving: %v, %+v", err, next)
	}
	r := onTheirWay(next)[0]
	next, err = edited(next, func(e *base.Topology) error { return step(e, r) })
	if err != nil || next.Region(1).State != base.RegionGone || !next.Node(1).Gone || next.RegionByName("region-1") != 0 ||
		slices.Contains(next.Replicas[0], 1) || slices.Contains(next.MetaVoters, 1) || len(next.Groups()) != 1+2*4 {
		t.Errorf("gone: %v, %+v", err, next)
	}
}

// A region that waits, because it leaves or opens, holds up no other one.
func TestRegionsStepSideBySide(t *testing.T) {
	top := topo(1, 1, 1, 1, 1)
	top.Regions[0].State, top.Regions[0].Into = base.RegionLeaving, 2
	top.Regions[2].State = base.RegionJoining
	top.Opening = []base.Region{{ID: 5, Name: "mars", State: base.RegionOpening}, {ID: 6, Name: "moon", State: base.RegionOpening}}
	var ids []base.RegionID
	for _, r := range onTheirWay(&top) {
		ids = append(ids, r.ID)
	}
	if !slices.Equal(ids, []base.RegionID{1, 3, 5, 6}) {
		t.Errorf("on their way are %v", ids)
	}
}

func TestLeaveIsRefused(t *testing.T) {
	near := func(a, b base.RegionID) time.Duration { return 0 }
	for _, c := range []struct{ name, into, want string }{
		{"mars", "", `there is no region "mars"`},
		{"region-1", "region-1", "cannot take over"},
		{"region-1", "region-3", "cannot take over"}, // it is leaving itself
		{"region-2", "", "still being added"},
		{"region-3", "", "is being dropped already"},
		{"region-4", "", "there is no region"}, // gone
		{"region-1", "", "the last that has rows"},
	} {
		top := topo(1, 1, 1, 1, 1)
		top.Regions[1].State, top.Regions[2].State, top.Regions[3].State = base.RegionJoining, base.RegionLeaving, base.RegionGone
		top.Regions[2].Into, top.Regions[3].Into = 1, 1
		if err := leave(&top, c.name, c.into, near); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	top := topo(1, 1, 1)
	top.Async = 1
	if err := leave(&top, "region-1", "", near); err == nil || !strings.Contains(err.Error(), "asynchronous") {
		t.Errorf("with asynchronous tables: %v", err)
	}
}

// A cluster has had so many regions at most, and says so.
func TestTooManyRegions(t *testing.T) {
	top := addressed(topo(1, slices.Repeat([]int{1}, base.MaxRegions)...))
	if err := addNode(top, join.Joiner{UUID: "new", Region: "mars", Addr: "h:1", Knows: base.VersionNewest}, only()); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("it has had %d", base.MaxRegions)) {
		t.Errorf("region %d: %v", base.MaxRegions+1, err)
	}
}
