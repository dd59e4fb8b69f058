package cluster

import (
	"context"
	"slices"
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

// Admit adds a process to the cluster, or finds it there.
func (c *Cluster) Admit(ctx context.Context, j Joiner) (*Identity, error) {
	id := &Identity{ClusterID: c.o.Identity.ClusterID}
	for _, n := range c.Topology().Nodes {
		if n.UUID == j.UUID && n.Addr == j.Addr {
			id.Node, id.First = n.ID, *c.Topology()
			return id, nil
		}
	}
	t, err := c.Change(ctx, func(t *base.Topology) error { return addNode(t, j) })
	if err != nil {
		return nil, err
	}
	for _, n := range t.Nodes {
		if n.UUID == j.UUID {
			id.Node = n.ID
		}
	}
	id.First = *t
	return id, nil
}

func addNode(t *base.Topology, j Joiner) error {
	region := t.RegionByName(j.Region)
	if region == 0 {
		names := make([]string, len(t.Regions))
		for i, r := range t.Regions {
			names[i] = r.Name
		}
		return base.Errorf(base.CodeInvalid, "the cluster has no region %q; its regions are %v and are fixed by init", j.Region, names)
	}
	last := base.NodeID(0)
	for i := range t.Nodes {
		n := &t.Nodes[i]
		last = max(last, n.ID)
		switch {
		case n.UUID == j.UUID:
			if n.Gone {
				return base.Errorf(base.CodeInvalid, "node %d was decommissioned; start it with an empty store to join as a new node", n.ID)
			}
			n.Addr, n.SQL = j.Addr, j.SQL
			return nil
		case !n.Gone && n.Addr == j.Addr:
			return base.Errorf(base.CodeInvalid, "node %d already advertises %s; decommission it first if this process replaces it", n.ID, j.Addr)
		}
	}
	t.Nodes = append(t.Nodes, base.Node{ID: last + 1, Region: region, Addr: j.Addr, SQL: j.SQL, UUID: j.UUID})
	return nil
}

// Decommission takes a node out for good; its replicas go to others of its region.
func (c *Cluster) Decommission(ctx context.Context, id base.NodeID) (*base.Topology, error) {
	return c.Change(ctx, func(t *base.Topology) error {
		n := t.Node(id)
		if n == nil || n.Gone {
			return base.Errorf(base.CodeInvalid, "there is no node %d", id)
		}
		if len(liveNodes(t, n.Region)) == 1 {
			return base.Errorf(base.CodeInvalid, "node %d is the last of region %s; add another node there first", id, t.RegionName(n.Region))
		}
		n.Gone = true
		return nil
	})
}

// follow takes each new topology as soon as the meta group's log brings it.
func (c *Cluster) follow(ctx context.Context) {
	for {
		changed := c.db.MetaChanged()
		t := c.db.Begin(kv.Options{ReadOnly: true})
		rows, err := t.Get(ctx, []base.Key{TopologyKey()}, kv.LockNone)
		t.Rollback(ctx)
		if err == nil && rows[0].Value != nil {
			var next *base.Topology
			if next, err = decodeTopology(rows[0].Value); err == nil {
				err = c.SetTopology(next)
			}
		}
		retry := (<-chan time.Time)(nil)
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

// reconcile moves the groups led here towards the members that the topology wants.
func (c *Cluster) reconcile(ctx context.Context) {
	t := c.Topology()
	for _, id := range t.Groups() {
		g := c.o.Replicas.Group(id)
		if g == nil {
			continue
		}
		st := g.Status()
		voters, learners := Members(t, id)
		if !st.IsLeader || (sameNodes(st.Voters, voters) && sameNodes(st.Learners, learners)) {
			continue
		}
		if _, busy := c.moving.LoadOrStore(id, true); busy {
			continue
		}
		c.done.Go(func() {
			defer c.moving.Delete(id)
			c.o.Logger.Info("moving replicas", "group", id, "voters", voters, "learners", learners, "from", st.Voters)
			if err := g.ChangeMembers(ctx, voters, learners); err != nil && ctx.Err() == nil {
				c.o.Logger.Warn("moving replicas failed, trying again", "group", id, "err", err)
			}
		})
	}
}

func sameNodes(a, b []base.NodeID) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
