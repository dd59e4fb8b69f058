package clock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
)

// rounds are the trips of one node to the oracle. Callers share them: the first one starts at once,
// and a caller that comes while enough are under way joins the next one. A snapshot counts only
// from a trip that began after it was asked for.
type rounds struct {
	mu     sync.Mutex
	flying []*round
	next   *round
}

// maxFlying trips may be under way at a time. More than one, or a caller would wait for two trips:
// the rest of somebody else's and its own.
const maxFlying = 16

// roundTimeout bounds one trip, with the search for the oracle while it moves.
const roundTimeout = 5 * time.Second

type round struct {
	min  base.Timestamp
	done chan struct{}
	ts   base.Timestamp
	hops int
	err  error
}

// begin starts or joins a trip that raises the oracle above min. fresh asks for one that begins
// now.
func (r *rounds) begin(c *Clock, min base.Timestamp, fresh bool) *round {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !fresh {
		for _, x := range r.flying {
			if x.min >= min {
				return x
			}
		}
	}
	if r.next == nil {
		r.next = &round{done: make(chan struct{})}
	}
	x := r.next
	x.min = max(x.min, min)
	if len(r.flying) < maxFlying {
		r.fly(c)
	}
	return x
}

// fly sends the next round; mu is held.
func (r *rounds) fly(c *Clock) {
	x := r.next
	r.next = nil
	r.flying = append(r.flying, x)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), roundTimeout)
		x.ts, x.hops, x.err = c.oracle.Raise(ctx, x.min)
		cancel()
		if x.err == nil {
			c.hops.Store(int32(x.hops))
			c.Learn(x.ts)
		}
		close(x.done)
		r.mu.Lock()
		r.flying = slices.DeleteFunc(r.flying, func(o *round) bool { return o == x })
		if r.next != nil {
			r.fly(c)
		}
		r.mu.Unlock()
	}()
}

// raise makes the oracle exceed min and returns its answer. fresh asks for one given after the
// call, and adds the trip to the trace of ctx.
func (r *rounds) raise(ctx context.Context, c *Clock, min base.Timestamp, fresh bool) (base.Timestamp, error) {
	for {
		x := r.begin(c, min, fresh)
		select {
		case <-x.done:
		case <-ctx.Done():
			return 0, base.Errorf(base.CodeUnavailable,
				"the timestamp oracle (the meta group's leader) did not answer in time: %v; retry", context.Cause(ctx))
		}
		if x.err == nil {
			if fresh {
				obs.TraceOf(ctx).AddHops(x.hops)
			}
			return x.ts, nil
		}
		if ctx.Err() != nil || base.CodeOf(x.err) == base.CodeInvalid {
			return 0, x.err
		}
		select {
		case <-ctx.Done():
			return 0, x.err
		case <-time.After(20 * time.Millisecond):
		}
	}
}
