// Package clock hands out timestamps with an error bound.
//
// A [Source] says what time it is and how wrong that may be; a [Clock] turns it
// into unique, growing timestamps (a hybrid logical clock) and into commit wait.
//
// Invariants:
//
//	I1 Now never returns the same timestamp twice and never less than one it was told by Observe.
//	I2 Now is at or above true time, Earliest at or below it, as long as the source keeps its bound.
//	I3 after WaitPast(ts) returned nil, every Now on any node whose bound holds exceeds ts.
package clock

import (
	"context"
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

type wall struct{ bound time.Duration }

// NewWall is the process's wall clock with a fixed bound.
func NewWall(bound time.Duration) Source { return wall{bound} }

func (w wall) Read() (base.Timestamp, time.Duration) { return base.FromTime(time.Now()), w.bound }

// Clock is safe for concurrent use.
type Clock struct {
	src  Source
	last atomic.Uint64 // the newest timestamp handed out or observed
}

// New makes a clock over a source.
func New(src Source) *Clock { return &Clock{src: src} }

// Now returns a timestamp above every earlier one of this clock and at or
// above true time.
func (c *Clock) Now() base.Timestamp {
	latest := uint64(c.Latest())
	for {
		last := c.last.Load()
		next := max(latest, last+1)
		if c.last.CompareAndSwap(last, next) {
			return base.Timestamp(next)
		}
	}
}

// Seen is the largest timestamp handed out or observed: later ones exceed it.
func (c *Clock) Seen() base.Timestamp { return base.Timestamp(c.last.Load()) }

// Latest is the upper bound of true time.
func (c *Clock) Latest() base.Timestamp {
	now, bound := c.src.Read()
	return now.Add(bound)
}

// Earliest is the lower bound of true time.
func (c *Clock) Earliest() base.Timestamp {
	now, bound := c.src.Read()
	return now.Add(-bound)
}

// Bound is the current error bound of the source.
func (c *Clock) Bound() time.Duration {
	_, bound := c.src.Read()
	return bound
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
		if now := c.Latest(); ts > now.Add(maxAhead) {
			return base.Errorf(base.CodeInvalid, "timestamp %s is %s ahead of this node's clock: check the clocks (NTP) of the cluster's nodes", ts, ts.Sub(now))
		}
		if c.last.CompareAndSwap(last, uint64(ts)) {
			return nil
		}
	}
}

// WaitPast returns once true time has certainly passed ts (commit wait).
func (c *Clock) WaitPast(ctx context.Context, ts base.Timestamp) error {
	for {
		d := ts.Sub(c.Earliest())
		if d < 0 {
			return nil
		}
		t := time.NewTimer(d + 1)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		}
	}
}
