package cluster

import (
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/basetest"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/cluster/replace"
)

// topo makes topologies, only sets of nodes.
var topo, only = basetest.Topology, basetest.Only

// addressed gives the nodes of a topology addresses and uuids.
func addressed(t base.Topology) *base.Topology {
	for i := range t.Nodes {
		n := &t.Nodes[i]
		n.Addr, n.UUID = "h"+string(rune('0'+n.ID))+":1", "u"+string(rune('0'+n.ID))
	}
	return &t
}

func TestAddNode(t *testing.T) {
	for _, c := range []struct {
		name string
		j    join.Joiner
		live []base.NodeID
		want string // error
	}{
		{"new", join.Joiner{UUID: "new", Region: "region-2", Addr: "h9:1"}, nil, ""},
		{"new region", join.Joiner{UUID: "new", Region: "mars", Addr: "h9:1"}, nil, ""},
		{"dropped region", join.Joiner{UUID: "new", Region: "region-4", Addr: "h9:1"}, nil, "region region-4 was dropped"},
		{"member in a new region", join.Joiner{UUID: "u1", Region: "mars", Addr: "h1:1"}, nil, "cannot move to mars"},
		{"address of a living node", join.Joiner{UUID: "new", Region: "region-2", Addr: "h2:1"}, []base.NodeID{2},
			"node 2, which is alive, already advertises"},
		{"address of a dead node", join.Joiner{UUID: "new", Region: "region-2", Addr: "h2:1"}, nil, ""},
		{"member at a new address", join.Joiner{UUID: "u1", Region: "region-1", Addr: "h9:1"}, nil, ""},
		{"member at the address of a dead one", join.Joiner{UUID: "u1", Region: "region-1", Addr: "h2:1"}, nil, ""},
		{"member in another region", join.Joiner{UUID: "u1", Region: "region-2", Addr: "h1:1"}, nil, "cannot move to region-2"},
		{"member that is gone", join.Joiner{UUID: "u3", Region: "region-3", Addr: "h3:1"}, nil, "node 3 was decommissioned"},
	} {
		top := addressed(topo(2, 1, 1, 1, 0))
		top.Nodes[2].Gone = true
		top.Regions[3].State = base.RegionGone
		c.j.Knows = base.VersionNewest
		err := addNode(top, c.j, only(c.live...))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			continue
		}
		n := top.ByUUID(c.j.UUID)
		if err != nil || n == nil || n.Addr != c.j.Addr {
			t.Errorf("%s: %v, %+v", c.name, err, top.Nodes)
			continue
		}
		for _, o := range top.Nodes {
			if o.ID != n.ID && !o.Gone && o.Addr == c.j.Addr {
				t.Errorf("%s: node %d has the address too", c.name, o.ID)
			}
		}
	}
}

func TestRemovable(t *testing.T) {
	for _, c := range []struct {
		id   base.NodeID
		live []base.NodeID
		want string
	}{
		{1, []base.NodeID{1, 2, 3}, ""},
		{1, []base.NodeID{2, 3}, ""}, // a dead one
		{1, []base.NodeID{1, 3}, "no other node of region region-1 is alive ([2])"},
		{3, []base.NodeID{1, 2, 3}, "last of region region-2"},
		{4, []base.NodeID{1, 2, 3}, "decommissioned already"},
		{9, nil, "no node 9"},
	} {
		top := topo(2, 2, 1, 1)
		top.Nodes[3].Gone = true
		err := replace.Removable(&top, c.id, only(c.live...))
		if got := ""; err != nil {
			if got = err.Error(); c.want == "" || !strings.Contains(got, c.want) {
				t.Errorf("node %d with %v alive: %v, want %q", c.id, c.live, got, c.want)
			}
		} else if c.want != "" {
			t.Errorf("node %d with %v alive may go, want %q", c.id, c.live, c.want)
		}
	}
}
