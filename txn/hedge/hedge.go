// Package hedge asks a second node for what a first one does not answer within its usual time
// (policy/replica.Hedge). That is for what may be asked twice and changes nothing.
package hedge

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/policy/replica"
)

// Reads are the reads of one gateway. The zero value is ready.
type Reads struct {
	mu    sync.Mutex
	hedge replica.Hedge

	// Asked counts the reads that were asked of a second node, Won those that it answered first.
	Asked, Won atomic.Int64
}

func (r *Reads) sent(n base.NodeID, rtt time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hedge.Sent(n, rtt)
}

func (r *Reads) spend() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.hedge.Spend()
}

func (r *Reads) took(n base.NodeID, beyond time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hedge.Took(n, beyond)
}

// answer is what one of the two has answered.
type answer[T any] struct {
	value  T
	err    error
	second bool
	trace  *obs.Trace
}

// Ask calls first, which asks the node n, whose round trip is rtt. If that has not returned in n's
// usual time, it calls second beside it, budget permitting, and takes what succeeds first; the
// context of the other one ends. If both fail, the error is that of first. Before second is called
// nothing is known of whom it asks. The two run in goroutines of their own, and the one that is not
// taken may still run when Ask returns.
func Ask[T any](ctx context.Context, r *Reads, n base.NodeID, rtt time.Duration,
	first, second func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	asked := obs.TraceOf(ctx)
	answers := make(chan answer[T], 2)
	call := func(f func(context.Context) (T, error), second bool) {
		a := answer[T]{second: second, trace: asked.Parallel(1)[0]}
		go func() {
			a.value, a.err = f(obs.WithTrace(ctx, a.trace))
			answers <- a
		}()
	}
	began := time.Now()
	usual := time.NewTimer(r.sent(n, rtt))
	defer usual.Stop()
	call(first, false)
	var best *answer[T]
	for waits := 1; ; {
		select {
		case <-usual.C:
			if r.spend() {
				r.Asked.Add(1)
				call(second, true)
				waits++
			}
		case a := <-answers:
			waits--
			if best == nil || a.err == nil || !a.second {
				best = &a
			}
			if a.err != nil && waits > 0 {
				continue
			}
			if best.err == nil {
				r.took(n, time.Since(began)-rtt) // or more, if it was not the first node
				if best.second {
					r.Won.Add(1)
				}
			}
			asked.Join([]*obs.Trace{best.trace})
			return best.value, best.err
		}
	}
}
