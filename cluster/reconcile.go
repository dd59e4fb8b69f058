package cluster

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/placed"
	"github.com/godwitdb/godwit/cluster/report"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/policy/placement"
)

// A node brings what it holds and leads to where the topology wants it, from top to bottom: it
// opens the replicas it should have; as a leader it changes the members of its groups, and asks a
// new member first whether it has no state from before; a replica that should not be here finds out
// whether its group has removed it; and the data of shards that have left is cleared.

const (
	// moveTimeout bounds one attempt to change the members of a group. An attempt
	// that waits for a new member that has died must make room for one towards the next topology.
	moveTimeout = 20 * time.Second
	// orphanEvery is the time between two questions whether a replica that should not be here still
	// belongs to its group.
	orphanEvery = 2 * time.Second
	// freshPause is the time between two questions whether a node is fit to become a member.
	freshPause = 200 * time.Millisecond
)

// reconciliation is this node's part in placing replicas.
type reconciliation struct {
	*env
	placement  Placement
	promotions *promotions
	disk       Disk
	gone       func() // may be nil; called once

	opening base.Turn                  // one OpenReplicas at a time
	moving  sync.Map                   // groups whose membership is being changed
	left    sync.Once                  // gone was called
	asked   map[base.GroupID]time.Time // when the groups of orphans were asked; of reconcile alone
}

func newReconciliation(e *env, p *promotions, r Placement, d Disk, gone func()) *reconciliation {
	return &reconciliation{env: e, placement: r, promotions: p, disk: d, gone: gone, opening: make(base.Turn, 1),
		asked: map[base.GroupID]time.Time{}}
}

// # Opening

// OpenFirst opens what this node holds when the process starts: what it is to
// found, what the topology places here, and what is still on its disk. The
// latter may be on its way to another node, which needs it until it is there.
func (c *reconciliation) OpenFirst() error {
	if err := c.promotions.rewind(c.Topology()); err != nil {
		return err
	}
	if first := &c.identity.First; c.disk.Founding {
		for _, g := range first.Groups() {
			if !slices.Contains(first.ShardReplicas(g.Shard()), c.self) {
				continue
			}
			voters, learners := placement.Members(first, g)
			if err := c.placement.Open(g, group.Conf{Voters: voters, Learners: learners}, true); err != nil {
				return err
			}
		}
	}
	left, err := c.placement.Left()
	if err != nil {
		return err
	}
	for _, g := range left {
		if err := c.placement.Open(g, group.Conf{}, false); err != nil {
			return err
		}
	}
	return c.OpenReplicas()
}

// OpenReplicas opens the groups that the topology places on this node.
func (c *reconciliation) OpenReplicas() error {
	c.opening.Lock()
	defer c.opening.Unlock()
	t := c.Topology()
	if err := c.promotions.rewind(t); err != nil {
		return err
	}
	if err := c.foundLater(t); err != nil {
		return err
	}
	for _, g := range t.AllGroups() {
		if slices.Contains(t.ShardReplicas(g.Shard()), c.self) {
			if err := c.placement.Open(g, group.Conf{}, false); err != nil {
				return err
			}
		}
	}
	c.placement.Recount()
	c.acts(t.Version)
	return nil
}

// foundLater opens the groups that began after the cluster of which this node is one of the first
// members.
func (c *reconciliation) foundLater(t *base.Topology) error {
	if c.disk.Found == nil {
		return nil
	}
	for _, b := range placed.Beginnings(t, c.self) {
		if err := c.disk.Found(b.Record, func() error {
			for _, g := range b.Groups {
				if err := c.foundIf(t, g); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// foundIf opens a group that began after the cluster if this node is one of its first members.
func (c *reconciliation) foundIf(t *base.Topology, g base.GroupID) error {
	voters, learners := placement.FirstMembers(t, g)
	if !slices.Contains(voters, c.self) && !slices.Contains(learners, c.self) {
		return nil
	}
	return c.placement.Open(g, group.Conf{Voters: voters, Learners: learners}, true)
}

// # Changing members

// reconcile brings what this node holds and leads towards what the topology wants.
func (c *reconciliation) reconcile(ctx context.Context) {
	if err := c.OpenReplicas(); err != nil && ctx.Err() == nil {
		c.log.Warn("replicas cannot be opened, trying again", "err", err)
	}
	t := c.Topology()
	held := c.groups.Held()
	for _, id := range held {
		if g := c.groups.Group(id); g != nil {
			c.moveMembers(ctx, t, id)
			if !slices.Contains(t.ShardReplicas(id.Shard()), c.self) {
				c.askOrphan(ctx, t, id)
			}
		}
	}
	c.promotions.arrived(ctx, t)
	wanted := func(s base.ShardID) bool { return slices.Contains(t.ShardReplicas(s), c.self) }
	if err := c.placement.Sweep(wanted); err != nil && ctx.Err() == nil {
		c.log.Warn("the data of a shard that has left this node cannot be removed, trying again", "err", err)
	}
	if me := t.Node(c.self); me != nil && me.Gone && len(held) == 0 && c.gone != nil {
		c.left.Do(c.gone)
	}
}

// moveMembers lets the leader of a group change its members to those of the topology.
func (c *reconciliation) moveMembers(ctx context.Context, t *base.Topology, id base.GroupID) {
	g := c.groups.Group(id)
	voters, learners := placement.Members(t, id)
	if _, leads := g.Leads(); !leads || len(voters) == 0 {
		return
	}
	st := g.Status()
	if !st.IsLeader || len(st.Outgoing) == 0 && report.Same(st.Voters, voters) && report.Same(st.Learners, learners) {
		return
	}
	if _, busy := c.moving.LoadOrStore(id, true); busy {
		return
	}
	c.work.done.Go(func() {
		defer c.moving.Delete(id)
		ctx, cancel := context.WithTimeout(ctx, moveTimeout)
		defer cancel()
		stop := context.AfterFunc(c.epoch(t.Version), cancel)
		defer stop()
		c.log.Info("moving replicas", "group", id, "voters", voters, "learners", learners, "from", st.Voters)
		err := g.ChangeMembers(ctx, voters, learners)
		switch {
		case err == nil:
			c.log.Info("replicas moved", "group", id, "voters", voters)
		case base.CodeOf(err) != base.CodeNotLeader && ctx.Err() == nil:
			c.log.Warn("moving replicas failed, trying again", "group", id, "err", err)
		}
	})
}

// freshQuery asks a node that is to become a member of a group whether it has no state of it.
type freshQuery struct {
	Group base.GroupID `json:"group"`
	// Term is the asking leader's. Leased says that it asks under a lease: a replica from before
	// was removed then.
	Term   uint64 `json:"term"`
	Leased bool   `json:"leased"`
}

type freshReply struct {
	Fresh bool `json:"fresh"`
}

// Fresh asks a node that is to become a member of a group led here whether it has no state of the
// group. If it was a member before and could not hear of its removal, the question tells it.
func (c *reconciliation) Fresh(ctx context.Context, id base.GroupID, n base.NodeID) bool {
	g := c.groups.Group(id)
	if g == nil {
		return false
	}
	term, _ := g.Leads()
	r, err := question[freshReply](ctx, c.env, n, askFresh, freshQuery{Group: id, Term: term, Leased: c.groups.Leased(id)})
	if err == nil && r.Fresh {
		return true
	}
	select {
	case <-ctx.Done():
	case <-time.After(freshPause):
	}
	return false
}

// onFresh answers a freshQuery.
func (c *reconciliation) onFresh(q freshQuery) freshReply {
	g := c.groups.Group(q.Group)
	if g == nil {
		return freshReply{}
	}
	if g.Fresh() {
		return freshReply{Fresh: true}
	}
	if st := g.Status(); q.Leased && st.Term <= q.Term && g.Abandoned() {
		c.log.Info("this replica was removed from its group while it could not hear of it, and is to join anew", "group", q.Group)
		g.Abandon()
	}
	return freshReply{}
}

// # Leaving

// memberQuery asks the leader of a group whether a node belongs to it.
type memberQuery struct {
	Group    base.GroupID `json:"group"`
	Node     base.NodeID  `json:"node"`
	Topology uint64       `json:"topology"` // version by which the node does not
}

type memberReply struct {
	// Out is set only by a leader that knows a topology at least as new.
	Out bool `json:"out"`
}

// askOrphan finds out whether the group of a replica that should not be here has
// removed it without its hearing of that, because it was down or cut off.
func (c *reconciliation) askOrphan(ctx context.Context, t *base.Topology, id base.GroupID) {
	g := c.groups.Group(id)
	if _, leads := g.Leads(); leads || !g.Abandoned() || time.Since(c.asked[id]) < orphanEvery {
		return
	}
	c.asked[id] = time.Now()
	ask := slices.Clone(t.ShardReplicas(id.Shard()))
	if n := c.dir.Leader(id); n != 0 {
		ask = append([]base.NodeID{n}, ask...)
	}
	q := memberQuery{Group: id, Node: c.self, Topology: t.Version}
	c.work.done.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		for _, n := range ask {
			if n == c.self {
				continue
			}
			if r, err := question[memberReply](ctx, c.env, n, askMember, q); err == nil && r.Out {
				c.log.Info("this replica was removed from its group while it could not hear of it", "group", id, "says", n)
				g.Abandon()
				return
			}
		}
	})
}

// onMember answers a memberQuery.
func (c *reconciliation) onMember(q memberQuery) memberReply {
	t := c.Topology()
	g := c.groups.Group(q.Group)
	if g == nil || t.Version < q.Topology || slices.Contains(t.ShardReplicas(q.Group.Shard()), q.Node) {
		return memberReply{}
	}
	st := g.Status()
	in := func(ids []base.NodeID) bool { return slices.Contains(ids, q.Node) }
	return memberReply{Out: st.IsLeader && st.Serving && c.groups.Leased(q.Group) && !in(st.Voters) &&
		!in(st.Outgoing) && !in(st.Learners)}
}
