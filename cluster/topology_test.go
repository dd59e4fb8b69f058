package cluster

import (
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/base"
)

func only(ids ...base.NodeID) func(base.NodeID) bool {
	return func(n base.NodeID) bool { return slices.Contains(ids, n) }
}

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
		j    Joiner
		live []base.NodeID
		want string // error
	}{
		{"new", Joiner{UUID: "new", Region: "region-2", Addr: "h9:1"}, nil, ""},
		{"unknown region", Joiner{UUID: "new", Region: "mars", Addr: "h9:1"}, nil, `no region "mars"`},
		{"address of a living node", Joiner{UUID: "new", Region: "region-2", Addr: "h2:1"}, []base.NodeID{2}, "node 2, which is alive, already advertises"},
		{"address of a dead node", Joiner{UUID: "new", Region: "region-2", Addr: "h2:1"}, nil, ""},
		{"member at a new address", Joiner{UUID: "u1", Region: "region-1", Addr: "h9:1"}, nil, ""},
		{"member at the address of a dead one", Joiner{UUID: "u1", Region: "region-1", Addr: "h2:1"}, nil, ""},
		{"member in another region", Joiner{UUID: "u1", Region: "region-2", Addr: "h1:1"}, nil, "cannot move to region-2"},
		{"member that is gone", Joiner{UUID: "u3", Region: "region-3", Addr: "h3:1"}, nil, "node 3 was decommissioned"},
	} {
		top := addressed(topo(2, 1, 1, 1))
		top.Nodes[2].Gone = true
		err := addNode(top, c.j, only(c.live...))
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			continue
		}
		n := byUUID(top, c.j.UUID)
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
		err := removable(&top, c.id, only(c.live...))
		if got := ""; err != nil {
			if got = err.Error(); c.want == "" || !strings.Contains(got, c.want) {
				t.Errorf("node %d with %v alive: %v, want %q", c.id, c.live, got, c.want)
			}
		} else if c.want != "" {
			t.Errorf("node %d with %v alive may go, want %q", c.id, c.live, c.want)
		}
	}
}

func TestPreferredIsAlive(t *testing.T) {
	p := Place(topo(4, 2, 1)) // both nodes of the first region hold every shard
	g, meta := base.DataGroup(1, 1), base.MetaGroup
	first := Preferred(&p, g, only(1, 2, 3))
	other := 3 - first
	if got := Preferred(&p, g, only(other, 3)); got != other {
		t.Errorf("with node %d dead, %v prefers node %d, want the other one at home", first, g, got)
	}
	if got := Preferred(&p, g, only(3)); got != first {
		t.Errorf("with its home dead, %v prefers node %d, want none but %d", g, got, first)
	}
	if got := Preferred(&p, meta, only(2, 3)); got != 2 {
		t.Errorf("the meta group prefers node %d", got)
	}
	if a, b := Preferred(&p, base.DataGroup(1, 1), only(1, 2, 3)), Preferred(&p, base.DataGroup(2, 1), only(1, 2, 3)); a == b {
		t.Errorf("leads are not spread: node %d has both shards", a)
	}
}

func TestOnlyFoundersNameFounders(t *testing.T) {
	top := addressed(topo(2, 1, 1))
	ask := func(founding bool) joinReply {
		b := NewBootstrap(Joiner{UUID: "u1"}, nil, &Identity{ClusterID: "c", Node: 1, Founding: founding, First: *top}, nil, nil, nil)
		return b.answer(t.Context(), Joiner{UUID: "u2", Region: "region-2", Addr: "h2:1"})
	}
	if r := ask(true); r.Identity == nil || !r.Identity.Founding {
		t.Errorf("a founder does not know another one: %+v", r)
	}
	if r := ask(false); r.Identity != nil {
		t.Errorf("who joined later makes a founder: %+v", r)
	}
}
