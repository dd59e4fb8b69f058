package cluster

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/replica"
	"github.com/godwitdb/godwit/wire"
)

// viewTable is a system table of the meta shard: for each region, who keeps its consistency point (replica.View).
var viewTable = base.MakeTableID(91, 0)

// ViewKey is the row of a region's view.
func ViewKey(r base.RegionID) base.Key {
	return base.AppendUint64(base.IndexPrefix(base.MetaShard, viewTable, 0, 0), uint64(r))
}

// point is this node's part in the consistency point of its region.
type point struct {
	mu      sync.Mutex
	p       *replica.Point
	changed chan struct{} // closed at the next change of p
	viewed  time.Time     // when the view became what it is
	watch   *replica.Watch

	proposing sync.Mutex
	differs   int // looks in a row at which the view was not what it should be
}

const (
	viewAfter   = 2               // such looks before another view is proposed
	viewPause   = 5 * time.Second // before this node overrules a view without it
	viewTimeout = 5 * time.Second
	// watchFor is how long a node may go by a view without word from the meta group's leader, in clock mode GTM; and how long it
	// waits before it goes by a new one.
	watchFor = 2 * time.Second
)

// settled is a timestamp at or below which everything is settled: reads that begin later, anywhere, show it.
func (c *Cluster) settled() base.Timestamp { return c.o.Clock.SettledTo() }

// bootPoint takes a snapshot, which tells what was settled before this process was started.
func (c *Cluster) bootPoint(ctx context.Context) {
	for ctx.Err() == nil {
		if ts, err := c.o.Clock.Snapshot(ctx); err == nil {
			c.step(func(p *replica.Point) []replica.Out { return p.Boot(ts) })
			return
		}
		select { // no clock mode is known yet
		case <-ctx.Done():
		case <-time.After(c.o.PulseEvery):
		}
	}
}

func (c *Cluster) region() base.RegionID { return c.Topology().RegionOf(c.o.Self) }

// step changes the point and sends what it says.
func (c *Cluster) step(f func(*replica.Point) []replica.Out) {
	pt := &c.point
	pt.mu.Lock()
	known, usable, at := pt.p.Known(), pt.p.Usable(), pt.p.View().At
	out := f(pt.p)
	if v := pt.p.View().At; v != at || pt.p.Known() != known || pt.p.Usable() != usable {
		if v != at {
			pt.viewed = time.Now()
			pt.watch.View()
		}
		close(pt.changed)
		pt.changed = make(chan struct{})
	}
	pt.mu.Unlock()
	for _, o := range out {
		_ = c.o.Transport.Send(o.To, wire.KindConsistency, &wire.Consistency{Node: uint32(o.From), View: uint64(o.View), Boot: uint64(o.Boot),
			Closed: uint64(o.Closed), Known: uint64(o.Known), Usable: uint64(o.Usable)}) // it is said again
	}
}

func (c *Cluster) onConsistency(from base.NodeID, body []byte) {
	var m wire.Consistency
	if err := m.UnmarshalVT(body); err != nil || base.NodeID(m.Node) != from {
		c.o.Logger.Warn("malformed consistency point dropped", "from", from, "err", err)
		return
	}
	c.step(func(p *replica.Point) []replica.Out {
		return p.Hear(replica.Message{From: from, View: base.Timestamp(m.View), Boot: base.Timestamp(m.Boot), Closed: base.Timestamp(m.Closed),
			Known: base.Timestamp(m.Known), Usable: base.Timestamp(m.Usable)}, c.settled())
	})
}

// keepPoint keeps the consistency point: at every pulse, and while reads at it are made here, or at a node of
// the region, whenever a closed timestamp rises.
func (c *Cluster) keepPoint(ctx context.Context) {
	tick := time.NewTicker(c.o.PulseEvery)
	defer tick.Stop()
	for {
		rose := c.o.Replicas.ClosedChanged()
		meta := c.db.MetaChanged()
		c.loadView(ctx)
		if done := c.o.Replicas.Complete(); done != 0 {
			c.step(func(p *replica.Point) []replica.Out { return p.Complete(done, c.settled()) })
		}
		awake := c.awake()
		if !c.Wanted() {
			rose = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-rose:
		case <-awake:
		case <-meta:
		case <-tick.C:
			c.step((*replica.Point).Say)
		}
	}
}

// loadView takes the view over that the local replica of the meta shard shows.
func (c *Cluster) loadView(ctx context.Context) {
	key := ViewKey(c.region())
	at, complete := c.o.Replicas.MetaNewest(key)
	c.point.mu.Lock()
	have := c.point.p.View().At
	if applied, closed, _ := c.o.Replicas.HeldHere(base.MetaGroup); have != 0 && closed >= have {
		c.point.watch.Shown(applied)
	}
	c.point.mu.Unlock()
	if at == have {
		return
	}
	// As new as can be read here: the row may be older than what old versions are kept for.
	t := c.db.Begin(kv.Options{ReadOnly: true, ReadTS: max(at, complete)})
	defer t.Rollback(ctx)
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	rows, err := t.Get(ctx, []base.Key{key}, kv.LockNone)
	var v replica.View
	if err == nil && rows[0].Value != nil {
		err = json.Unmarshal(rows[0].Value, &v)
	}
	if err != nil {
		c.o.Logger.Debug("the view of the region cannot be read yet", "err", err)
		return
	}
	at = rows[0].TS
	v.At = at
	c.step(func(p *replica.Point) []replica.Out { return p.SetView(v) })
	c.o.Logger.Debug("view of the region", "at", at, "collector", v.Collector, "members", v.Members)
}

// keepView proposes another view if this node is to collect and the present one is not what it should be.
func (c *Cluster) keepView(ctx context.Context) {
	pt := &c.point
	t := c.Topology()
	var live []base.NodeID
	for _, n := range t.Nodes {
		if n.Region == c.region() && !n.Gone && c.Live(n.ID) {
			live = append(live, n.ID)
		}
	}
	want := replica.NextView(live)
	pt.mu.Lock()
	have, viewed := pt.p.View(), pt.viewed
	pt.mu.Unlock()
	if want.Collector != c.o.Self || want.Same(&have) || have.At != 0 && !have.Has(c.o.Self) && time.Since(viewed) < viewPause {
		pt.differs = 0
		return
	}
	if pt.differs++; pt.differs < viewAfter || !pt.proposing.TryLock() {
		return
	}
	c.done.Go(func() {
		defer pt.proposing.Unlock()
		ctx, cancel := context.WithTimeout(ctx, viewTimeout)
		defer cancel()
		if err := c.propose(ctx, have.At, want); err != nil {
			c.o.Logger.Debug("the view of the region stays", "err", err)
		}
	})
}

func (c *Cluster) propose(ctx context.Context, at base.Timestamp, v replica.View) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	t := c.db.Begin(kv.Options{})
	defer t.Rollback(ctx)
	key := ViewKey(c.region())
	rows, err := t.Get(ctx, []base.Key{key}, kv.LockExclusive)
	if err != nil {
		return err
	}
	if rows[0].TS != at {
		return nil // somebody else was faster: look again
	}
	t.Put(key, b, 0)
	_, err = t.Commit(ctx)
	return err
}

// certified reports whether the view of that timestamp is the region's newest one now, so that its value v may be used.
func (c *Cluster) certified(at, v base.Timestamp) bool {
	if at == 0 {
		return false
	}
	mode, epoch := c.o.Clock.Mode()
	switch mode {
	case clock.GClock: // whatever was used anywhere before now lies at or below now, and a view lies below what is used in it
		now, ok := c.o.Clock.Fresh()
		newest, complete := c.o.Replicas.MetaNewest(ViewKey(c.region()))
		return ok && newest == at && complete >= now
	case clock.GTM:
		now := time.Now()
		applied, _, _ := c.o.Replicas.HeldHere(base.MetaGroup) // before looking
		newest, complete := c.o.Replicas.MetaNewest(ViewKey(c.region()))
		c.point.mu.Lock()
		holds := c.point.watch.Alone(now) && c.point.watch.Holds(applied, now)
		c.point.mu.Unlock()
		_, after := c.o.Clock.Mode()
		return holds && newest == at && complete >= v && after == epoch
	}
	return false // between the two, neither says enough
}

// hearMeta takes the meta group's leader's word that it had applied so much, and had heard what this node said at sent.
func (c *Cluster) hearMeta(leads []*wire.GroupLead, sent, now time.Time) {
	for _, l := range leads {
		if base.GroupID(l.Group) == base.MetaGroup {
			c.point.mu.Lock()
			c.point.watch.Heard(l.Index, sent, now)
			c.point.mu.Unlock()
		}
	}
}

// ReadPoint is a timestamp of the region's consistency point, at least atLeast: wherever in the region a client
// reads next, it is not shown less. It waits for at most so long.
func (c *Cluster) ReadPoint(ctx context.Context, atLeast base.Timestamp, wait time.Duration) (base.Timestamp, bool) {
	c.Want()
	pt := &c.point
	var timer *time.Timer
	for first := true; ; first = false {
		pt.mu.Lock()
		if first {
			atLeast = max(atLeast, pt.p.Known())
		}
		usable, at, changed := pt.p.Usable(), pt.p.View().At, pt.changed
		pt.mu.Unlock()
		if usable != 0 && usable >= atLeast && c.certified(at, usable) {
			return usable, true
		}
		if timer == nil {
			timer = time.NewTimer(wait)
			defer timer.Stop()
		}
		select {
		case <-changed:
		case <-timer.C:
			return 0, false
		case <-ctx.Done():
			return 0, false
		}
	}
}

// Farthest is the longest smoothed round trip to a node heard of lately.
func (c *Cluster) Farthest() time.Duration { return c.peers.longest() }

// PointStatus is what people see of the consistency point.
type PointStatus struct {
	View          replica.View
	Known, Usable base.Timestamp
	Certified     bool
}

// Point is this node's view of its region's consistency point.
func (c *Cluster) Point() PointStatus {
	c.point.mu.Lock()
	s := PointStatus{View: c.point.p.View(), Known: c.point.p.Known(), Usable: c.point.p.Usable()}
	c.point.mu.Unlock()
	s.Certified = c.certified(s.View.At, s.Usable)
	return s
}
