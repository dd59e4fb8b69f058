package cluster

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Between heartbeats the leaders of a node send notices of their closed timestamps to nodes that
// have said that they wait for them: nodes with strong reads of rows of other regions, or with
// bounded-stale readers. A cluster in which no node waits sends nothing but heartbeats.

const (
	wantFor   = time.Second            // how long a node is sent notices after it has asked
	wantAgain = 300 * time.Millisecond // how often a node says that it still waits
)

// notices is which nodes wait for whose closed timestamps.
type notices struct {
	*env
	disbelieved func(base.NodeID) bool // see clockModes
	pause       atomic.Int64           // see SetNoticeEvery

	mu     sync.Mutex
	to     map[base.NodeID]time.Time // nodes that want notices of this one, until when
	heard  map[base.NodeID]time.Time // newest notice of a node
	wanted time.Time                 // when a reader here, or at a node of this region, waited last
	asked  time.Time                 // when the leaders were last asked for notices
	kick   chan struct{}             // another node wants notices
	woken  chan struct{}             // closed when a reader waits here after none did
}

func newNotices(e *env) *notices {
	return &notices{env: e, to: map[base.NodeID]time.Time{}, heard: map[base.NodeID]time.Time{},
		kick: make(chan struct{}, 1), woken: make(chan struct{})}
}

// noticeEvery is the pause between notices; negative: there are none.
func (c *notices) noticeEvery() time.Duration {
	if d := time.Duration(c.pause.Load()); d != 0 {
		return d
	}
	return c.pace.NoticeEvery
}

// SetNoticeEvery changes the pause between the closed timestamps that leaders send to nodes that
// wait for them; 0 is the default of the Options, negative sends none but with the heartbeats.
func (c *notices) SetNoticeEvery(d time.Duration) { c.pause.Store(int64(d)) }

// Want says that a reader at this node waits for closed timestamps, or will soon: their leaders
// send them more often for a second. It is cheap to call often.
func (c *notices) Want() {
	if c.noticeEvery() < 0 {
		return
	}
	c.want(true)
}

// want asks the leaders for notices. mates: and the nodes of the region to want them too, as their
// consistency point rises only with all of them.
func (c *notices) want(mates bool) {
	if !c.askNow(time.Now()) {
		return
	}
	m := &wire.Closed{Node: uint32(c.self), Now: uint64(c.clock.Latest()), WantMs: uint32(wantFor / time.Millisecond)}
	asked := map[base.NodeID]bool{c.self: true}
	ask := func(n base.NodeID) {
		if !asked[n] {
			asked[n] = true
			_ = c.transport.Send(n, wire.KindClosed, m) // lost: the next one is soon, and heartbeats go on
		}
	}
	if mates {
		for _, n := range c.Topology().Nodes {
			if n.Region == c.region() && !n.Gone {
				ask(n.ID)
			}
		}
	}
	for _, g := range c.groups.Held() {
		if n := c.Leader(g); n != 0 && g != base.MetaGroup {
			ask(n)
		}
	}
}

// askNow notes that a reader waits, and reports whether the leaders are to be asked again.
func (c *notices) askNow(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := now.Sub(c.wanted) >= wantFor
	c.wanted = now
	if now.Sub(c.asked) < wantAgain {
		return false
	}
	c.asked = now
	if first {
		close(c.woken)
		c.woken = make(chan struct{})
	}
	return true
}

// Wanted reports whether a reader at this node waits for closed timestamps.
func (c *notices) Wanted() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.wanted.IsZero() && time.Since(c.wanted) < wantFor
}

// awake is closed when a reader waits here after none did.
func (c *notices) awake() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.woken
}

// Every is the time between the closed timestamps of a group's leader that reach this node now.
func (c *notices) Every(g base.GroupID) time.Duration {
	every := c.noticeEvery()
	if every < 0 {
		return c.pace.HeartbeatEvery
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.heard[c.dir.Leader(g)]; ok && time.Since(t) < 5*every && time.Since(c.wanted) < wantFor {
		return every
	}
	return c.pace.HeartbeatEvery
}

// send sends notices while other nodes want them.
func (c *notices) send(ctx context.Context) {
	for {
		every := c.noticeEvery()
		var next <-chan time.Time // nil: when a node asks
		if to := c.recipients(time.Now()); every >= 0 && len(to) > 0 {
			if m := c.notice(); len(m.Leads) > 0 {
				for _, n := range to {
					_ = c.transport.Send(n, wire.KindClosed, m) // the next one says it again
				}
			}
			next = time.After(every)
		}
		select {
		case <-ctx.Done():
			return
		case <-c.kick: // a node that has just asked need not wait
		case <-next:
		}
	}
}

// recipients are the nodes that want notices now.
func (c *notices) recipients(now time.Time) (to []base.NodeID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n, until := range c.to {
		if now.After(until) {
			delete(c.to, n)
		} else {
			to = append(to, n)
		}
	}
	return to
}

// notice is what this node's leaders promise now: mostly the same, so it is said once.
func (c *notices) notice() *wire.Closed {
	m := &wire.Closed{Node: uint32(c.self)}
	for _, l := range c.leads.Leads() {
		if base.GroupID(l.Group) == base.MetaGroup { // it closes ahead of now anyway
			continue
		}
		m.Leads = append(m.Leads, &wire.GroupLead{Group: l.Group, Term: l.Term, Index: l.Index, Closed: l.Closed})
		m.Closed = max(m.Closed, l.Closed)
	}
	m.Now = uint64(c.clock.Latest())
	// Each was promised a little after the one before; what the first can say holds for all that
	// can say more.
	least := m.Closed
	for _, l := range m.Leads {
		if m.Closed-l.Closed < uint64(time.Millisecond) {
			least = min(least, l.Closed)
		}
	}
	for _, l := range m.Leads {
		if l.Closed >= least {
			l.Closed = 0
		}
	}
	m.Closed = least
	return m
}

func (c *notices) onClosed(from base.NodeID, body []byte) {
	var m wire.Closed
	if err := m.UnmarshalVT(body); err != nil || base.NodeID(m.Node) != from {
		c.log.Warn("malformed closed timestamps dropped", "from", from, "err", err)
		return
	}
	if c.disbelieved(from) {
		return
	}
	if err := c.clock.Observe(base.Timestamp(m.Now)); err != nil {
		c.log.Warn("closed timestamps from the future dropped", "from", from, "err", err)
		return
	}
	now := time.Now()
	c.note(from, &m, now)
	if m.WantMs > 0 && c.Topology().RegionOf(from) == c.region() {
		c.want(false)
	}
	for _, l := range m.Leads {
		if l.Closed == 0 {
			l.Closed = m.Closed
		}
		c.dir.Heard(from, l, now)
	}
	c.leads.OnLeads(m.Leads)
}

// note remembers that a node wants notices, and that it sent one.
func (c *notices) note(from base.NodeID, m *wire.Closed, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(m.Leads) > 0 {
		c.heard[from] = now
	}
	if m.WantMs == 0 {
		return
	}
	_, known := c.to[from]
	c.to[from] = now.Add(time.Duration(m.WantMs) * time.Millisecond)
	if !known {
		select {
		case c.kick <- struct{}{}:
		default:
		}
	}
}
