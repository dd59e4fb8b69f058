package route

import (
	"context"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// flight is a request that waits for its answer from a node that led the group when it was sent.
type flight struct {
	group   base.GroupID
	to      base.NodeID
	again   bool // it may be repeated elsewhere, whatever becomes of it there
	cancel  context.CancelFunc
	overdue time.Time // zero: as far as is known the node still leads
}

// What grace is where nothing is known of the paths.
const (
	graceUnknown = time.Second
	graceAgain   = 200 * time.Millisecond
)

// grace is how long a node that no longer leads has to answer what it was asked before. A leader
// that has lost its lead but is alive answers by itself. What may be repeated is not worth that
// wait.
func (rt *Router) grace(f *flight) time.Duration {
	switch {
	case rt.Grace != nil:
		return rt.Grace(f.to, f.again)
	case f.again:
		return graceAgain
	}
	return graceUnknown
}

// flights are the requests under way. Those to a node that is lost would wait until the transport
// takes it for dead, which is made to outlast a bad minute of the network, long after the group has
// a new leader.
type flights struct {
	mu  sync.Mutex
	all map[*flight]struct{}
}

// call is Transport.Call, given up when another node has led the group for a while.
func (rt *Router) call(ctx context.Context, g base.GroupID, to base.NodeID, kind wire.Kind, q, resp wan.Msg,
	again bool) error {
	return rt.fly(ctx, &flight{group: g, to: to, again: again}, func(ctx context.Context) error {
		return rt.Caller.Call(ctx, to, kind, q, resp)
	})
}

// WhileLed calls f with a context that ends when another node than the one given has led the group
// for a while.
func (rt *Router) WhileLed(ctx context.Context, g base.GroupID, by base.NodeID, f func(context.Context) error) error {
	return rt.fly(ctx, &flight{group: g, to: by}, f)
}

// fly runs a request under the eyes of Watch.
func (rt *Router) fly(ctx context.Context, f *flight, request func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.cancel = cancel
	fs := &rt.flights
	fs.mu.Lock()
	if fs.all == nil {
		fs.all = map[*flight]struct{}{}
	}
	fs.all[f] = struct{}{}
	fs.mu.Unlock()
	err := request(ctx)
	fs.mu.Lock()
	delete(fs.all, f)
	fs.mu.Unlock()
	return err
}

// Watch gives up requests that are overdue; it is called a few times a second.
func (rt *Router) Watch(now time.Time) {
	fs := &rt.flights
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for f := range fs.all {
		switch n := rt.leading(f.group); {
		case n == 0 || n == f.to:
			f.overdue = time.Time{}
		case f.overdue.IsZero():
			f.overdue = now.Add(rt.grace(f))
		case now.After(f.overdue):
			f.cancel()
		}
	}
}

// leading is the node that leads a group as far as this node knows: what its own replica knows
// comes before what others say.
func (rt *Router) leading(g base.GroupID) base.NodeID {
	if r := rt.Local(g); r != nil {
		if n := r.Heard(); n != 0 {
			return n
		}
	}
	return rt.Directory.Leader(g)
}
