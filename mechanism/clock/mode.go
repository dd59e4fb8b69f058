package clock

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Mode is how a node gets its timestamps. Numbers are logged; they are never reused.
type Mode uint8

// The modes. A node that has not heard yet which one is in force has None and issues nothing.
const (
	None   Mode = iota
	GClock      // local clock plus bound, commit wait
	Dual        // both, larger than either: the bridge between the other two
	GTM         // the oracle
)

var modeNames = [...]string{"none", "gclock", "dual", "gtm"}

// String is the name of the mode in settings and reports.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return "unknown"
}

// Oracle is the replicated counter service of GTM mode.
type Oracle interface {
	// Raise returns a timestamp above every one the oracle returned before, and above min. hops is
	// the number of one-way WAN crossings that it waited for.
	Raise(ctx context.Context, min base.Timestamp) (ts base.Timestamp, hops int, err error)
}

// state is what a node acts by. It is replaced as a whole, so that an operation sees by comparing
// pointers whether it was changed meanwhile.
type state struct {
	mode   Mode
	epoch  uint64
	fenced bool
	// unproven: nobody has confirmed the source since the process began
	unproven bool
	virtual  bool // Latest and Earliest do not come from the source
}

// unused reports whether the source is not looked at.
func (st *state) unused() bool { return st.fenced || st.unproven }

const (
	never = int64(1<<63 - 1)
	// drift is how much faster or slower than true time a monotonic clock may run (200 ppm, as in
	// the paper).
	drift = 200e-6
	// ahead is how far beyond the virtual clock a timestamp is raised at once. What lies further
	// ahead (commits of the meta group do) is waited for: raising it would let the oracle run away,
	// each commit pushing the next one on.
	ahead = 10 * time.Millisecond
	// patience bounds the wait of an operation whose context has no end.
	patience = 10 * time.Second
)

// Stretched is a time of d by the slowest clock that may be about, for waits that must outlast d
// elsewhere.
func Stretched(d time.Duration) time.Duration { return d + time.Duration(2*drift*float64(d)) + 1 }

// Shrunk is how much of d, by this process's monotonic clock, has certainly passed by any other
// one.
func Shrunk(d time.Duration) time.Duration { return d - time.Duration(2*drift*float64(d)) - 1 }

// Mode is the mode and epoch in force here.
func (c *Clock) Mode() (Mode, uint64) {
	st := c.st.Load()
	return st.mode, st.epoch
}

// Fenced reports whether this node has been found to be outside its bound.
func (c *Clock) Fenced() bool { return c.st.Load().fenced }

// Wait has the clock issue nothing until it is told a mode: for the nodes of a cluster, whose mode
// its meta group decides. Its source is not looked at before Confirm: nobody has compared it with
// others (MODE-9).
func (c *Clock) Wait(o Oracle) {
	c.oracle = o
	c.right.Store(0)
	c.st.Store(&state{mode: None, unproven: true, virtual: true})
}

// Confirm takes the source into use: enough others have found it right since the process began.
func (c *Clock) Confirm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if st := *c.st.Load(); st.unproven {
		st.unproven = false
		c.enter(&st, 0)
	}
}

// Unproven reports whether nobody has confirmed the source since the process began.
func (c *Clock) Unproven() bool { return c.st.Load().unproven }

// Adopt puts a mode in force; one of an older epoch is ignored. oracle is a reading of the oracle,
// at or below which everything lies that was acknowledged before the mode could be ordered.
func (c *Clock) Adopt(m Mode, epoch uint64, oracle base.Timestamp) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.st.Load()
	if old.mode != None && epoch <= old.epoch || epoch < old.epoch {
		return false
	}
	st := *old
	st.mode, st.epoch = m, epoch
	c.enter(&st, oracle)
	return true
}

// Fence takes the source out of use, or back into it.
func (c *Clock) Fence(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.st.Load()
	if old.fenced == on {
		return
	}
	st := *old
	st.fenced = on
	c.enter(&st, 0)
}

func (c *Clock) enter(st *state, oracle base.Timestamp) {
	c.Learn(oracle)
	was := c.st.Load().virtual
	if st.virtual = st.mode == GTM || st.unused() || st.mode == None; st.virtual && !was {
		// Time goes on where it was.
		now := time.Now()
		ts := c.Known()
		if ts == 0 { // nothing was heard of the oracle
			if ts = c.Seen(); !st.unused() {
				ts = c.upper(c.read(now))
			}
		}
		c.anchor(ts, now)
	}
	c.st.Store(st)
	c.wake()
}

// Grant extends the right to issue to a moment of this node's monotonic clock.
func (c *Clock) Grant(until time.Time) {
	n := int64(until.Sub(c.start))
	for {
		old := c.right.Load()
		if old >= n {
			return
		}
		if c.right.CompareAndSwap(old, n) {
			c.mu.Lock()
			c.wake()
			c.mu.Unlock()
			return
		}
	}
}

// Right is how long this node may still issue; negative if it may not.
func (c *Clock) Right() time.Duration {
	n := c.right.Load()
	if n == never {
		return time.Duration(never)
	}
	return time.Duration(n) - time.Since(c.start)
}

// granted reports whether the node may issue at t.
func (c *Clock) granted(t time.Time) bool { return int64(t.Sub(c.start)) < c.right.Load() }

// SetLimit is the largest bound with which the node issues by its own clock; 0 is none.
func (c *Clock) SetLimit(d time.Duration) {
	if d <= 0 {
		d = time.Duration(never)
	}
	c.limit.Store(int64(d))
}

// anchored is the virtual clock: a reading of the oracle, advanced by the monotonic clock.
type anchored struct {
	ts   base.Timestamp
	at   time.Time
	rate float64
}

func (a *anchored) read(t time.Time) base.Timestamp {
	return a.ts.Add(time.Duration(float64(t.Sub(a.at)) * a.rate))
}

// anchor moves the virtual clock forward to ts.
func (c *Clock) anchor(ts base.Timestamp, now time.Time) {
	for {
		old, rate := c.virt.Load(), 1-drift
		if old != nil {
			if old.read(now) >= ts {
				return
			}
			rate = old.rate
		}
		if c.virt.CompareAndSwap(old, &anchored{ts, now, rate}) {
			return
		}
	}
}

// How much faster or slower than the monotonic clock the virtual one runs to meet the source. It is
// ahead after every change of the oracle, by up to a lease.
const (
	slewUp   = 0.05
	slewDown = 0.5
)

// Tick is to be called a few times a second.
func (c *Clock) Tick() {
	c.slew()
	c.SettledTo()
}

// SettledTo is a timestamp at or below which everything is settled, as new as can be told without a
// trip: every Snapshot that begins later, anywhere, is above it. What is settled once stays so: a
// node that has lost its right can still tell what is old.
func (c *Clock) SettledTo() base.Timestamp {
	st, t := c.st.Load(), time.Now()
	past := base.MaxTimestamp
	if st.mode != GTM {
		now, bound := c.read(t)
		past = now.Add(-bound).Prev()
	}
	if st.mode != GClock {
		past = min(past, c.Known())
	}
	if st.mode != None && (!st.unused() || st.mode == GTM) && c.granted(t) && c.st.Load() == st {
		raise(&c.past, uint64(past))
	}
	return base.Timestamp(c.past.Load())
}

// Fresh is a timestamp at or above everything that was settled anywhere before the call, like a
// Snapshot, if that can be told without a trip: in GClock mode.
func (c *Clock) Fresh() (base.Timestamp, bool) {
	st := c.st.Load()
	if st.mode != GClock || st.virtual {
		return 0, false
	}
	t := time.Now()
	now, bound := c.read(t)
	return c.upper(now, bound), int64(bound) <= c.limit.Load() && c.granted(t) && c.st.Load() == st
}

// slew lets the virtual clock run a little faster or slower, so that it does not drift away from
// true time while the source can be trusted. It is for the distance only: nothing is decided by
// where the source stands.
func (c *Clock) slew() {
	st := c.st.Load()
	old := c.virt.Load()
	if !st.virtual || old == nil {
		return
	}
	t := time.Now()
	n := &anchored{old.read(t), t, 1 - drift}
	if now, bound := c.read(t); !st.unused() && int64(bound) <= c.limit.Load() {
		switch {
		case n.ts > now.Add(bound):
			n.rate = 1 - slewDown
		case n.ts < now.Add(-bound):
			n.rate = 1 + slewUp
		}
	}
	c.virt.CompareAndSwap(old, n)
}

// Known is a timestamp that the oracle has certainly reached.
func (c *Clock) Known() base.Timestamp { return base.Timestamp(c.known.Load()) }

// Learn takes a reading of the oracle.
func (c *Clock) Learn(ts base.Timestamp) {
	if ts == 0 {
		return
	}
	raise(&c.known, uint64(ts))
	if c.virt.Load() != nil || c.st.Load().virtual {
		c.anchor(ts, time.Now())
	}
}

func raise(v *atomic.Uint64, to uint64) {
	for {
		old := v.Load()
		if old >= to || v.CompareAndSwap(old, to) {
			return
		}
	}
}

// Hops is the number of one-way WAN crossings of a trip to the oracle, 0 where the mode needs none.
func (c *Clock) Hops() int {
	if c.st.Load().mode <= GClock {
		return 0
	}
	return int(c.hops.Load())
}

// blocked is why an operation cannot end now; ch is closed when that may have changed.
func (c *Clock) blocked(st *state, t time.Time) (why *base.Error, ch <-chan struct{}) {
	c.mu.Lock()
	ch = c.changed
	c.mu.Unlock()
	switch {
	case c.st.Load() != st:
	case st.mode == None:
		why = base.Errorf(base.CodeUnavailable,
			"this node has not heard yet which clock mode is in force: can it reach the meta group's leader? retry")
	case !c.granted(t):
		why = base.Errorf(base.CodeUnavailable, "this node has not been confirmed in clock mode %s for too long: "+
			"can it reach the meta group's leader? retry", st.mode)
	case st.unproven && !st.fenced && st.mode != GTM:
		why = base.Errorf(base.CodeUnavailable, "this node has just started and too few others have confirmed its "+
			"clock yet: can it reach most of the meta group's voters? retry")
	case st.fenced && st.mode != GTM:
		why = base.Errorf(base.CodeUnavailable, "the clock of this node is outside its bound and mode %s needs it: "+
			"correct the clock, or set clock.mode to auto or gtm; retry", st.mode)
	}
	return why, ch
}

func tooWide(m Mode, bound time.Duration) *base.Error {
	return base.Errorf(base.CodeUnavailable, "the clock of this node may be off by %s, more than clock.max_bound, "+
		"and mode %s needs it: mend the clock's source, or set clock.mode to auto or gtm; retry", bound, m)
}

// pause waits for ch, for d (if positive) or for the end of ctx.
func pause(ctx context.Context, ch <-chan struct{}, d time.Duration) error {
	var c <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		c = t.C
	}
	select {
	case <-ch:
	case <-c:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

func ended(err error, why *base.Error) error {
	if why != nil {
		return why
	}
	return base.Errorf(base.CodeCanceled, "the wait for a timestamp ended: %v", err)
}

// Snapshot returns a timestamp at or above that of every commit that was acknowledged anywhere
// before the call.
func (c *Clock) Snapshot(ctx context.Context) (base.Timestamp, error) {
	if ts, ok := c.Assign(); ok {
		return ts, nil
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	for {
		st := c.st.Load()
		why, ch := c.blocked(st, time.Now())
		if why == nil {
			ts, wide, err := c.snapshotIn(ctx, st)
			switch {
			case err != nil:
				return 0, err
			case ts != 0 && c.granted(time.Now()) && c.st.Load() == st:
				raise(&c.last, uint64(ts))
				return ts, nil
			case wide == nil:
				continue // the mode has changed meanwhile
			}
			why = wide
		}
		if err := pause(ctx, ch, 20*time.Millisecond); err != nil { // the bound may shrink without a word
			return 0, ended(err, why)
		}
	}
}

// snapshotIn takes a snapshot in the mode of st. ts is 0 if there is none; wide then says so, if
// that is because this node's bound is over the limit.
func (c *Clock) snapshotIn(ctx context.Context, st *state) (ts base.Timestamp, wide *base.Error, err error) {
	if st.mode == GClock {
		if t, ok := c.Assign(); ok {
			return t, nil, nil
		}
		if _, b := c.read(time.Now()); int64(b) > c.limit.Load() {
			return 0, tooWide(st.mode, b), nil
		}
		return 0, nil, nil
	}
	low := base.Timestamp(0)
	if st.mode == Dual {
		now, b := c.read(time.Now())
		if int64(b) > c.limit.Load() {
			return 0, tooWide(st.mode, b), nil
		}
		low = now.Add(b)
	}
	ts, err = c.rounds.raise(ctx, c, low, true)
	return ts, nil, err
}

// Settle returns once every later Snapshot anywhere is above ts: it is what a commit is
// acknowledged after. A change of the mode meanwhile begins it anew in the new one, so a commit of
// GTM mode that meets DUAL waits.
func (c *Clock) Settle(ctx context.Context, ts base.Timestamp) error {
	if c.Settled(ts) {
		return nil
	}
	for {
		st := c.st.Load()
		t := time.Now()
		why, ch := c.blocked(st, t)
		d := time.Duration(0)
		if why == nil {
			if c.st.Load() != st {
				continue
			}
			var err error
			if d, err = c.unsettled(ctx, st, ts, t); err != nil {
				return err
			}
			if d == 0 {
				if c.granted(time.Now()) && c.st.Load() == st {
					return nil
				}
				continue
			}
		}
		if err := pause(ctx, ch, d); err != nil {
			return ended(err, why)
		}
	}
}

// unsettled is how long to wait until ts is settled in the mode of st: until every clock has passed
// it, where clocks count (GClock, DUAL), and until the oracle has, where that does (DUAL, GTM). It
// raises the oracle where the wait is short. 0: ts is settled, if the mode has not changed
// meanwhile.
func (c *Clock) unsettled(ctx context.Context, st *state, ts base.Timestamp, t time.Time) (time.Duration, error) {
	if st.mode != GTM {
		now, bound := c.read(t)
		if d := ts.Sub(now.Add(-bound)) + 1; d > 0 {
			return d, nil
		}
	}
	if st.mode == GClock || c.Known() >= ts {
		return 0, nil
	}
	if d := ts.Sub(c.Latest()) - ahead; d > 0 && st.mode == GTM {
		return d, nil // the oracle is not raised to what lies far ahead (MODE-6)
	}
	_, err := c.rounds.raise(ctx, c, ts, false)
	return 0, err
}

// Settling begins what Settle will need, without waiting: at the time a commit is proposed, so that
// the trip to the oracle and the quorum overlap.
func (c *Clock) Settling(ts base.Timestamp) {
	st := c.st.Load()
	if st.mode <= GClock || c.Known() >= ts || ts.Sub(c.Latest()) > ahead {
		return
	}
	c.rounds.begin(c, ts, false)
}

// Settled is Settle that does not wait: it reports whether ts is settled already.
func (c *Clock) Settled(ts base.Timestamp) bool {
	if uint64(ts) <= c.past.Load() {
		return true
	}
	st := c.st.Load()
	t := time.Now()
	if st.mode == None || st.unused() && st.mode != GTM || !c.granted(t) {
		return false
	}
	if st.mode != GTM {
		if now, bound := c.read(t); ts >= now.Add(-bound) {
			return false
		}
	}
	return (st.mode == GClock || c.Known() >= ts) && c.st.Load() == st
}

// Assign returns a unique timestamp above all seen here. whole says that it also lies at or above
// every commit acknowledged anywhere before the call; otherwise the commit needs a Snapshot from
// after the transaction's begin besides.
func (c *Clock) Assign() (ts base.Timestamp, whole bool) {
	st := c.st.Load()
	if st.mode != GClock || st.virtual {
		return c.Now(), false
	}
	t := time.Now()
	now, bound := c.read(t)
	ts = c.above(c.upper(now, bound))
	return ts, int64(bound) <= c.limit.Load() && c.granted(t) && c.st.Load() == st
}
