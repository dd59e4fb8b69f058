package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/wire"
)

// The clock mode of the cluster (docs/protocol.md, E). The leader of the meta group decides and logs each step; pulses
// carry the order out, the right to act by it, and the nodes' acknowledgements back. All decisions are clock.Switch's and
// clock.Judge's; this file carries words.

// clocks is what a Cluster knows of all nodes' clocks.
type clocks struct {
	life uint64 // names this process

	mu        sync.Mutex
	words     map[base.NodeID]*clockWord
	policy    clock.Policy
	sw        clock.Switch
	leadSince time.Time // zero while this node does not lead the meta group
	ordering  bool
	blocked   string
	verdict   clock.Verdict
	off       time.Duration  // how far the others say this clock is off
	fineSince time.Time      // zero: it is not
	raw       reading        // of the source, when it was judged last
	steppedAt time.Time      // when it was last found to have been set
	fencedAt  base.Timestamp // at or above all that this node acknowledged before it was fenced
}

// reading is what a source said.
type reading struct {
	ts    base.Timestamp
	bound time.Duration
	at    time.Time
}

// agrees reports whether a later reading is as late as the monotonic clock says.
func (r reading) agrees(x reading) bool {
	age := x.at.Sub(r.at)
	return x.ts.Sub(r.ts.Add(age)).Abs() <= r.bound+x.bound+clock.Stretched(age)-age+time.Microsecond
}

// clockWord is the newest word of another node.
type clockWord struct {
	*wire.ClockWord
	sent  uint64 // sent_ns of its pulse
	at    time.Time
	sight clock.Sight
	sees  bool
}

const (
	// defaultModeLease is how long a node may go on in a mode without word from the meta group's leader.
	defaultModeLease = 5 * time.Second
	// fineFor is how long a clock that was found wrong has to agree with the others before it is used again.
	fineFor = 3 * time.Second
	// orderTimeout bounds the logging of one step.
	orderTimeout = 5 * time.Second
)

func newClocks() *clocks {
	return &clocks{life: rand.Uint64() | 1, words: map[base.NodeID]*clockWord{}, policy: clock.DefaultPolicy(), fineSince: time.Now()}
}

// SetClockPolicy takes over what the operator wants of the clock mode.
func (c *Cluster) SetClockPolicy(p clock.Policy) {
	c.clocks.mu.Lock()
	defer c.clocks.mu.Unlock()
	c.clocks.policy = p
}

// bounds are the effective and the raw readings of the source.
func (c *Cluster) bounds() (earliest, latest, rawEarliest, rawLatest base.Timestamp, bound time.Duration) {
	now, bound := c.o.Clock.Source()
	earliest, latest = now.Add(-bound), now.Add(bound)
	rawEarliest, rawLatest = earliest, latest
	if c.o.Steady != nil {
		raw, b := c.o.Steady.Raw()
		rawEarliest, rawLatest = raw.Add(-b), raw.Add(b)
	}
	return
}

// word is this node's word to another one.
func (c *Cluster) word(to base.NodeID, leads bool) *wire.ClockWord {
	k := c.clocks
	mode, epoch := c.o.Clock.Mode()
	earliest, latest, rawE, rawL, _ := c.bounds()
	w := &wire.ClockWord{Mode: uint32(mode), Epoch: epoch, Earliest: uint64(earliest), Latest: uint64(latest), RawEarliest: uint64(rawE), RawLatest: uint64(rawL),
		Fenced: c.o.Clock.Fenced(), Life: k.life, Source: c.sourceName()}
	k.mu.Lock()
	defer k.mu.Unlock()
	w.Seen, w.Unsure = uint64(c.seen()), k.verdict == clock.Unsure
	if x := k.words[to]; x != nil {
		// What that clock says by now, at least.
		held := base.Timestamp(x.RawEarliest).Add(clock.Shrunk(time.Since(x.at)))
		w.Echo, w.EchoLife, w.EchoSent = uint64(held), x.Life, x.sent
	}
	if leads && c.o.Replicas.Leased(base.MetaGroup) { // still, after what is echoed was heard
		now, _ := c.o.Replicas.ClockSteps()
		w.OrderMode, w.OrderEpoch, w.LimitNs = now.Mode, now.Epoch, uint64(k.policy.MaxBound)
		w.Oracle = uint64(c.o.Clock.Known())
	}
	return w
}

// seen is at or above all that this node acknowledged; mu is held.
func (c *Cluster) seen() base.Timestamp {
	latest := c.o.Clock.Latest()
	if c.o.Clock.Fenced() {
		latest = c.clocks.fencedAt
	}
	return max(c.o.Clock.Seen(), latest)
}

func (c *Cluster) sourceName() string {
	if c.o.SourceName == nil {
		return "fixed"
	}
	return c.o.SourceName()
}

// onWord takes another node's word. It reports whether the sender's clock can be believed by this one.
func (c *Cluster) onWord(from base.NodeID, m *wire.Pulse, now time.Time) bool {
	w := m.Clock
	if w == nil {
		return true
	}
	k := c.clocks
	_, _, _, latest, _ := c.bounds()
	x := &clockWord{ClockWord: w, sent: m.SentNs, at: now, sees: w.RawEarliest != 0}
	echo := base.Timestamp(w.Echo)
	if w.EchoLife != k.life {
		echo = 0
	}
	x.sight = clock.See(base.Timestamp(w.RawEarliest), base.Timestamp(w.RawLatest), latest, echo)
	x.sight.Leader = w.OrderMode != 0
	k.mu.Lock()
	k.words[from] = x
	k.mu.Unlock()
	c.judge(now) // before it may issue
	if w.OrderMode != 0 {
		c.o.Clock.Learn(base.Timestamp(w.Oracle))
		c.o.Clock.SetLimit(time.Duration(w.LimitNs))
		c.adopt(clock.Mode(w.OrderMode), w.OrderEpoch, base.Timestamp(w.Oracle))
		// The leader had heard of this process, and the order in force then came with its word.
		if w.EchoLife == k.life && w.EchoSent != 0 {
			if sent := c.peers.start.Add(time.Duration(w.EchoSent)); !sent.After(now) {
				c.o.Clock.Grant(sent.Add(c.o.ModeLease))
				c.hearMeta(m.Leads, sent, now)
			}
		}
	}
	return x.sight.Lo <= 0
}

func (c *Cluster) adopt(m clock.Mode, epoch uint64, oracle base.Timestamp) {
	c.point.mu.Lock() // who sees the mode and then looks at the watch must not see words of before
	ok := c.o.Clock.Adopt(m, epoch, oracle)
	if ok {
		c.point.watch.Mode(time.Now())
	}
	c.point.mu.Unlock()
	if !ok {
		return
	}
	c.o.Logger.Info("clock mode", "mode", m, "epoch", epoch)
}

// judge compares this node's clock with all that were heard of lately.
func (c *Cluster) judge(now time.Time) {
	if c.o.NoFence {
		return
	}
	k := c.clocks
	latest := c.o.Clock.Latest()
	leads := c.o.Replicas.Leased(base.MetaGroup)
	k.mu.Lock()
	defer k.mu.Unlock()
	if c.o.Steady != nil {
		x := reading{at: time.Now()}
		if x.ts, x.bound = c.o.Steady.Raw(); !k.raw.at.IsZero() && !k.raw.agrees(x) {
			k.steppedAt, k.fineSince = x.at, time.Time{} // what was heard before says nothing of the clock as it is
		}
		k.raw = x
	}
	var sights []clock.Sight
	vouchers := 0
	for _, x := range k.words {
		if x.sees && now.Sub(x.at) < deadAfter {
			sights = append(sights, x.sight)
			if x.at.After(k.steppedAt) {
				vouchers++
			}
		}
	}
	was := k.verdict
	k.verdict, k.off = clock.Judge(sights, leads)
	if k.verdict != was {
		c.o.Logger.Warn("comparison of clocks", "verdict", k.verdict, "off", k.off)
	}
	fenced := c.o.Clock.Fenced()
	switch {
	case k.verdict != clock.Fine || vouchers < c.quorumOfClocks():
		k.fineSince = time.Time{}
		if k.verdict == clock.Wrong && !fenced {
			if mode, _ := c.o.Clock.Mode(); mode == clock.GClock || mode == clock.Dual {
				k.fencedAt = max(k.fencedAt, latest)
			}
			c.o.Logger.Error("this node's clock is outside its bound: fenced", "off", k.off)
			c.o.Clock.Fence(true)
		}
	case k.fineSince.IsZero():
		k.fineSince = now
	case now.Sub(k.fineSince) >= fineFor:
		if c.o.Steady != nil && c.o.Steady.Stepped() != 0 {
			c.o.Steady.Accept()
		}
		if fenced {
			c.o.Logger.Info("this node's clock agrees with the others again: no longer fenced")
			c.o.Clock.Fence(false)
		}
	}
}

// quorumOfClocks is how many others a node must hear of to say that most clocks agree with its own.
func (c *Cluster) quorumOfClocks() int {
	n := 0
	for _, x := range c.Topology().Nodes {
		if !x.Gone {
			n++
		}
	}
	return n / 2
}

// tickClock does, before each pulse, what time demands. It reports whether this node leads the meta group.
func (c *Cluster) tickClock(ctx context.Context) bool {
	now := time.Now()
	c.judge(now)
	c.o.Clock.Tick()
	k := c.clocks
	if !c.o.Replicas.Leased(base.MetaGroup) {
		k.mu.Lock()
		k.leadSince, k.blocked = time.Time{}, ""
		k.mu.Unlock()
		return false
	}
	reached := c.o.Replicas.Reached()
	if reached == 0 {
		return false
	}
	k.mu.Lock()
	policy := k.policy
	if k.leadSince.IsZero() {
		k.leadSince, k.sw = now, clock.Switch{}
	}
	k.mu.Unlock()
	order, _ := c.o.Replicas.ClockSteps()
	c.o.Clock.Learn(reached)
	c.o.Clock.SetLimit(policy.MaxBound)
	c.adopt(clock.Mode(order.Mode), order.Epoch, reached)
	// Nobody else can have taken the lead before now, and a successor waits for this to end.
	c.o.Clock.Grant(now.Add(c.o.ModeLease))
	f := c.clockFacts(now, order, policy, reached)
	k.mu.Lock()
	defer k.mu.Unlock()
	next := k.sw.Decide(f)
	k.blocked = next.Blocked
	if next.Mode == clock.None || k.ordering || ctx.Err() != nil {
		return true
	}
	k.ordering = true
	c.done.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, orderTimeout)
		defer cancel()
		o := &wire.ClockOrder{Mode: uint32(next.Mode), Target: uint32(next.Target), Epoch: order.Epoch + 1, Reason: next.Reason,
			By: fmt.Sprintf("node %d", c.o.Self), AtNs: uint64(time.Now().UnixNano())}
		if order.AtNs != 0 && o.AtNs > order.AtNs {
			o.TookNs = o.AtNs - order.AtNs
		}
		err := c.o.Replicas.OrderClock(ctx, o, next.Raise)
		if err != nil && ctx.Err() == nil {
			c.o.Logger.Warn("the clock mode could not be changed yet", "to", next.Mode, "err", err)
		} else if err == nil {
			c.o.Logger.Info("clock mode ordered", "mode", next.Mode, "target", next.Target, "epoch", o.Epoch, "reason", next.Reason)
		}
		k.mu.Lock()
		k.ordering = false
		k.mu.Unlock()
	})
	return true
}

// clockFacts is what this node, as leader of the meta group, knows of all clocks.
func (c *Cluster) clockFacts(now time.Time, order *wire.ClockOrder, policy clock.Policy, reached base.Timestamp) *clock.Facts {
	f := &clock.Facts{Now: now, Mode: clock.Mode(order.Mode), Epoch: order.Epoch, Policy: policy, Oracle: reached}
	k := c.clocks
	earliest, latest, _, _, bound := c.bounds()
	mode, epoch := c.o.Clock.Mode()
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, n := range c.Topology().Nodes {
		x := clock.NodeFacts{Node: n.ID, Live: true}
		if n.ID == c.o.Self {
			x.Heard, x.Mode, x.Epoch, x.Earliest, x.Latest, x.Bound = now, mode, epoch, earliest, latest, bound
			x.Seen, x.Fenced, x.Unsure = c.seen(), c.o.Clock.Fenced(), k.verdict == clock.Unsure
			f.Nodes = append(f.Nodes, x)
			continue
		}
		since := k.leadSince
		w := k.words[n.ID]
		if w != nil {
			x.Heard, x.Mode, x.Epoch, x.Earliest, x.Latest, x.Seen = w.at, clock.Mode(w.Mode), w.Epoch, base.Timestamp(w.Earliest), base.Timestamp(w.Latest), base.Timestamp(w.Seen)
			x.Bound, x.Fenced, x.Unsure = x.Latest.Sub(x.Earliest)/2, w.Fenced, w.Unsure
			x.Latest = x.Latest.Add(now.Sub(w.at) + c.RTT(n.ID)/2) // about what it is now
			if w.at.After(since) {
				since = w.at
			}
		}
		x.Live = now.Sub(since) < clock.Stretched(c.o.ModeLease)
		if n.Gone && !x.Live {
			continue
		}
		f.Nodes = append(f.Nodes, x)
	}
	return f
}

// ClockStatus is a node's clock as people see it.
type ClockStatus struct {
	Mode     string        `json:"mode"`
	Epoch    uint64        `json:"epoch"`
	Source   string        `json:"source"`
	Bound    time.Duration `json:"bound_ns"`
	Right    time.Duration `json:"right_left_ns"`     // how long the node may go on without word from the meta group's leader
	Verdict  string        `json:"verdict"`           // of the comparison with the others: fine, wrong, unsure
	Off      time.Duration `json:"off_ns"`            // least correction that the others ask for
	Fenced   bool          `json:"fenced"`            // its clock is not used
	Stepped  time.Duration `json:"stepped_ns"`        // how far the clock was set, if that is more than its bound allows
	Ahead    time.Duration `json:"oracle_ahead_ns"`   // of the oracle as known here, against the source
	Target   string        `json:"target,omitempty"`  // from the meta group's leader: the mode that a switch leads to
	Blocked  string        `json:"blocked,omitempty"` // and what it waits for
	Seen     time.Time     `json:"timestamp"`         // newest timestamp handed out or seen
	MaxBound time.Duration `json:"max_bound_ns"`      // clock.max_bound as known here
}

// Clock describes this node's clock.
func (c *Cluster) Clock() *ClockStatus {
	mode, epoch := c.o.Clock.Mode()
	now, bound := c.o.Clock.Source()
	s := &ClockStatus{Mode: mode.String(), Epoch: epoch, Source: c.sourceName(), Bound: bound, Right: c.o.Clock.Right(), Fenced: c.o.Clock.Fenced(),
		Ahead: c.o.Clock.Known().Sub(now), Seen: c.o.Clock.Seen().Time()}
	if c.o.Clock.Known() == 0 {
		s.Ahead = 0
	}
	if c.o.Steady != nil {
		s.Stepped = c.o.Steady.Stepped()
	}
	k := c.clocks
	k.mu.Lock()
	defer k.mu.Unlock()
	s.Verdict, s.Off, s.MaxBound = k.verdict.String(), k.off, k.policy.MaxBound
	if !k.leadSince.IsZero() {
		order, _ := c.o.Replicas.ClockSteps()
		s.Target, s.Blocked = clock.Mode(order.Target).String(), k.blocked
	}
	return s
}

// ClockStep is a step of the clock mode that was taken.
type ClockStep struct {
	At     time.Time     `json:"at"`
	Epoch  uint64        `json:"epoch"`
	From   string        `json:"from"`
	To     string        `json:"to"`
	Target string        `json:"target"`
	Reason string        `json:"reason"`
	By     string        `json:"by"`
	After  time.Duration `json:"after_ns"` // since the step before
}

// ClockHistory are the newest steps, the oldest first, as this node's meta replica knows them.
func (c *Cluster) ClockHistory() []ClockStep {
	_, steps := c.o.Replicas.ClockSteps()
	out := make([]ClockStep, 0, len(steps))
	from := clock.GClock
	for i, o := range steps {
		if i == 0 && o.Epoch > 2 {
			from = clock.None
		}
		out = append(out, ClockStep{At: time.Unix(0, int64(o.AtNs)), Epoch: o.Epoch, From: from.String(), To: clock.Mode(o.Mode).String(),
			Target: clock.Mode(o.Target).String(), Reason: o.Reason, By: o.By, After: time.Duration(o.TookNs)})
		from = clock.Mode(o.Mode)
	}
	return slices.Clip(out)
}
