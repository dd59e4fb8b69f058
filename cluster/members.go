package cluster

import (
	"context"
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/cluster/replace"
)

// This file is the running cluster's side of joining and leaving; package join is the side of a
// process that wants to belong to one.

// Present takes a member's message about where it is, and answers with the topology and the
// addresses known here. A member that is gone learns so from that: others may still need its
// replicas.
func (e *env) Present(j join.Joiner) join.Answer {
	t := e.Topology()
	n := t.ByUUID(j.UUID)
	if n == nil {
		return join.Answer{Error: "this node has not heard of the one that asks yet"}
	}
	if t.RegionName(n.Region) != j.Region {
		return join.Answer{Final: true, Error: cannotMove(t, n, j.Region)}
	}
	e.Moved(j.UUID, j.Addr, true)
	return join.Answer{Identity: &join.Identity{ClusterID: e.identity.ClusterID, Node: n.ID, First: *t}, Known: e.Members()}
}

func cannotMove(t *base.Topology, n *base.Node, to string) string {
	return fmt.Sprintf("node %d is in region %s and cannot move to %s; join with an empty store instead", n.ID,
		t.RegionName(n.Region), to)
}

// Admit adds a process to the cluster, or finds it there and takes its present addresses.
func (e *env) Admit(ctx context.Context, j join.Joiner) (*join.Identity, error) {
	id := &join.Identity{ClusterID: e.identity.ClusterID}
	t := e.Topology()
	if n := t.ByUUID(j.UUID); n != nil {
		e.Moved(j.UUID, j.Addr, true)
		if !n.Gone && j.At(n) && t.RegionName(n.Region) == j.Region {
			id.Node, id.First = n.ID, *t
			return id, nil
		}
	}
	t, err := e.Change(ctx, func(t *base.Topology) error { return addNode(t, j, e.Live) })
	if err != nil {
		return nil, err
	}
	if n := t.ByUUID(j.UUID); n != nil {
		id.Node = n.ID
	}
	id.First = *t
	return id, nil
}

// addNode adds a process to a topology, or takes its new addresses. live says which nodes were
// heard of lately. An address belongs to one node: a dead node loses it to the process that has it
// now.
func addNode(t *base.Topology, j join.Joiner, live func(base.NodeID) bool) error {
	if knows := j.Knows.OrFirst(); knows < t.Acts() {
		return base.TooOld("the cluster acts by", t.Acts(), knows)
	}
	region, err := joinedRegion(t, j.Region)
	if err != nil {
		return err
	}
	member := t.ByUUID(j.UUID)
	switch {
	case member == nil:
	case member.Gone:
		return base.Errorf(base.CodeInvalid, "node %d was decommissioned; start it with an empty store to join "+
			"as a new node", member.ID)
	case member.Region != region:
		return base.Errorf(base.CodeInvalid, "%s", cannotMove(t, member, j.Region))
	}
	last := base.NodeID(0)
	for i := range t.Nodes {
		n := &t.Nodes[i]
		last = max(last, n.ID)
		if n.Gone || n.Addr != j.Addr || n.UUID == j.UUID {
			continue
		}
		if live(n.ID) {
			return base.Errorf(base.CodeInvalid, "node %d, which is alive, already advertises %s; "+
				"give this process an --advertise address of its own", n.ID, j.Addr)
		}
		n.Addr = ""
	}
	if member != nil {
		member.Addr, member.SQL, member.Admin = j.Addr, j.SQL, j.Admin
		return nil
	}
	t.Nodes = append(t.Nodes, base.Node{ID: last + 1, Region: region, Addr: j.Addr, SQL: j.SQL, Admin: j.Admin, UUID: j.UUID})
	return nil
}

// joinedRegion is the region of a node that joins. A name that the cluster does not know yet is a
// new region, which begins to open (REGION-1).
func joinedRegion(t *base.Topology, name string) (base.RegionID, error) {
	last := base.RegionID(0)
	for _, list := range [][]base.Region{t.Regions, t.Opening} {
		for _, r := range list {
			last = max(last, r.ID)
			switch {
			case r.Name != name:
			case r.State == base.RegionLeaving || r.State == base.RegionGone:
				return 0, base.Errorf(base.CodeInvalid, "region %s was dropped, and no node joins it any more: start the node "+
					"in another region, or give the new region another name", name)
			default:
				return r.ID, nil
			}
		}
	}
	if last >= base.MaxRegions {
		return 0, base.Errorf(base.CodeInvalid, "the cluster has no region %q, and it cannot get another one: it has had %d, "+
			"those that are gone included, which is the most; its regions are %v", name, last, regionNames(t))
	}
	if !t.Allows(base.VersionRegions) {
		return 0, t.NotYet(fmt.Sprintf("region %q is none of %v, and to add one", name, regionNames(t)), base.VersionRegions)
	}
	t.Opening = append(t.Opening, base.Region{ID: last + 1, Name: name, State: base.RegionOpening})
	return last + 1, nil
}

func regionNames(t *base.Topology) (names []string) {
	for _, r := range t.Present() {
		names = append(names, r.Name)
	}
	return names
}

// Decommission takes a node out for good; its replicas go to others of its region.
func (c *Cluster) Decommission(ctx context.Context, id base.NodeID) (*base.Topology, error) {
	live, err := c.safeWithout(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.Change(ctx, func(t *base.Topology) error {
		if err := replace.Removable(t, id, live); err != nil {
			return err
		}
		t.Node(id).Gone = true
		return nil
	})
}

// safeWithout refuses to give up a node while groups that have replicas there cannot move: they
// have no leader that answers, so what the node holds may be the only copy. It returns which nodes
// answer.
func (c *Cluster) safeWithout(ctx context.Context, id base.NodeID) (live func(base.NodeID) bool, err error) {
	t := c.Topology()
	s := c.Status(ctx)
	live = func(id base.NodeID) bool {
		return slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool { return n.ID == id && n.Live })
	}
	if err := replace.Removable(t, id, live); err != nil {
		return nil, err
	}
	return live, replace.Movable(t, id, s.Groups)
}
