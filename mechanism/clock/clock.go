// Package clock hands out timestamps with an error bound, in modes that can be switched while the
// cluster works.
//
// A [Source] says what time it is and how wrong that may be; a [Clock] turns it into unique,
// growing timestamps (a hybrid logical clock). Two operations carry all meaning: Snapshot and
// Settle.
//
// Invariants:
//
//	CLK-1 Now never returns the same timestamp twice and never less than one it was told by Observe.
//	CLK-2 Now is at or above true time, Earliest at or below it, as long as the source keeps its
//	   bound (not in GTM mode, and not where the node is fenced).
//	CLK-3 A Snapshot that begins after Settle(ts) returned nil is at or above ts, on whatever nodes
//	   of the cluster the two are and in whatever modes, if at any moment the modes of the nodes
//	   that may issue (Grant) are neighbours: GClock and DUAL, or DUAL and GTM, with the
//	   conditions of MODE-3 on going from DUAL to the next.
//	CLK-4 An operation counts in the mode in which it ends: it compares the state before and after,
//	   and begins anew if a switch came between.
//
// In GTM mode, and where a node is fenced or its source not confirmed yet, Latest and Earliest are
// a virtual clock: a reading of the oracle, advanced by the monotonic clock.
package clock

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Source reads a physical clock: true time lies within bound of now.
type Source interface {
	Read() (now base.Timestamp, bound time.Duration)
}

// maxAhead is how far above the local clock an observed timestamp may lie
// before it is taken for a broken peer rather than for skew.
const maxAhead = 10 * time.Second

// timed is a source that is told the reading of the process's clock, so that an operation takes
// only one.
type timed interface {
	ReadAt(t time.Time) (now base.Timestamp, bound time.Duration)
}

type wall struct{ bound time.Duration }

// NewWall is the process's wall clock with a fixed bound.
func NewWall(bound time.Duration) Source { return wall{bound} }

func (w wall) Read() (base.Timestamp, time.Duration) { return w.ReadAt(time.Now()) }

func (w wall) ReadAt(t time.Time) (base.Timestamp, time.Duration) { return base.FromTime(t), w.bound }

// Clock is safe for concurrent use.
type Clock struct {
	src   Source
	at    timed // src, if it is
	start time.Time
	last  atomic.Uint64 // the newest timestamp handed out or observed

	st    atomic.Pointer[state]
	right atomic.Int64 // ns after start until which the node may issue
	limit atomic.Int64 // ns: largest bound in GClock mode

	oracle Oracle
	rounds rounds
	known  atomic.Uint64 // the oracle has reached it
	// everything at or below it is settled for good, whatever becomes of this node
	past atomic.Uint64
	hops atomic.Int32 // of a trip to the oracle
	virt atomic.Pointer[anchored]

	mu      sync.Mutex
	changed chan struct{} // closed at a change of state or right
}

// New makes a clock over a source. It is in GClock mode for good, unless Wait says otherwise.
func New(src Source) *Clock {
	c := &Clock{src: src, start: time.Now(), changed: make(chan struct{})}
	c.at, _ = src.(timed)
	c.right.Store(never)
	c.limit.Store(never)
	c.st.Store(&state{mode: GClock})
	return c
}

// wake wakes all that wait for a change; mu is held.
func (c *Clock) wake() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// read is the source's reading at t, which must be fresh.
func (c *Clock) read(t time.Time) (base.Timestamp, time.Duration) {
	if c.at != nil {
		return c.at.ReadAt(t)
	}
	return c.src.Read()
}

// Now returns a timestamp above every earlier one of this clock and at or
// above true time.
func (c *Clock) Now() base.Timestamp { return c.NowAt(time.Now()) }

// NowAt is Now for a caller that has just taken the time.
func (c *Clock) NowAt(t time.Time) base.Timestamp { return c.above(c.LatestAt(t)) }

// above is a fresh timestamp at or above ts.
func (c *Clock) above(ts base.Timestamp) base.Timestamp {
	for {
		last := c.last.Load()
		next := max(uint64(ts), last+1)
		if c.last.CompareAndSwap(last, next) {
			return base.Timestamp(next)
		}
	}
}

// Seen is the largest timestamp handed out or observed: later ones exceed it.
func (c *Clock) Seen() base.Timestamp { return base.Timestamp(c.last.Load()) }

// Latest is the upper bound of true time; where the bound is over the limit, only so much of it as
// will not drag other nodes into the future.
func (c *Clock) Latest() base.Timestamp { return c.LatestAt(time.Now()) }

// LatestAt is Latest for a caller that has just taken the time.
func (c *Clock) LatestAt(t time.Time) base.Timestamp {
	if c.st.Load().virtual {
		return c.virtual(t)
	}
	return c.upper(c.read(t))
}

func (c *Clock) upper(now base.Timestamp, bound time.Duration) base.Timestamp {
	if limit := c.limit.Load(); int64(bound) > limit {
		return now.Add(-bound).Add(2 * time.Duration(limit))
	}
	return now.Add(bound)
}

// Earliest is the lower bound of true time.
func (c *Clock) Earliest() base.Timestamp {
	t := time.Now()
	if c.st.Load().virtual {
		return c.virtual(t)
	}
	now, bound := c.read(t)
	return now.Add(-bound)
}

// Virtual reports whether Latest is no bound of true time.
func (c *Clock) Virtual() bool {
	if c.st.Load().virtual {
		return true
	}
	_, bound := c.read(time.Now())
	return int64(bound) > c.limit.Load()
}

// Bounded reports whether the clock is in GClock mode and its readings are bounds of true time.
func (c *Clock) Bounded() bool { return c.st.Load().mode == GClock && !c.Virtual() }

// virtual is the virtual clock's reading; 0 if nothing is known to begin with.
func (c *Clock) virtual(t time.Time) base.Timestamp {
	if v := c.virt.Load(); v != nil {
		return v.read(t)
	}
	return 0
}

// Blank reports whether this node knows nothing of the time: its process has just begun, and nobody
// has told it of a timestamp or confirmed its source. Now only counts from 0 until then.
func (c *Clock) Blank() bool { return c.st.Load().virtual && c.virt.Load() == nil }

// Source is the source's own word: what it reads and how wrong that may be, whatever the mode.
func (c *Clock) Source() (base.Timestamp, time.Duration) { return c.read(time.Now()) }

// Time is what people call now: the source's reading, which does not run ahead with timestamps that
// were observed. While the node does not issue by its source, it is the clock's.
func (c *Clock) Time() base.Timestamp {
	t := time.Now()
	if st := c.st.Load(); st.fenced || st.virtual {
		return c.LatestAt(t)
	}
	now, _ := c.read(t)
	return now
}

// Observe makes later timestamps exceed ts, which came from another node. A
// timestamp far ahead of the local clock is refused: following it would let one
// broken clock drag the cluster into the future.
func (c *Clock) Observe(ts base.Timestamp) error {
	for {
		last := c.last.Load()
		if uint64(ts) <= last {
			return nil
		}
		if c.Latest() != 0 { // a virtual clock that has not begun cannot tell
			if err := c.Within(ts, maxAhead); err != nil {
				return err
			}
		}
		if c.last.CompareAndSwap(last, uint64(ts)) {
			return nil
		}
	}
}

// Horizon is as late as it may be by anything that is known here: also by the source if it is not
// used, but not before it was ever confirmed. It is for telling what lies too far ahead: after a
// minute without anybody, what is known of the oracle is a minute old.
func (c *Clock) Horizon() base.Timestamp {
	t := time.Now()
	now := c.LatestAt(t)
	if st := c.st.Load(); st.virtual && st.mode != None && !st.unproven && now != 0 {
		now = max(now, c.upper(c.read(t)))
	}
	return now
}

// Within refuses a timestamp that lies further ahead of this clock than d. A node that has not
// heard of a mode goes by what it knew of the oracle before it was started, which may be long ago:
// it cannot take others to task, and asks to be tried again.
func (c *Clock) Within(ts base.Timestamp, d time.Duration) error {
	now := c.Horizon()
	if ts <= now.Add(d) {
		return nil
	}
	if st := c.st.Load(); st.mode == None || st.unproven {
		return base.Errorf(base.CodeUnavailable, "this node has just started and does not know yet what time it is "+
			"for the others: can it reach the meta group's leader? retry")
	}
	return base.Errorf(base.CodeInvalid,
		"timestamp %s is %s ahead of this node's clock: check the clocks (NTP) of the cluster's nodes", ts, ts.Sub(now))
}

// PassedBy reports whether true time has certainly passed ts, by the source alone. wait is about
// how long that takes. One that is not used cannot tell.
func (c *Clock) PassedBy(ts base.Timestamp) (passed bool, wait time.Duration) {
	if c.st.Load().unused() {
		return false, time.Second
	}
	now, bound := c.read(time.Now())
	d := ts.Sub(now.Add(-bound))
	return d < 0, d + 1
}
