package cluster

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Between pulses the leaders of a node tell their closed timestamps to those who say that they wait for them: nodes with
// strong reads of rows of other regions, or with bounded-stale readers. A cluster in which nobody waits sends nothing but pulses.

const (
	defaultWordEvery = 10 * time.Millisecond
	wantFor          = time.Second            // how long a node is told after it has asked
	wantAgain        = 300 * time.Millisecond // how often a node says that it still waits
)

// words is who waits for whom.
type words struct {
	mu     sync.Mutex
	to     map[base.NodeID]time.Time // who wants words of this node, until when
	heard  map[base.NodeID]time.Time // newest word of a node between pulses
	wanted time.Time                 // when somebody here, or at a node of this region, waited last
	told   time.Time                 // when the leaders were told of that
	kick   chan struct{}             // somebody new wants words
	awake  chan struct{}             // closed when somebody waits here after nobody did
}

func newWords() *words {
	return &words{to: map[base.NodeID]time.Time{}, heard: map[base.NodeID]time.Time{}, kick: make(chan struct{}, 1), awake: make(chan struct{})}
}

// wordEvery is the pause between words; negative: there are none.
func (c *Cluster) wordEvery() time.Duration {
	if d := time.Duration(c.wordPause.Load()); d != 0 {
		return d
	}
	return c.o.WordEvery
}

// SetWordEvery changes the pause between the closed timestamps that leaders send to nodes that wait for
// them; 0 is the default of the Options, negative sends none but with the pulses.
func (c *Cluster) SetWordEvery(d time.Duration) { c.wordPause.Store(int64(d)) }

// Want says that somebody at this node waits for closed timestamps, or will soon: their leaders send them more often for
// a second. It is cheap to call often.
func (c *Cluster) Want() {
	if c.wordEvery() < 0 {
		return
	}
	c.want(true)
}

// want tells the leaders, and the nodes of the region, without which their consistency point does not rise.
func (c *Cluster) want(mates bool) {
	w, now := c.words, time.Now()
	w.mu.Lock()
	if now.Sub(w.told) < wantAgain {
		w.wanted = now
		w.mu.Unlock()
		return
	}
	first := now.Sub(w.wanted) >= wantFor
	w.wanted, w.told = now, now
	if first {
		close(w.awake)
		w.awake = make(chan struct{})
	}
	w.mu.Unlock()
	m := &wire.Closed{Node: uint32(c.o.Self), Now: uint64(c.o.Clock.Latest()), WantMs: uint32(wantFor / time.Millisecond)}
	told := map[base.NodeID]bool{c.o.Self: true}
	if mates {
		t := c.Topology()
		for _, n := range t.Nodes {
			if n.Region == c.region() && !n.Gone && !told[n.ID] {
				told[n.ID] = true
				_ = c.o.Transport.Send(n.ID, wire.KindClosed, m)
			}
		}
	}
	for _, g := range c.o.Replicas.Held() {
		if n := c.Leader(g); n != 0 && !told[n] && g != base.MetaGroup {
			told[n] = true
			_ = c.o.Transport.Send(n, wire.KindClosed, m) // lost: the next one is soon, and pulses go on
		}
	}
}

// Wanted reports whether somebody at this node waits for closed timestamps.
func (c *Cluster) Wanted() bool {
	c.words.mu.Lock()
	defer c.words.mu.Unlock()
	return !c.words.wanted.IsZero() && time.Since(c.words.wanted) < wantFor
}

// awake is closed when somebody waits here after nobody did.
func (c *Cluster) awake() <-chan struct{} {
	c.words.mu.Lock()
	defer c.words.mu.Unlock()
	return c.words.awake
}

// Every is the time between the words of a group's leader that reach this node now.
func (c *Cluster) Every(g base.GroupID) time.Duration {
	every := c.wordEvery()
	if every < 0 {
		return c.o.PulseEvery
	}
	c.words.mu.Lock()
	defer c.words.mu.Unlock()
	if t, ok := c.words.heard[c.dir.Leader(g)]; ok && time.Since(t) < 5*every && time.Since(c.words.wanted) < wantFor {
		return every
	}
	return c.o.PulseEvery
}

// tellWords sends words while somebody wants them.
func (c *Cluster) tellWords(ctx context.Context) {
	w := c.words
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.kick:
		}
		for {
			every := c.wordEvery()
			if every < 0 {
				break
			}
			w.mu.Lock()
			var to []base.NodeID
			now := time.Now()
			for n, until := range w.to {
				if now.After(until) {
					delete(w.to, n)
				} else {
					to = append(to, n)
				}
			}
			w.mu.Unlock()
			if len(to) == 0 {
				break
			}
			if m := c.closedWord(); len(m.Leads) > 0 {
				for _, n := range to {
					_ = c.o.Transport.Send(n, wire.KindClosed, m) // the next one says it again
				}
			}
			t := time.NewTimer(every)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-w.kick: // somebody new need not wait
				t.Stop()
			case <-t.C:
			}
		}
	}
}

// closedWord is what this node's leaders promise now: mostly the same, so it is said once.
func (c *Cluster) closedWord() *wire.Closed {
	m := &wire.Closed{Node: uint32(c.o.Self)}
	for _, l := range c.o.Replicas.Leads() {
		if base.GroupID(l.Group) == base.MetaGroup { // its words are ahead of now anyway
			continue
		}
		m.Leads = append(m.Leads, &wire.GroupLead{Group: l.Group, Term: l.Term, Index: l.Index, Closed: l.Closed})
		m.Closed = max(m.Closed, l.Closed)
	}
	m.Now = uint64(c.o.Clock.Latest())
	// Each was promised a little after the one before; what the first can say holds for all that can say more.
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

func (c *Cluster) onClosed(from base.NodeID, body []byte) {
	var m wire.Closed
	if err := m.UnmarshalVT(body); err != nil || base.NodeID(m.Node) != from {
		c.o.Logger.Warn("malformed closed timestamps dropped", "from", from, "err", err)
		return
	}
	if err := c.o.Clock.Observe(base.Timestamp(m.Now)); err != nil {
		c.o.Logger.Warn("closed timestamps from the future dropped", "from", from, "err", err)
		return
	}
	w, now := c.words, time.Now()
	w.mu.Lock()
	if m.WantMs > 0 {
		_, known := w.to[from]
		w.to[from] = now.Add(time.Duration(m.WantMs) * time.Millisecond)
		if !known {
			select {
			case w.kick <- struct{}{}:
			default:
			}
		}
	}
	if len(m.Leads) > 0 {
		w.heard[from] = now
	}
	w.mu.Unlock()
	if t := c.Topology(); m.WantMs > 0 && t.RegionOf(from) == t.RegionOf(c.o.Self) {
		c.want(false)
	}
	for _, l := range m.Leads {
		if l.Closed == 0 {
			l.Closed = m.Closed
		}
		c.dir.Heard(from, l, now)
	}
	c.o.Replicas.OnLeads(m.Leads)
}
