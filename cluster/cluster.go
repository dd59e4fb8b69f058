package cluster

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/group"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// Replicas is what a Cluster needs of the owners of this node's groups.
type Replicas interface {
	// Open makes the replica of a group on this node; it is no error if it exists.
	// founding starts a fresh group from the members given.
	Open(g base.GroupID, members group.Conf, founding bool) error
	// Leads are the words of the groups led here, for pulses.
	Leads() []*wire.GroupLead
	// OnLeads takes the words of another node's leaders.
	OnLeads(leads []*wire.GroupLead)
	// Group is the consensus group of a replica held here; nil if none.
	Group(g base.GroupID) *group.Group
	// Describe adds what the leader knows of a group led here.
	Describe(g base.GroupID, s *GroupStatus)
}

// Options of a Cluster. All fields without a default are required.
type Options struct {
	Self      base.NodeID
	Identity  *Identity
	Transport wan.Transport
	Clock     *clock.Clock
	Replicas  Replicas
	Logger    *slog.Logger
	// Stored is the newest topology on disk; nil if none.
	Stored *base.Topology
	// SaveTopology keeps a newer topology on disk.
	SaveTopology func(*base.Topology) error
	// OnTopology tells the rest of the process of a newer topology; may be nil.
	OnTopology func(*base.Topology)
	// Local fills what only this process knows of itself.
	Local func(*NodeStatus)
	// PulseEvery is the time between pulses. Default 100 ms.
	PulseEvery time.Duration
	// ReconcileEvery is the time between looks at where replicas should be. Default 1 s.
	ReconcileEvery time.Duration
}

// Cluster is one node's part in the cluster's own affairs.
type Cluster struct {
	o     Options
	topo  atomic.Pointer[base.Topology]
	dir   *Directory
	peers *peers
	db    kv.DB // set by Start

	setting sync.Mutex // one SetTopology at a time
	stop    context.CancelFunc
	done    sync.WaitGroup
	moving  sync.Map // groups whose membership is being changed
}

// New prepares a Cluster; handlers are registered with the transport.
func New(o Options) *Cluster {
	if o.PulseEvery == 0 {
		o.PulseEvery = 100 * time.Millisecond
	}
	if o.ReconcileEvery == 0 {
		o.ReconcileEvery = time.Second
	}
	c := &Cluster{o: o, dir: NewDirectory(), peers: newPeers(time.Now)}
	first := o.Identity.First
	c.topo.Store(&first)
	if o.Stored != nil && o.Stored.Version > first.Version {
		c.topo.Store(o.Stored)
	}
	c.setPeers(c.topo.Load())
	o.Transport.HandleOrdered(wire.KindPulse, c.onPulse)
	o.Transport.Handle(wire.KindAsk, c.onAsk)
	return c
}

// Topology is the newest one this node knows.
func (c *Cluster) Topology() *base.Topology { return c.topo.Load() }

// Directory is who leads what.
func (c *Cluster) Directory() *Directory { return c.dir }

// Leader is the node last heard to lead a group; the preferred one if none was.
func (c *Cluster) Leader(g base.GroupID) base.NodeID {
	if g := c.o.Replicas.Group(g); g != nil {
		if n, _ := g.Leader(); n != 0 {
			return n
		}
	}
	if n := c.dir.Leader(g); n != 0 {
		return n
	}
	return Preferred(c.Topology(), g)
}

// Replicas are the nodes that hold a replica of a group.
func (c *Cluster) Replicas(g base.GroupID) []base.NodeID {
	return c.Topology().ShardReplicas(g.Shard())
}

// Alone reports whether this node is the whole cluster.
func (c *Cluster) Alone() bool { return len(c.Topology().ShardReplicas(base.MetaShard)) == 1 }

// MetaLead is how far ahead of now the meta group closes timestamps, so that a
// closed timestamp arrives everywhere before the present reaches it: the
// closed timestamp's trip to the gateway, a commit's trip from there to an owner, two pulses and some slack. A cluster of one node needs none.
func (c *Cluster) MetaLead() time.Duration {
	if c.Alone() {
		return 0
	}
	return c.peers.longest() + 2*c.o.PulseEvery + 50*time.Millisecond
}

// RTT is the smoothed round trip to a node; 0 if unknown or this node.
func (c *Cluster) RTT(id base.NodeID) time.Duration {
	d, _ := c.peers.rtt(id)
	return d
}

// Live reports whether a node was heard of lately.
func (c *Cluster) Live(id base.NodeID) bool {
	return id == c.o.Self || c.peers.silence(id) < deadAfter
}

// OpenReplicas opens the groups that the topology places on this node.
func (c *Cluster) OpenReplicas() error {
	t := c.Topology()
	for _, g := range t.Groups() {
		if !slices.Contains(t.ShardReplicas(g.Shard()), c.o.Self) {
			continue
		}
		first := &c.o.Identity.First
		founding := c.o.Identity.Founding && slices.Contains(first.ShardReplicas(g.Shard()), c.o.Self)
		voters, learners := Members(first, g)
		if err := c.o.Replicas.Open(g, group.Conf{Voters: voters, Learners: learners}, founding); err != nil {
			return err
		}
	}
	return nil
}

// Start begins to pulse and to follow the topology.
func (c *Cluster) Start(db kv.DB) {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.db = db
	c.done.Go(func() { c.every(ctx, c.o.PulseEvery, c.pulse) })
	c.done.Go(func() { c.every(ctx, c.o.ReconcileEvery, func() { c.reconcile(ctx) }) })
	c.done.Go(func() { c.follow(ctx) })
}

// Close ends the background work.
func (c *Cluster) Close() {
	if c.stop != nil {
		c.stop()
		c.done.Wait()
	}
}

func (c *Cluster) every(ctx context.Context, d time.Duration, fn func()) {
	t := time.NewTicker(d)
	defer t.Stop()
	for {
		fn()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (c *Cluster) pulse() {
	t := c.Topology()
	m := &wire.Pulse{Node: uint32(c.o.Self), Topology: t.Version, Leads: c.o.Replicas.Leads()}
	for _, l := range m.Leads {
		c.dir.Heard(c.o.Self, l, time.Now())
	}
	for _, n := range t.Nodes {
		if n.Gone || n.ID == c.o.Self {
			continue
		}
		m.Now = uint64(c.o.Clock.Latest())
		c.peers.probe(n.ID, m)
		_ = c.o.Transport.Send(n.ID, wire.KindPulse, m) // the next pulse says it again
	}
}

func (c *Cluster) onPulse(from base.NodeID, body []byte) {
	var m wire.Pulse
	if err := m.UnmarshalVT(body); err != nil || base.NodeID(m.Node) != from {
		c.o.Logger.Warn("malformed pulse dropped", "from", from, "err", err)
		return
	}
	if err := c.o.Clock.Observe(base.Timestamp(m.Now)); err != nil {
		c.o.Logger.Warn("pulse from the future dropped", "from", from, "err", err)
		return
	}
	c.peers.heard(&m)
	now := time.Now()
	for _, l := range m.Leads {
		c.dir.Heard(from, l, now)
	}
	c.o.Replicas.OnLeads(m.Leads)
}

func (c *Cluster) setPeers(t *base.Topology) {
	for _, n := range t.Nodes {
		if !n.Gone && n.ID != c.o.Self {
			c.o.Transport.SetPeer(n.ID, n.Addr, n.Region)
		}
	}
}

// SetTopology takes a newer topology; older ones are ignored.
func (c *Cluster) SetTopology(t *base.Topology) error {
	c.setting.Lock()
	defer c.setting.Unlock()
	if t.Version <= c.Topology().Version {
		return nil
	}
	if err := t.Validate(); err != nil {
		return err
	}
	if err := c.o.SaveTopology(t); err != nil {
		return err
	}
	c.setPeers(t)
	c.topo.Store(t)
	c.o.Logger.Info("new topology", "version", t.Version, "nodes", len(t.Nodes))
	if c.o.OnTopology != nil {
		c.o.OnTopology(t)
	}
	return c.OpenReplicas()
}

func encodeTopology(t *base.Topology) ([]byte, error) { return json.Marshal(t) }

func decodeTopology(b []byte) (*base.Topology, error) {
	t := new(base.Topology)
	if err := json.Unmarshal(b, t); err != nil {
		return nil, base.Errorf(base.CodeCorrupt, "the stored topology cannot be read: %v", err)
	}
	return t, nil
}
