// Package replace decides which nodes may be given up, and which are replaced by themselves.
package replace

import (
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/report"
)

// Removable is why a node cannot be taken out of a topology.
func Removable(t *base.Topology, id base.NodeID, live func(base.NodeID) bool) error {
	n := t.Node(id)
	switch {
	case n == nil:
		return base.Errorf(base.CodeInvalid, "there is no node %d", id)
	case n.Gone:
		return base.Errorf(base.CodeInvalid, "node %d was decommissioned already", id)
	}
	others := slices.DeleteFunc(t.NodesIn(n.Region), func(x base.NodeID) bool { return x == id })
	if len(others) == 0 {
		return base.Errorf(base.CodeInvalid, "node %d is the last of region %s; add another node there first", id,
			t.RegionName(n.Region))
	}
	if !slices.ContainsFunc(others, live) {
		return base.Errorf(base.CodeInvalid, "no other node of region %s is alive (%v): "+
			"nobody could take over the replicas of node %d; start one of them, or add another node, first",
			t.RegionName(n.Region), others, id)
	}
	return nil
}

// Movable is why the replicas of a node cannot go elsewhere now.
func Movable(t *base.Topology, id base.NodeID, groups []report.GroupStatus) error {
	hasLeader := map[base.GroupID]bool{}
	for _, g := range groups {
		hasLeader[g.ID] = g.Leader != 0
	}
	var stuck []string
	for _, g := range t.Groups() {
		if !hasLeader[g] && slices.Contains(t.ShardReplicas(g.Shard()), id) {
			stuck = append(stuck, g.String())
		}
	}
	if len(stuck) == 0 {
		return nil
	}
	return base.Errorf(base.CodeInvalid, "groups %s have no leader now, and node %d may hold the only copy of some of "+
		"their rows: "+
		"start the nodes that are down, wait until `godwit status` shows leaders, and try again", strings.Join(stuck, ", "), id)
}
