package cluster

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/policy/replica"
	"github.com/godwitdb/godwit/wire"
)

// viewTable is a system table of the meta shard: for each region, which node keeps its consistency
// point, and of which nodes (replica.View).
var viewTable = base.MakeTableID(91, 0)

// ViewKey is the row of a region's view.
func ViewKey(r base.RegionID) base.Key {
	return base.AppendUint64(base.IndexPrefix(base.MetaShard, viewTable, 0, 0), uint64(r))
}

// consistency is this node's part in the consistency point of its region: a timestamp at which any
// node of the region can be read without a client seeing less than it saw before. replica.Point
// holds the rules; this part carries its messages, and the view that says which nodes take part.
type consistency struct {
	*env
	progress Progress
	held     Copies
	notices  *notices

	mu      sync.Mutex
	p       *replica.Point
	changed chan struct{} // closed at the next change of p
	viewed  time.Time     // when the view became what it is
	watch   *replica.Watch

	proposing sync.Mutex
	differs   int // looks in a row at which the view was not what it should be; of keepView alone
}

const (
	viewAfter   = 2               // such looks before another view is proposed
	viewPause   = 5 * time.Second // before this node overrules a view without it
	viewTimeout = 5 * time.Second
	// watchFor is how long a node may go by a view without hearing the meta group's leader, in
	// clock mode GTM; and how long it waits before it goes by a new one.
	watchFor = 2 * time.Second
)

func newConsistency(e *env, progress Progress, held Copies, n *notices, watch time.Duration) *consistency {
	return &consistency{env: e, progress: progress, held: held, notices: n, p: replica.NewPoint(e.self),
		changed: make(chan struct{}),
		watch:   replica.NewWatch(watch, clock.Stretched(watch))}
}

// usable is the newest timestamp of the point that this node may go by, if the view is certified.
func (c *consistency) usable() base.Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.p.Usable()
}

// whileAdopting runs adopt, which may change the clock mode, so that a reader which sees the new
// mode and then looks at the watch does not see what was heard before the change.
func (c *consistency) whileAdopting(adopt func() bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !adopt() {
		return false
	}
	c.watch.Mode(time.Now())
	return true
}

// settled is a timestamp at or below which everything is settled: reads that begin later, anywhere,
// show it.
func (c *consistency) settled() base.Timestamp { return c.clock.SettledTo() }

// boot takes a snapshot, which tells what was settled before this process was started.
func (c *consistency) boot(ctx context.Context) {
	for ctx.Err() == nil {
		if ts, err := c.clock.Snapshot(ctx); err == nil {
			c.step(func(p *replica.Point) []replica.Out { return p.Boot(ts) })
			return
		}
		select { // no clock mode is known yet
		case <-ctx.Done():
		case <-time.After(c.pace.HeartbeatEvery):
		}
	}
}

// step changes the point and sends what it says. What is lost is said again.
func (c *consistency) step(f func(*replica.Point) []replica.Out) {
	c.mu.Lock()
	known, usable, at := c.p.Known(), c.p.Usable(), c.p.View().At
	out := f(c.p)
	if v := c.p.View().At; v != at || c.p.Known() != known || c.p.Usable() != usable {
		if v != at {
			c.viewed = time.Now()
			c.watch.View()
		}
		close(c.changed)
		c.changed = make(chan struct{})
	}
	c.mu.Unlock()
	for _, o := range out {
		_ = c.transport.Send(o.To, wire.KindConsistency,
			&wire.Consistency{Node: uint32(o.From), View: uint64(o.View), Boot: uint64(o.Boot),
				Closed: uint64(o.Closed), Known: uint64(o.Known), Usable: uint64(o.Usable)})
	}
}

func (c *consistency) onMessage(from base.NodeID, body []byte) {
	var m wire.Consistency
	if err := m.UnmarshalVT(body); err != nil || base.NodeID(m.Node) != from {
		c.log.Warn("malformed consistency point dropped", "from", from, "err", err)
		return
	}
	c.step(func(p *replica.Point) []replica.Out {
		return p.Hear(replica.Message{From: from, View: base.Timestamp(m.View), Boot: base.Timestamp(m.Boot),
			Closed: base.Timestamp(m.Closed),
			Known:  base.Timestamp(m.Known), Usable: base.Timestamp(m.Usable)}, c.settled())
	})
}

// keep keeps the consistency point: at every heartbeat, and while reads at it are made here, or at
// a node of the region, whenever a closed timestamp rises.
func (c *consistency) keep(ctx context.Context) {
	tick := time.NewTicker(c.pace.HeartbeatEvery)
	defer tick.Stop()
	for {
		rose := c.progress.ClosedChanged()
		meta := c.db.MetaChanged()
		c.loadView(ctx)
		if done := c.progress.Complete(); done != 0 {
			c.step(func(p *replica.Point) []replica.Out { return p.Complete(done, c.settled()) })
		}
		awake := c.notices.awake()
		if !c.notices.Wanted() {
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
func (c *consistency) loadView(ctx context.Context) {
	key := ViewKey(c.region())
	at, complete := c.progress.MetaNewest(key)
	c.mu.Lock()
	have := c.p.View().At
	if applied, closed, _ := c.held.HeldHere(base.MetaGroup); have != 0 && closed >= have {
		c.watch.Shown(applied)
	}
	c.mu.Unlock()
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
		c.log.Debug("the view of the region cannot be read yet", "err", err)
		return
	}
	at = rows[0].TS
	v.At = at
	c.step(func(p *replica.Point) []replica.Out { return p.SetView(v) })
	c.log.Debug("view of the region", "at", at, "collector", v.Collector, "members", v.Members)
}

// keepView proposes another view if this node is to collect and the present one is not what it
// should be.
func (c *consistency) keepView(ctx context.Context) {
	t := c.Topology()
	var live []base.NodeID
	for _, n := range t.Nodes {
		if n.Region == c.region() && !n.Gone && c.Live(n.ID) {
			live = append(live, n.ID)
		}
	}
	want := replica.NextView(live)
	c.mu.Lock()
	have, viewed := c.p.View(), c.viewed
	c.mu.Unlock()
	if want.Collector != c.self || want.Same(&have) || have.At != 0 && !have.Has(c.self) && time.Since(viewed) < viewPause {
		c.differs = 0
		return
	}
	if c.differs++; c.differs < viewAfter || !c.proposing.TryLock() {
		return
	}
	c.work.done.Go(func() {
		defer c.proposing.Unlock()
		ctx, cancel := context.WithTimeout(ctx, viewTimeout)
		defer cancel()
		if err := c.propose(ctx, have.At, want); err != nil {
			c.log.Debug("the view of the region stays", "err", err)
		}
	})
}

func (c *consistency) propose(ctx context.Context, at base.Timestamp, v replica.View) error {
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
		return nil // another node was faster: look again
	}
	t.Put(key, b, 0)
	_, err = t.Commit(ctx)
	return err
}

// certified reports whether the view of that timestamp is the region's newest one now, so that its
// value v may be used.
func (c *consistency) certified(at, v base.Timestamp) bool {
	if at == 0 {
		return false
	}
	mode, epoch := c.clock.Mode()
	switch mode {
	case clock.GClock: // whatever was used anywhere before now lies at or below now, and a view lies below what is used in it
		now, ok := c.clock.Fresh()
		newest, complete := c.progress.MetaNewest(ViewKey(c.region()))
		return ok && newest == at && complete >= now
	case clock.GTM:
		now := time.Now()
		applied, _, _ := c.held.HeldHere(base.MetaGroup) // before looking
		newest, complete := c.progress.MetaNewest(ViewKey(c.region()))
		c.mu.Lock()
		holds := c.watch.Alone(now) && c.watch.Holds(applied, now)
		c.mu.Unlock()
		_, after := c.clock.Mode()
		return holds && newest == at && complete >= v && after == epoch
	}
	return false // between the two, neither says enough
}

// hearMeta takes from the meta group's leader how much it had applied when it had heard what this
// node said at sent.
func (c *consistency) hearMeta(leads []*wire.GroupLead, sent, now time.Time) {
	for _, l := range leads {
		if base.GroupID(l.Group) == base.MetaGroup {
			c.mu.Lock()
			c.watch.Heard(l.Index, sent, now)
			c.mu.Unlock()
		}
	}
}

// ReadPoint is a timestamp of the region's consistency point, at least atLeast: wherever in the
// region a client reads next, it is not shown less. It waits for at most so long.
func (c *consistency) ReadPoint(ctx context.Context, atLeast base.Timestamp, wait time.Duration) (base.Timestamp, bool) {
	c.notices.Want()
	var timer *time.Timer
	for first := true; ; first = false {
		c.mu.Lock()
		if first {
			atLeast = max(atLeast, c.p.Known())
		}
		usable, at, changed := c.p.Usable(), c.p.View().At, c.changed
		c.mu.Unlock()
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

// PointStatus is what people see of the consistency point.
type PointStatus struct {
	View          replica.View
	Known, Usable base.Timestamp
	Certified     bool
}

// Point is this node's view of its region's consistency point.
func (c *consistency) Point() PointStatus {
	c.mu.Lock()
	s := PointStatus{View: c.p.View(), Known: c.p.Known(), Usable: c.p.Usable()}
	c.mu.Unlock()
	s.Certified = c.certified(s.View.At, s.Usable)
	return s
}
