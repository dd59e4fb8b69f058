// Package obs is how Godwit sees itself: traces that count WAN round trips,
// metrics, events of automatic decisions, structured logs.
package obs

import (
	"context"
	"sync/atomic"
	"time"
)

// Trace counts what one statement or transaction cost on the WAN. Hops are
// one-way crossings between regions on the critical path: a round trip is two.
// Steps one after the other add; of steps in parallel the longest counts (use
// [Trace.Parallel]). A nil *Trace counts nothing.
type Trace struct {
	hops  atomic.Int64
	bytes atomic.Int64
	msgs  atomic.Int64
	reads [numReads]atomic.Int64
	wait  atomic.Int64 // ns
	moves atomic.Int64
	asked atomic.Uint32
	span  atomic.Pointer[Span] // of the statement, if it is watched
}

// ReadKind is how a snapshot read was answered.
type ReadKind uint8

// The kinds of snapshot reads.
const (
	ReadLocal  ReadKind = iota // by this node's replicas, which were complete
	ReadWaited                 // by this node's replicas, after a wait until they were complete
	ReadOwner                  // by owners in this region
	ReadFar                    // by owners in other regions
	ReadServed                 // by another node's replicas
	numReads
)

// AddRead counts a snapshot read of a span or more, and how long it waited for closed timestamps.
func (t *Trace) AddRead(k ReadKind, waited time.Duration) {
	if t != nil {
		t.reads[k].Add(1)
		t.wait.Add(int64(waited))
	}
}

// Reads is the number of snapshot reads of a kind so far.
func (t *Trace) Reads(k ReadKind) int64 {
	if t == nil {
		return 0
	}
	return t.reads[k].Load()
}

// Waited is how long snapshot reads waited for closed timestamps so far.
func (t *Trace) Waited() time.Duration {
	if t == nil {
		return 0
	}
	return time.Duration(t.wait.Load())
}

// addReads adds those of a branch.
func (t *Trace) addReads(b *Trace) {
	if b == nil {
		return
	}
	for k := range t.reads {
		if n := b.reads[k].Load(); n > 0 {
			t.reads[k].Add(n)
		}
	}
}

// AddHops adds one-way WAN crossings that the statement waited for.
func (t *Trace) AddHops(n int) {
	if t != nil && n != 0 {
		t.hops.Add(int64(n))
	}
}

// AddBytes adds WAN bytes and messages caused, waited for or not.
func (t *Trace) AddBytes(msgs, bytes int) {
	if t != nil {
		t.msgs.Add(int64(msgs))
		t.bytes.Add(int64(bytes))
	}
}

// AddMoves adds rows that were moved to another home, or set off.
func (t *Trace) AddMoves(n int) {
	if t != nil && n != 0 {
		t.moves.Add(int64(n))
	}
}

// Moves is the number of rows moved to another home so far.
func (t *Trace) Moves() int64 {
	if t == nil {
		return 0
	}
	return t.moves.Load()
}

// Hops is the number of one-way WAN crossings waited for so far.
func (t *Trace) Hops() int {
	if t == nil {
		return 0
	}
	return int(t.hops.Load())
}

// RTTs is the number of WAN round trips waited for so far.
func (t *Trace) RTTs() float64 { return float64(t.Hops()) / 2 }

// Bytes is the number of WAN bytes caused so far.
func (t *Trace) Bytes() int64 {
	if t == nil {
		return 0
	}
	return t.bytes.Load()
}

// Messages is the number of WAN messages caused so far.
func (t *Trace) Messages() int64 {
	if t == nil {
		return 0
	}
	return t.msgs.Load()
}

// AddRegion notes that another region, by its number below 32, has answered a request that the
// statement waited for.
func (t *Trace) AddRegion(r uint32) {
	if t != nil && r < 32 && t.asked.Load()&(1<<r) == 0 {
		t.asked.Or(1 << r)
	}
}

// Regions are the other regions that have answered, as a set of bits.
func (t *Trace) Regions() uint32 {
	if t == nil {
		return 0
	}
	return t.asked.Load()
}

// SetRegions replaces that set: a trace may outlive its statement, and not every request is one
// for what the statement asks.
func (t *Trace) SetRegions(set uint32) {
	if t != nil {
		t.asked.Store(set)
	}
}

// Parallel gives one trace a branch; [Join] adds the longest branch to t.
func (t *Trace) Parallel(n int) []*Trace {
	out := make([]*Trace, n)
	if t == nil {
		return out
	}
	s := t.span.Load()
	for i := range out {
		out[i] = new(Trace)
		if s != nil {
			out[i].span.Store(s)
		}
	}
	return out
}

// Join adds the branches to t: the most hops, and all bytes, moves and regions.
func (t *Trace) Join(branches []*Trace) {
	if t == nil {
		return
	}
	longest, waited := 0, time.Duration(0)
	for _, b := range branches {
		longest = max(longest, b.Hops())
		waited = max(waited, b.Waited())
		t.AddBytes(int(b.Messages()), int(b.Bytes()))
		t.addReads(b)
		if set := b.Regions(); set != 0 {
			t.asked.Or(set)
		}
		t.AddMoves(int(b.Moves()))
	}
	t.AddHops(longest)
	t.wait.Add(int64(waited))
}

// Reset sets all counts to zero.
func (t *Trace) Reset() {
	if t != nil {
		t.hops.Store(0)
		t.bytes.Store(0)
		t.msgs.Store(0)
		for k := range t.reads {
			t.reads[k].Store(0)
		}
		t.wait.Store(0)
		t.moves.Store(0)
		t.asked.Store(0)
	}
}

// TraceKey is the key of a context's trace, for contexts that carry more than that.
type TraceKey struct{}

// Each runs f for 0..n-1 at once, one of them on the caller's goroutine, and waits for all. Each
// has a branch of the trace of ctx.
func Each(ctx context.Context, n int, f func(ctx context.Context, i int)) {
	traces := TraceOf(ctx).Parallel(n)
	done := make(chan struct{}, n)
	for i := 1; i < n; i++ {
		go func() {
			f(WithTrace(ctx, traces[i]), i)
			done <- struct{}{}
		}()
	}
	f(WithTrace(ctx, traces[0]), 0)
	for i := 1; i < n; i++ {
		<-done
	}
	TraceOf(ctx).Join(traces)
}

// WithTrace attaches t to ctx; the transport and the consensus groups count
// into the trace they find there.
func WithTrace(ctx context.Context, t *Trace) context.Context {
	if t == nil || TraceOf(ctx) == t {
		return ctx
	}
	return context.WithValue(ctx, TraceKey{}, t)
}

// TraceOf is the trace attached to ctx; nil if none.
func TraceOf(ctx context.Context) *Trace {
	t, _ := ctx.Value(TraceKey{}).(*Trace)
	return t
}
