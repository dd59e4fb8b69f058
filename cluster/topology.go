package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// topologyTable is a system table of the meta shard with one row. The SQL
// catalog's system tables have smaller numbers.
var topologyTable = base.MakeTableID(90, 0)

// TopologyKey is the row that holds the newest topology, once it has changed
// since the cluster was made.
func TopologyKey() base.Key {
	return base.AppendUint64(base.IndexPrefix(base.MetaShard, topologyTable, 0, 0), 0)
}

const topologyTimeout = 20 * time.Second

// Change rewrites the topology in a transaction: fn edits a copy, then
// replicas are placed anew. It returns the topology that was written.
func (c *Cluster) Change(ctx context.Context, fn func(*base.Topology) error) (*base.Topology, error) {
	ctx, cancel := context.WithTimeout(ctx, topologyTimeout)
	defer cancel()
	var next *base.Topology
	_, err := kv.Run(ctx, c.db, kv.Options{}, func(t kv.Txn) error {
		rows, err := t.Get(ctx, []base.Key{TopologyKey()}, kv.LockExclusive)
		if err != nil {
			return err
		}
		cur := &c.o.Identity.First
		if rows[0].Value != nil {
			if cur, err = decodeTopology(rows[0].Value); err != nil {
				return err
			}
		}
		edit := *cur
		edit.Nodes = slices.Clone(cur.Nodes)
		edit.Regions = slices.Clone(cur.Regions)
		if err := fn(&edit); err != nil {
			return err
		}
		edit = Place(edit)
		if len(edit.AsyncFirst) < edit.Async {
			edit.AsyncFirst = slices.Clone(edit.Replicas[edit.Shards:])
		}
		edit.Version++
		if err := edit.Validate(); err != nil {
			return err
		}
		b, err := encodeTopology(&edit)
		if err != nil {
			return err
		}
		next = &edit
		t.Put(TopologyKey(), b, 0)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return next, c.SetTopology(next)
}

// present takes a member's word on where it is and answers with the topology and
// the addresses known here. A member that is gone learns so from that: others may still need its replicas.
func (c *Cluster) present(j Joiner) joinReply {
	t := c.Topology()
	n := byUUID(t, j.UUID)
	if n == nil {
		return joinReply{Error: "this node has not heard of the one that asks yet"}
	}
	if t.RegionName(n.Region) != j.Region {
		return joinReply{Final: true, Error: fmt.Sprintf("node %d is in region %s and cannot move to %s; join with an empty store instead", n.ID, t.RegionName(n.Region), j.Region)}
	}
	c.moved(j.UUID, j.Addr, true)
	return joinReply{Identity: &Identity{ClusterID: c.o.Identity.ClusterID, Node: n.ID, First: *t}, Known: c.members()}
}

// members are the other nodes, at the addresses they were last heard to be at.
func (c *Cluster) members() (out []Joiner) {
	c.setting.Lock()
	defer c.setting.Unlock()
	t := c.Topology()
	for _, n := range t.Nodes {
		addr := n.Addr
		if h, ok := c.hints[n.ID]; ok {
			addr = h.addr
		}
		if n.ID != c.o.Self && !n.Gone && addr != "" {
			out = append(out, Joiner{UUID: n.UUID, Region: t.RegionName(n.Region), Addr: addr, SQL: n.SQL})
		}
	}
	return out
}

// Admit adds a process to the cluster, or finds it there and takes its present addresses.
func (c *Cluster) Admit(ctx context.Context, j Joiner) (*Identity, error) {
	id := &Identity{ClusterID: c.o.Identity.ClusterID}
	t := c.Topology()
	if n := byUUID(t, j.UUID); n != nil {
		c.moved(j.UUID, j.Addr, true)
		if !n.Gone && n.Addr == j.Addr && n.SQL == j.SQL && t.RegionName(n.Region) == j.Region {
			id.Node, id.First = n.ID, *t
			return id, nil
		}
	}
	t, err := c.Change(ctx, func(t *base.Topology) error { return addNode(t, j, c.Live) })
	if err != nil {
		return nil, err
	}
	if n := byUUID(t, j.UUID); n != nil {
		id.Node = n.ID
	}
	id.First = *t
	return id, nil
}

func byUUID(t *base.Topology, uuid string) *base.Node {
	for i := range t.Nodes {
		if t.Nodes[i].UUID == uuid {
			return &t.Nodes[i]
		}
	}
	return nil
}

// addNode adds a process to a topology, or takes its new addresses. live says which nodes were heard of lately.
func addNode(t *base.Topology, j Joiner, live func(base.NodeID) bool) error {
	region := t.RegionByName(j.Region)
	if region == 0 {
		names := make([]string, len(t.Regions))
		for i, r := range t.Regions {
			names[i] = r.Name
		}
		return base.Errorf(base.CodeInvalid, "the cluster has no region %q; its regions are %v and are fixed by init", j.Region, names)
	}
	last := base.NodeID(0)
	var found *base.Node
	for i := range t.Nodes {
		n := &t.Nodes[i]
		last = max(last, n.ID)
		switch {
		case n.UUID == j.UUID:
			if n.Gone {
				return base.Errorf(base.CodeInvalid, "node %d was decommissioned; start it with an empty store to join as a new node", n.ID)
			}
			if n.Region != region {
				return base.Errorf(base.CodeInvalid, "node %d is in region %s and cannot move to %s; join with an empty store instead", n.ID, t.RegionName(n.Region), j.Region)
			}
			found = n
		case n.Gone || n.Addr != j.Addr:
		case live(n.ID):
			return base.Errorf(base.CodeInvalid, "node %d, which is alive, already advertises %s; give this process an --advertise address of its own", n.ID, j.Addr)
		default:
			n.Addr = "" // a dead node, whose address this process has now
		}
	}
	if found != nil {
		found.Addr, found.SQL = j.Addr, j.SQL
		return nil
	}
	t.Nodes = append(t.Nodes, base.Node{ID: last + 1, Region: region, Addr: j.Addr, SQL: j.SQL, UUID: j.UUID})
	return nil
}

// Decommission takes a node out for good; its replicas go to others of its region.
func (c *Cluster) Decommission(ctx context.Context, id base.NodeID) (*base.Topology, error) {
	live, err := c.safeWithout(ctx, id)
	if err != nil {
		return nil, err
	}
	return c.Change(ctx, func(t *base.Topology) error {
		if err := removable(t, id, live); err != nil {
			return err
		}
		t.Node(id).Gone = true
		return nil
	})
}

// removable is why a node cannot be taken out of a topology.
func removable(t *base.Topology, id base.NodeID, live func(base.NodeID) bool) error {
	n := t.Node(id)
	switch {
	case n == nil:
		return base.Errorf(base.CodeInvalid, "there is no node %d", id)
	case n.Gone:
		return base.Errorf(base.CodeInvalid, "node %d was decommissioned already", id)
	}
	others := slices.DeleteFunc(liveNodes(t, n.Region), func(x base.NodeID) bool { return x == id })
	if len(others) == 0 {
		return base.Errorf(base.CodeInvalid, "node %d is the last of region %s; add another node there first", id, t.RegionName(n.Region))
	}
	if !slices.ContainsFunc(others, live) {
		return base.Errorf(base.CodeInvalid, "no other node of region %s is alive (%v): nobody could take over the replicas of node %d; start one of them, or add another node, first",
			t.RegionName(n.Region), others, id)
	}
	return nil
}

// safeWithout refuses to give up a node while groups that have replicas there cannot move: they have no leader that
// answers, so what the node holds may be the only copy. It returns which nodes answer.
func (c *Cluster) safeWithout(ctx context.Context, id base.NodeID) (live func(base.NodeID) bool, err error) {
	t := c.Topology()
	s := c.Status(ctx)
	live = func(id base.NodeID) bool {
		return slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool { return n.ID == id && n.Live })
	}
	if err := removable(t, id, live); err != nil {
		return nil, err
	}
	led := map[base.GroupID]bool{}
	for _, g := range s.Groups {
		led[g.ID] = true
	}
	var stuck []string
	for _, g := range t.Groups() {
		if !led[g] && slices.Contains(t.ShardReplicas(g.Shard()), id) {
			stuck = append(stuck, g.String())
		}
	}
	if len(stuck) > 0 {
		return nil, base.Errorf(base.CodeInvalid, "groups %s have no leader now, and node %d may hold the only copy of some of their rows: "+
			"start the nodes that are down, wait until `godwit status` shows leaders, and try again", strings.Join(stuck, ", "), id)
	}
	return live, nil
}

// follow takes each new topology as soon as the meta group's log brings it.
func (c *Cluster) follow(ctx context.Context) {
	for {
		changed := c.db.MetaChanged()
		t := c.db.Begin(kv.Options{ReadOnly: true})
		once, cancel := context.WithTimeout(ctx, topologyTimeout)
		rows, err := t.Get(once, []base.Key{TopologyKey()}, kv.LockNone)
		t.Rollback(once)
		cancel()
		if err == nil && rows[0].Value != nil {
			var next *base.Topology
			if next, err = decodeTopology(rows[0].Value); err == nil {
				err = c.SetTopology(next)
			}
		}
		retry := (<-chan time.Time)(nil)
		// A change is told of when it is applied, but its timestamp may lie ahead of what a reader sees now.
		if newest, _ := c.db.MetaVersion(base.PointSpan(TopologyKey())); err == nil && rows[0].TS < newest {
			retry = time.After(50 * time.Millisecond)
		}
		if err != nil && ctx.Err() == nil {
			c.o.Logger.Warn("could not follow the topology, trying again", "err", err)
			retry = time.After(time.Second)
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		case <-retry:
		}
	}
}
