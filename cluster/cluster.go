package cluster

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/replace"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// Cluster is one node's part in the cluster's own affairs. It is made of parts, one a protocol,
// each in a file of its own; a Cluster starts them and passes heartbeats on to them. What the parts
// export is what a Cluster exports.
type Cluster struct {
	*env
	*notices        // notices.go: closed timestamps between heartbeats
	*clockModes     // clockmode.go: the clock mode, and trust in this node's clock
	*consistency    // consistency.go: the region's consistency point
	*readServers    // readservers.go: nodes that can serve a snapshot
	*copies         // copies.go: how far copies in other regions are
	*promotions     // promotion.go: survivors take over from a lost region
	*leaderControl  // leaders.go: where groups are led from
	*reconciliation // reconcile.go: replicas go to where the topology wants them
	*regions        // regions.go: regions that come
	*upgrades       // upgrade.go: the version by which all nodes act
	*replace.Keeper // away.go: nodes that are silent for long
	*selfCheck      // selfcheck.go: a sick node leads nothing

	replicas Replicas
	options  *Options
	answered map[string]func([]byte) ([]byte, error) // see answers
}

// env is what all parts of a Cluster share: which node this is, what it knows of the others, and
// how it speaks with them.
type env struct {
	self      base.NodeID
	transport wan.Transport
	clock     *clock.Clock
	log       *slog.Logger
	pace      Pace
	groups    Groups
	leads     Leads
	peers     *peers     // from heartbeats
	dir       *Directory // from the announcements of leaders
	work      *work
	*membership
}

// work are the goroutines of a Cluster, which end with it.
type work struct {
	ctx  context.Context
	end  context.CancelFunc
	done sync.WaitGroup
}

// every runs fn at once and then with a pause of d, until the work ends.
func (w *work) every(d time.Duration, fn func(context.Context)) {
	w.done.Go(func() {
		t := time.NewTicker(d)
		defer t.Stop()
		for {
			fn(w.ctx)
			select {
			case <-w.ctx.Done():
				return
			case <-t.C:
			}
		}
	})
}

// New prepares a Cluster; handlers are registered with the transport.
func New(o Options) *Cluster {
	o.Pace.fill()
	if o.Knows == 0 {
		o.Knows = base.VersionNewest
	}
	setDefault(&o.Trust.ModeLease, defaultModeLease)
	e := &env{self: o.Self, transport: o.Transport, clock: o.Clock, log: o.Logger, pace: o.Pace, groups: o.Replicas,
		leads: o.Replicas,
		peers: newPeers(o.Self, time.Now), dir: NewDirectory(), work: new(work), membership: newMembership(&o)}
	e.work.ctx, e.work.end = context.WithCancel(context.Background())
	c := &Cluster{env: e, replicas: o.Replicas, options: &o}
	c.notices = newNotices(e)
	c.consistency = newConsistency(e, o.Replicas, o.Replicas, c.notices, min(watchFor, o.Trust.ModeLease))
	c.clockModes = newClockModes(e, o.Replicas, c.consistency.whileAdopting, o.Trust)
	c.notices.disbelieved = c.clockModes.disbelieved
	c.readServers = newReadServers(e, o.Replicas, o.Process.Load, c.consistency.usable)
	c.copies = newCopies(e, o.Replicas)
	c.promotions = newPromotions(e, c.copies, o.Replicas)
	c.leaderControl = newLeaderControl(e, o.Replicas, o.Process.RowsStay)
	c.selfCheck = newSelfCheck(e, o.Vitals, c.Clock, c.leaderControl.leave, o.Listeners.OnLate)
	c.selfCheck.farLeads = o.Trust.FarLeads
	c.reconciliation = newReconciliation(e, c.promotions, o.Replicas, o.Disk, o.Listeners.OnGone)
	c.regions = newRegions(e, o.Replicas, o.Replicas, o.Process)
	c.upgrades = newUpgrades(e, o.Disk)
	c.Keeper = replace.New(asKept{c}, e.log)
	e.membership.opened = c.OpenReplicas
	c.answered = c.answers()
	o.Transport.HandleOrdered(wire.KindHeartbeat, c.onHeartbeat)
	o.Transport.HandleOrdered(wire.KindClosed, c.notices.onClosed)
	o.Transport.HandleOrdered(wire.KindConsistency, c.consistency.onMessage)
	o.Transport.HandleOrdered(wire.KindCopies, c.copies.onMessage)
	o.Transport.Handle(wire.KindAsk, c.onAsk)
	return c
}

// Start begins to send heartbeats and to follow the topology.
func (c *Cluster) Start(db kv.DB) {
	c.db = db
	c.work.every(c.pace.HeartbeatEvery, c.heartbeat)
	c.work.every(c.pace.ReconcileEvery, func(ctx context.Context) {
		c.reconcile(ctx)
		c.stepRegions(ctx, c.Topology())
		c.evacuate(ctx, c.Topology())
		c.upgrades.Look(ctx, c.Topology(), c.work.done.Go)
		c.Keeper.Look(ctx, c.Topology(), c.work.done.Go)
		c.keepView(ctx)
	})
	c.work.every(leaderBeat, func(context.Context) { c.leaderControl.beat() })
	c.work.done.Go(func() { c.follow(c.work.ctx) })
	c.work.done.Go(func() { c.notices.send(c.work.ctx) })
	c.work.done.Go(func() { c.consistency.boot(c.work.ctx) })
	c.work.done.Go(func() { c.consistency.keep(c.work.ctx) })
}

// Close ends the background work. The store and the groups may be closed after it: a Change that
// is still under way on behalf of a caller finds its topology refused.
func (c *Cluster) Close() {
	c.work.end()
	c.work.done.Wait()
	c.membership.close()
}

// heartbeat sends every other node what this one knows, and does what the passing of time demands.
func (c *Cluster) heartbeat(ctx context.Context) {
	leads := c.clockModes.tick(ctx)
	c.peers.awake(c.pace.HeartbeatEvery)
	if paths := c.options.Paths; paths != nil {
		c.peers.detours(paths.Cut(), paths.Parted())
	}
	for id, is := range c.peers.lost(c.pace.LostAfter) {
		c.transport.SetLost(id, is)
		if back := c.options.Listeners.OnBack; c.peers.returned(id, is) && back != nil {
			back(id)
		}
	}
	if report := c.options.Listeners.OnSilent; report != nil {
		for _, n := range c.peers.silent(c.pace.SilentAfter, c.options.Paths) {
			report(n)
		}
	}
	now := time.Now()
	t := c.Topology()
	m := c.makeHeartbeat(t)
	m.Health = c.selfCheck.tick()
	for _, l := range m.Leads {
		c.dir.Heard(c.self, l, now)
	}
	c.hearMeta(m.Leads, now, time.Now())
	c.readServers.refresh()
	var to []base.NodeID
	for _, n := range t.Nodes {
		if n.ID != c.self && (!n.Gone || c.Live(n.ID)) { // one that is going still serves
			to = append(to, n.ID)
		}
	}
	c.peers.begin(to, m)
	for _, id := range to {
		m.Now, m.Clock = uint64(c.clock.Latest()), c.clockModes.report(id, leads)
		c.peers.probe(id, m)
		_ = c.transport.Send(id, wire.KindHeartbeat, m) // the next heartbeat says it again
	}
}

// makeHeartbeat is what a heartbeat carries to all nodes alike.
func (c *Cluster) makeHeartbeat(t *base.Topology) *wire.Heartbeat {
	m := &wire.Heartbeat{Node: uint32(c.self), Topology: t.Version, Leads: c.leads.Leads(), Held: c.copies.heldHere(t),
		CommitLeadNs: uint64(c.leads.CommitLead()), Released: c.leads.Released()}
	if c.options.Process.Load != nil {
		m.Load = uint32(c.options.Process.Load())
	}
	if done := c.replicas.Complete(); done != 0 {
		m.AppliedLagNs = uint64(max(c.clock.Latest().Sub(done), 1))
	}
	return m
}

func (c *Cluster) onHeartbeat(from base.NodeID, body []byte) {
	var m wire.Heartbeat
	if err := m.UnmarshalVT(body); err != nil || base.NodeID(m.Node) != from {
		c.log.Warn("malformed heartbeat dropped", "from", from, "err", err)
		return
	}
	c.peers.contacted(&m, c.clockModes.life)
	now := time.Now()
	believed, granted := c.clockModes.heard(from, &m, now)
	if !granted.IsZero() {
		c.hearMeta(m.Leads, granted, now)
	}
	if believed {
		if err := c.clock.Observe(base.Timestamp(m.Now)); err != nil && base.CodeOf(err) != base.CodeUnavailable {
			c.log.Warn("heartbeat from the future", "from", from, "err", err)
			believed = false
		}
	}
	again := c.peers.heard(&m, c.options.Paths != nil && c.options.Paths.Detoured(from))
	if report := c.options.Listeners.OnSilent; again && report != nil {
		report(from)
	}
	c.copies.confirm(from, m.Topology)
	c.leads.OnReleased(from, m.Released)
	for _, l := range m.Leads {
		if !believed {
			l.Closed = 0 // where it leads can be known all the same
		}
		c.dir.Heard(from, l, now)
	}
	if believed {
		c.leads.OnLeads(m.Leads)
	}
	c.copies.heard(from, m.Held)
}

// Lost reports whether this node hears nothing of the meta group's leader. It may have been
// decommissioned, or all others may have moved.
func (c *Cluster) Lost() bool {
	g := c.groups.Group(base.MetaGroup)
	return g == nil || g.Abandoned()
}
