package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// moveTimeout bounds one attempt to change the members of a group. An attempt
// that waits for a new member that has died must make room for one towards the next topology.
const moveTimeout = 20 * time.Second

// orphanEvery is the time between two questions whether a replica that should not be here still belongs to its group.
const orphanEvery = 2 * time.Second

const askMember = "member"

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

// reconcile brings what this node holds and leads towards what the topology wants.
func (c *Cluster) reconcile(ctx context.Context) {
	if err := c.OpenReplicas(); err != nil && ctx.Err() == nil {
		c.o.Logger.Warn("replicas cannot be opened, trying again", "err", err)
	}
	t := c.Topology()
	held := c.o.Replicas.Held()
	for _, id := range held {
		if g := c.o.Replicas.Group(id); g != nil {
			c.moveMembers(ctx, t, id)
			if !slices.Contains(t.ShardReplicas(id.Shard()), c.o.Self) {
				c.askOrphan(ctx, t, id)
			}
		}
	}
	c.arrived(ctx, t)
	wanted := func(s base.ShardID) bool { return slices.Contains(t.ShardReplicas(s), c.o.Self) }
	if err := c.o.Replicas.Sweep(wanted); err != nil && ctx.Err() == nil {
		c.o.Logger.Warn("the data of a shard that has left this node cannot be removed, trying again", "err", err)
	}
	if me := t.Node(c.o.Self); me != nil && me.Gone && len(held) == 0 && c.o.OnGone != nil {
		c.gone.Do(c.o.OnGone)
	}
}

// moveMembers lets the leader of a group change its members to those of the topology.
func (c *Cluster) moveMembers(ctx context.Context, t *base.Topology, id base.GroupID) {
	g := c.o.Replicas.Group(id)
	voters, learners := Members(t, id)
	if _, leads := g.Leads(); !leads || len(voters) == 0 {
		return
	}
	st := g.Status()
	if !st.IsLeader || len(st.Outgoing) == 0 && sameNodes(st.Voters, voters) && sameNodes(st.Learners, learners) {
		return
	}
	if _, busy := c.moving.LoadOrStore(id, true); busy {
		return
	}
	c.done.Go(func() {
		defer c.moving.Delete(id)
		ctx, cancel := context.WithTimeout(ctx, moveTimeout)
		defer cancel()
		stop := context.AfterFunc(c.epoch(t.Version), cancel)
		defer stop()
		c.o.Logger.Info("moving replicas", "group", id, "voters", voters, "learners", learners, "from", st.Voters)
		err := g.ChangeMembers(ctx, voters, learners)
		switch {
		case err == nil:
			c.o.Logger.Info("replicas moved", "group", id, "voters", voters)
		case base.CodeOf(err) != base.CodeNotLeader && ctx.Err() == nil:
			c.o.Logger.Warn("moving replicas failed, trying again", "group", id, "err", err)
		}
	})
}

// epoch is a context that ends when the topology is newer than a version.
func (c *Cluster) epoch(version uint64) context.Context {
	c.setting.Lock()
	defer c.setting.Unlock()
	if c.Topology().Version > version {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		return ctx
	}
	return c.epochCtx
}

// askOrphan finds out whether the group of a replica that should not be here has
// removed it without its hearing of that, because it was down or cut off.
func (c *Cluster) askOrphan(ctx context.Context, t *base.Topology, id base.GroupID) {
	g := c.o.Replicas.Group(id)
	if _, leads := g.Leads(); leads || !g.Abandoned() || time.Since(c.orphanAsked[id]) < orphanEvery {
		return
	}
	c.orphanAsked[id] = time.Now()
	ask := slices.Clone(t.ShardReplicas(id.Shard()))
	if n := c.dir.Leader(id); n != 0 && n != c.o.Self {
		ask = append([]base.NodeID{n}, ask...)
	}
	body, err := json.Marshal(memberQuery{Group: id, Node: c.o.Self, Topology: t.Version})
	if err != nil {
		return
	}
	c.done.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		for _, n := range ask {
			var res wire.AskResponse
			var r memberReply
			if n == c.o.Self || c.o.Transport.Call(ctx, n, wire.KindAsk, &wire.AskRequest{Name: askMember, Body: body}, &res) != nil ||
				json.Unmarshal(res.Body, &r) != nil || !r.Out {
				continue
			}
			c.o.Logger.Info("this replica was removed from its group while it could not hear of it", "group", id, "says", n)
			g.Abandon()
			return
		}
	})
}

// onMember answers a memberQuery.
func (c *Cluster) onMember(q memberQuery) memberReply {
	t := c.Topology()
	g := c.o.Replicas.Group(q.Group)
	if g == nil || t.Version < q.Topology || slices.Contains(t.ShardReplicas(q.Group.Shard()), q.Node) {
		return memberReply{}
	}
	st := g.Status()
	in := func(ids []base.NodeID) bool { return slices.Contains(ids, q.Node) }
	return memberReply{Out: st.IsLeader && st.Serving && c.o.Replicas.Leased(q.Group) && !in(st.Voters) && !in(st.Outgoing) && !in(st.Learners)}
}

const askFresh = "fresh"

// freshQuery asks a node that is to become a member of a group whether it has no state of it.
type freshQuery struct {
	Group base.GroupID `json:"group"`
	// Term is the asking leader's. Leased says that it asks under a lease: whoever has a replica from before was removed.
	Term   uint64 `json:"term"`
	Leased bool   `json:"leased"`
}

type freshReply struct {
	Fresh bool `json:"fresh"`
}

// freshPause is the time between two questions.
const freshPause = 200 * time.Millisecond

// Fresh asks a node that is to become a member of a group led here whether it has no state of the group. If
// it was a member before and could not hear of its removal, the question tells it.
func (c *Cluster) Fresh(ctx context.Context, id base.GroupID, n base.NodeID) bool {
	g := c.o.Replicas.Group(id)
	if g == nil {
		return false
	}
	term, _ := g.Leads()
	var res wire.AskResponse
	var r freshReply
	body, err := json.Marshal(freshQuery{Group: id, Term: term, Leased: c.o.Replicas.Leased(id)})
	if err == nil {
		once, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		err = c.o.Transport.Call(once, n, wire.KindAsk, &wire.AskRequest{Name: askFresh, Body: body}, &res)
	}
	if err == nil && json.Unmarshal(res.Body, &r) == nil && r.Fresh {
		return true
	}
	select {
	case <-ctx.Done():
	case <-time.After(freshPause):
	}
	return false
}

// onFresh answers a freshQuery.
func (c *Cluster) onFresh(q freshQuery) freshReply {
	g := c.o.Replicas.Group(q.Group)
	if g == nil {
		return freshReply{}
	}
	if g.Fresh() {
		return freshReply{Fresh: true}
	}
	if st := g.Status(); q.Leased && st.Term <= q.Term && g.Abandoned() {
		c.o.Logger.Info("this replica was removed from its group while it could not hear of it, and is to join anew", "group", q.Group)
		g.Abandon()
	}
	return freshReply{}
}

func sameNodes(a, b []base.NodeID) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
