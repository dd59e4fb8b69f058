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
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/replica"
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
	// CommitLead is how far ahead of now the leaders here assign commit timestamps, at most.
	CommitLead() time.Duration
	// Complete is the timestamp up to which all shards held here are complete; 0 if that is unknown or none is held.
	Complete() base.Timestamp
	// ClosedChanged is closed when a closed timestamp has risen since the call.
	ClosedChanged() <-chan struct{}
	// MetaNewest is the commit timestamp of the newest version of a key of the meta shard here, 0 if there is none, and
	// up to when the shard is complete.
	MetaNewest(base.Key) (newest, complete base.Timestamp)
	// OnLeads takes the words of another node's leaders.
	OnLeads(leads []*wire.GroupLead)
	// Group is the consensus group of a replica held here; nil if none.
	Group(g base.GroupID) *group.Group
	// Leased reports whether this node leads a group under a valid lease.
	Leased(g base.GroupID) bool
	// Held are the groups with a replica open here.
	Held() []base.GroupID
	// Left are groups with a replica on disk that is not open: those of before a restart.
	Left() ([]base.GroupID, error)
	// Sweep removes the data of shards of which no group is left here and that are not wanted.
	Sweep(wanted func(base.ShardID) bool) error
	// ClockSteps are the clock mode in force, as the meta replica here knows it, and the newest steps that led to it.
	ClockSteps() (now *wire.ClockOrder, steps []*wire.ClockOrder)
	// OrderClock logs a step of the clock mode, at the meta group's leader; the oracle has reached raise before it counts.
	OrderClock(ctx context.Context, o *wire.ClockOrder, raise base.Timestamp) error
	// Reached is what the oracle has reached; 0 if it is not here.
	Reached() base.Timestamp
	// Loads are the requests to this node as a group's leader, by who asked, since the process began.
	Loads(g base.GroupID) map[owner.Asker]owner.Load
	// Describe adds what the leader knows of a group led here.
	Describe(g base.GroupID, s *GroupStatus)
	// HeldHere is what the replica here has of an incarnation of a group: everything up to a log index, and all that
	// commits at or below a timestamp.
	HeldHere(g base.GroupID) (index uint64, closed base.Timestamp, incarnation uint32)
	// Freeze keeps a replica from learning more of its group, or lets it learn again.
	Freeze(g base.GroupID, on bool)
	// Rewind makes what is on disk of a group part of a new incarnation, if it is not: what lies above the cut is discarded
	// and reported. source: the incarnation begins with this node's copy.
	Rewind(g base.GroupID, incarnation uint32, p *base.Promotion, source bool) error
	// HeldChanged tells that Cluster.HeldOf may answer more than before.
	HeldChanged()
}

// Options of a Cluster. All fields without a default are required.
type Options struct {
	Self      base.NodeID
	Identity  *Identity
	Transport wan.Transport
	Clock     *clock.Clock
	Replicas  Replicas
	Logger    *slog.Logger
	// Founding lets this node start fresh groups as one of their first members: only
	// in its first life, or a replica that was removed and its data cleared would begin anew by itself.
	Founding bool
	// FoundAsync calls found, which opens the first replicas of asynchronous shards, in this node's first life with such shards only.
	FoundAsync func(found func() error) error
	// Stored is the newest topology on disk; nil if none.
	Stored *base.Topology
	// SaveTopology keeps a newer topology on disk.
	SaveTopology func(*base.Topology) error
	// OnTopology tells the rest of the process of a newer topology; may be nil.
	OnTopology func(*base.Topology)
	// OnGone is told, once, when this node has been decommissioned and holds no replica any more; may be nil.
	OnGone func()
	// OnSilent is told of a node from which nothing was heard for SilentAfter; may be nil.
	OnSilent func(base.NodeID)
	// Local fills what only this process knows of itself.
	Local func(*NodeStatus)
	// Answer answers questions of other nodes that this package does not know (AskRegion); nil, nil: neither does it. May be nil.
	Answer func(name string, body []byte) ([]byte, error)
	// RowsStay reports whether no policy moves rows between regions: then groups follow their load. Nil: it may.
	RowsStay func() bool
	// Steady is the clock's source, if it notices when it is set; may be nil.
	Steady *clock.Steady
	// SourceName names the clock's source; may be nil.
	SourceName func() string
	// ModeLease is how long this node may act in a clock mode without word from the meta group's leader. Default 5 s.
	ModeLease time.Duration
	// NoFence has the node issue although its clock is found wrong: for tests of what that breaks.
	NoFence bool
	// PulseEvery is the time between pulses. Default 100 ms.
	PulseEvery time.Duration
	// WordEvery is the time between closed timestamps sent to nodes that wait for them. Default 10 ms; negative: only pulses carry them.
	WordEvery time.Duration
	// Load is the number of statements in flight at this node; may be nil.
	Load func() int
	// SilentAfter is how long no pulse may come from a node before OnSilent. Default ten pulses.
	SilentAfter time.Duration
	// ReconcileEvery is the time between looks at where replicas should be. Default 500 ms.
	ReconcileEvery time.Duration
}

// Cluster is one node's part in the cluster's own affairs.
type Cluster struct {
	o       Options
	topo    atomic.Pointer[base.Topology]
	dir     *Directory
	peers   *peers
	words   *words
	point   point
	choices choices
	held    held

	confirmed atomic.Bool // see Confirmed
	opening   turn        // one OpenReplicas at a time
	db        kv.DB       // set by Start

	clocks *clocks

	setting  turn // one SetTopology at a time; guards the next four
	closed   bool
	epochCtx context.Context
	endEpoch context.CancelFunc
	hints    map[base.NodeID]hint

	leaders     *leaders
	wordPause   atomic.Int64 // see SetWordEvery
	stop        context.CancelFunc
	done        sync.WaitGroup
	moving      sync.Map // groups whose membership is being changed
	arriving    atomic.Bool
	gone        sync.Once
	orphanAsked map[base.GroupID]time.Time // by reconcile
}

// hint is where a node says it is, while the topology has another address.
type hint struct{ addr, instead string }

// New prepares a Cluster; handlers are registered with the transport.
func New(o Options) *Cluster {
	if o.PulseEvery == 0 {
		o.PulseEvery = 100 * time.Millisecond
	}
	if o.ModeLease == 0 {
		o.ModeLease = defaultModeLease
	}
	if o.ReconcileEvery == 0 {
		o.ReconcileEvery = 500 * time.Millisecond
	}
	if o.WordEvery == 0 {
		o.WordEvery = defaultWordEvery
	}
	if o.SilentAfter == 0 {
		o.SilentAfter = 10 * o.PulseEvery
	}
	c := &Cluster{o: o, dir: NewDirectory(), peers: newPeers(o.Self, time.Now), clocks: newClocks(), words: newWords(), leaders: newLeaders(), hints: map[base.NodeID]hint{}, orphanAsked: map[base.GroupID]time.Time{},
		opening: make(turn, 1), setting: make(turn, 1)}
	c.epochCtx, c.endEpoch = context.WithCancel(context.Background())
	c.choices.tab = replica.NewTable()
	c.point.p, c.point.changed = replica.NewPoint(o.Self), make(chan struct{})
	length := min(watchFor, o.ModeLease)
	c.point.watch = replica.NewWatch(length, clock.Stretched(length))
	first := o.Identity.First
	c.topo.Store(&first)
	if o.Stored != nil && o.Stored.Version > first.Version {
		c.topo.Store(o.Stored)
	}
	c.setPeers(c.topo.Load())
	o.Transport.HandleOrdered(wire.KindPulse, c.onPulse)
	o.Transport.HandleOrdered(wire.KindClosed, c.onClosed)
	o.Transport.HandleOrdered(wire.KindConsistency, c.onConsistency)
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
	return c.Preferred(g)
}

// Preferred is the node that should lead a group now: the best of those that were heard of lately.
func (c *Cluster) Preferred(g base.GroupID) base.NodeID { return Preferred(c.Topology(), g, c.Live) }

// Replicas are the nodes that hold a replica of a group.
func (c *Cluster) Replicas(g base.GroupID) []base.NodeID {
	return c.Topology().ShardReplicas(g.Shard())
}

// Alone reports whether this node is the whole cluster.
func (c *Cluster) Alone() bool { return len(c.Topology().ShardReplicas(base.MetaShard)) == 1 }

// MetaLead is how far ahead of now the meta group closes timestamps, so that a
// closed timestamp arrives everywhere before the present reaches it: the
// closed timestamp's trip to the gateway, a commit's trip from there to an owner, two pulses and some slack, and as far as owners
// assign commit timestamps ahead of now. A cluster of one node needs none.
func (c *Cluster) MetaLead() time.Duration {
	if c.Alone() {
		return 0
	}
	return c.peers.longest() + 2*c.o.PulseEvery + 50*time.Millisecond + c.CommitLead()
}

// CommitLead is how far ahead of now an owner of the cluster assigns commit timestamps, at most.
func (c *Cluster) CommitLead() time.Duration {
	return max(c.peers.commitLead(), c.o.Replicas.CommitLead())
}

// RTT is the round trip to a node; 0 if unknown or this node.
func (c *Cluster) RTT(id base.NodeID) time.Duration {
	d, _ := c.peers.rtt(id)
	return d
}

// Between is the round trip between two nodes by the network map; negative if it is not known here.
func (c *Cluster) Between(a, b base.NodeID) time.Duration { return c.peers.between(c.o.Self, a, b) }

// QuorumRTT is the round trip from this node to the nearest majority of a group's replicas; 0 if unknown.
func (c *Cluster) QuorumRTT(g base.GroupID) time.Duration {
	var all []time.Duration
	for _, n := range c.Replicas(g) {
		if n == c.o.Self {
			all = append(all, 0)
		} else if d, ok := c.peers.rtt(n); ok {
			all = append(all, d)
		} else {
			all = append(all, time.Hour)
		}
	}
	slices.Sort(all)
	if len(all) == 0 || all[len(all)/2] == time.Hour {
		return 0
	}
	return all[len(all)/2]
}

// Live reports whether a node was heard of lately.
func (c *Cluster) Live(id base.NodeID) bool {
	return id == c.o.Self || c.peers.silence(id) < deadAfter
}

// Gone reports whether the process of a node that gave a sign of life at since has
// most likely died since then: its pulses have stopped, or another process sends them.
func (c *Cluster) Gone(id base.NodeID, since time.Time) bool {
	return id != c.o.Self && c.peers.gone(id, since, c.o.SilentAfter)
}

// OpenFirst opens what this node holds when the process starts: what it is to
// found, what the topology places here, and what is still on its disk. The
// latter may be on its way to another node, which needs it until it is there.
func (c *Cluster) OpenFirst() error {
	if err := c.rewind(c.Topology()); err != nil {
		return err
	}
	if first := &c.o.Identity.First; c.o.Founding {
		for _, g := range first.Groups() {
			if !slices.Contains(first.ShardReplicas(g.Shard()), c.o.Self) {
				continue
			}
			voters, learners := Members(first, g)
			if err := c.o.Replicas.Open(g, group.Conf{Voters: voters, Learners: learners}, true); err != nil {
				return err
			}
		}
	}
	left, err := c.o.Replicas.Left()
	if err != nil {
		return err
	}
	for _, g := range left {
		if err := c.o.Replicas.Open(g, group.Conf{}, false); err != nil {
			return err
		}
	}
	return c.OpenReplicas()
}

// OpenReplicas opens the groups that the topology places on this node.
func (c *Cluster) OpenReplicas() error {
	c.opening.Lock()
	defer c.opening.Unlock()
	t := c.Topology()
	if err := c.rewind(t); err != nil {
		return err
	}
	if t.Async > 0 && c.o.FoundAsync != nil {
		if err := c.o.FoundAsync(func() error { return c.foundAsync(t) }); err != nil {
			return err
		}
	}
	for _, g := range t.Groups() {
		if slices.Contains(t.ShardReplicas(g.Shard()), c.o.Self) {
			if err := c.o.Replicas.Open(g, group.Conf{}, false); err != nil {
				return err
			}
		}
	}
	return nil
}

// Start begins to pulse and to follow the topology.
func (c *Cluster) Start(db kv.DB) {
	ctx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	c.db = db
	c.done.Go(func() { c.every(ctx, c.o.PulseEvery, func() { c.pulse(ctx) }) })
	c.done.Go(func() { c.every(ctx, c.o.ReconcileEvery, func() { c.reconcile(ctx); c.keepView(ctx) }) })
	c.done.Go(func() { c.every(ctx, leaderBeat, c.beat) })
	c.done.Go(func() { c.follow(ctx) })
	c.done.Go(func() { c.tellWords(ctx) })
	c.done.Go(func() { c.bootPoint(ctx) })
	c.done.Go(func() { c.keepPoint(ctx) })
}

// Close ends the background work. The store and the groups may be closed after it: a Change that
// is still under way on behalf of a caller finds its topology refused.
func (c *Cluster) Close() {
	if c.stop != nil {
		c.stop()
		c.done.Wait()
	}
	c.setting.Lock()
	defer c.setting.Unlock()
	c.closed = true
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

func (c *Cluster) pulse(ctx context.Context) {
	leads := c.tickClock(ctx)
	t := c.Topology()
	if c.o.OnSilent != nil {
		for _, n := range c.peers.silent(c.o.SilentAfter) {
			c.o.OnSilent(n)
		}
	}
	now := time.Now()
	m := &wire.Pulse{Node: uint32(c.o.Self), Topology: t.Version, Leads: c.o.Replicas.Leads(), Held: c.heldHere(t),
		CommitLeadNs: uint64(c.o.Replicas.CommitLead())}
	if c.o.Load != nil {
		m.Load = uint32(c.o.Load())
	}
	if done := c.o.Replicas.Complete(); done != 0 {
		m.AppliedLagNs = uint64(max(c.o.Clock.Latest().Sub(done), 1))
	}
	for _, l := range m.Leads {
		c.dir.Heard(c.o.Self, l, time.Now())
	}
	c.hearMeta(m.Leads, now, time.Now())
	c.refreshChoices()
	to := make([]base.NodeID, 0, len(t.Nodes))
	for _, n := range t.Nodes {
		if n.ID != c.o.Self && (!n.Gone || c.Live(n.ID)) { // one that is going still serves
			to = append(to, n.ID)
		}
	}
	c.peers.begin(to, m)
	for _, id := range to {
		m.Now, m.Clock = uint64(c.o.Clock.Latest()), c.word(id, leads)
		c.peers.probe(id, m)
		_ = c.o.Transport.Send(id, wire.KindPulse, m) // the next pulse says it again
	}
}

func (c *Cluster) onPulse(from base.NodeID, body []byte) {
	var m wire.Pulse
	if err := m.UnmarshalVT(body); err != nil || base.NodeID(m.Node) != from {
		c.o.Logger.Warn("malformed pulse dropped", "from", from, "err", err)
		return
	}
	now := time.Now()
	believed := c.onWord(from, &m, now)
	if believed {
		if err := c.o.Clock.Observe(base.Timestamp(m.Now)); err != nil && base.CodeOf(err) != base.CodeUnavailable {
			c.o.Logger.Warn("pulse from the future dropped", "from", from, "err", err)
			return
		}
	}
	c.peers.heard(&m)
	c.confirm(from, m.Topology)
	for _, l := range m.Leads {
		c.dir.Heard(from, l, now)
	}
	c.o.Replicas.OnLeads(m.Leads)
	c.onHeld(from, m.Held)
}

func (c *Cluster) setPeers(t *base.Topology) {
	for _, n := range t.Nodes {
		if n.Gone || n.ID == c.o.Self || n.Addr == "" {
			continue
		}
		addr := n.Addr
		if h, ok := c.hints[n.ID]; ok && h.instead == addr {
			addr = h.addr
		} else {
			delete(c.hints, n.ID)
		}
		c.o.Transport.SetPeer(n.ID, addr, n.Region)
	}
}

// moved takes word of a member's address before the topology has it: the
// nodes that must agree on that may be on the move themselves. own says that
// the word is the member's, not hearsay.
func (c *Cluster) moved(uuid, addr string, own bool) {
	c.setting.Lock()
	defer c.setting.Unlock()
	n := byUUID(c.Topology(), uuid)
	if n == nil || n.ID == c.o.Self || n.Gone || addr == "" || n.Addr == addr || c.hints[n.ID].addr == addr {
		return
	}
	if _, known := c.hints[n.ID]; known && !own {
		return
	}
	c.hints[n.ID] = hint{addr, n.Addr}
	c.o.Transport.SetPeer(n.ID, addr, n.Region)
}

// turn is a mutex that is held while disks write: a channel, because a disk takes virtual time in simulations.
type turn chan struct{}

func (t turn) Lock()   { t <- struct{}{} }
func (t turn) Unlock() { <-t }

// SetTopology takes a newer topology; older ones are ignored.
func (c *Cluster) SetTopology(t *base.Topology) error {
	c.setting.Lock()
	defer c.setting.Unlock()
	if t.Version <= c.Topology().Version {
		return nil
	}
	if c.closed {
		return base.Errorf(base.CodeUnavailable, "node %d is stopping; the others have topology %d", c.o.Self, t.Version)
	}
	if err := t.Validate(); err != nil {
		return err
	}
	if err := c.o.SaveTopology(t); err != nil {
		return err
	}
	c.setPeers(t)
	c.topo.Store(t)
	c.endEpoch()
	c.epochCtx, c.endEpoch = context.WithCancel(context.Background())
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

// Lost reports whether this node hears of nobody: nothing of the meta group's
// leader. It may have been decommissioned, or all others may have moved.
func (c *Cluster) Lost() bool {
	g := c.o.Replicas.Group(base.MetaGroup)
	return g == nil || g.Abandoned()
}

// Drain hands the groups led here to others, so that they need not wait for this
// node's leases to end once it has stopped. It takes as long as a few commits, and gives up when ctx ends.
func (c *Cluster) Drain(ctx context.Context) {
	for {
		led := 0
		for _, id := range c.o.Replicas.Held() {
			g := c.o.Replicas.Group(id)
			if g == nil {
				continue
			}
			if _, leads := g.Leads(); !leads {
				continue
			}
			st := g.Status()
			if st.Transfer != 0 {
				led++
				continue
			}
			if to := c.successor(st); to != 0 && g.Transfer(to) == nil {
				led++
			}
		}
		if led == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// successor is the voter to hand a lead to: one that is alive and keeps up, of this region if there is one, then the nearest.
func (c *Cluster) successor(st group.Status) (best base.NodeID) {
	t := c.Topology()
	rank := func(n base.NodeID) time.Duration {
		if t.RegionOf(n) == t.RegionOf(c.o.Self) {
			return 0
		}
		return c.RTT(n) + 1
	}
	for _, n := range st.Voters {
		if p := st.Progress[n]; n != c.o.Self && p.Active && p.State == "replicate" && c.peers.silence(n) < c.o.SilentAfter && (best == 0 || rank(n) < rank(best)) {
			best = n
		}
	}
	return best
}
