package wan

import (
	"context"
	"errors"
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// A peer that is stopped, or cut off without a word, breaks no connection for a long time: TCP
// waits for minutes, in case the network recovers. So the watchers of heartbeats tell the transport
// which peers are lost, and it gives up what waits for their answers.

var errLost = errors.New("it is lost: neither its heartbeats arrive here, nor ours there")

// lost is whether a peer is.
type lost struct {
	mu sync.Mutex
	is bool
	// ch is closed when the peer becomes lost; made when somebody waits.
	ch chan struct{}
}

// set reports whether that is news.
func (l *lost) set(is bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is == is {
		return false
	}
	l.is = is
	if is && l.ch != nil {
		close(l.ch)
		l.ch = nil
	}
	return true
}

// watch returns what is closed when the peer becomes lost; is: it is already.
func (l *lost) watch() (ch <-chan struct{}, is bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is {
		return nil, true
	}
	if l.ch == nil {
		l.ch = make(chan struct{})
	}
	return l.ch, false
}

// get reports whether the peer is lost.
func (l *lost) get() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is
}

// hurried reports whether Calls of a kind end when the peer is lost. Somebody waits for each but
// those of snapshots, which take their time.
func hurried(k wire.Kind) bool { return classOf(k) != classBulk }

// SetLost implements [Transport].
func (c *core) SetLost(id base.NodeID, is bool) {
	if id == c.self {
		return
	}
	if c.counters(id).lost.set(is) {
		c.log.Info("what waits for the answer of a peer", "peer", uint32(id), "lost", is)
	}
}

// Lost implements [Transport].
func (c *core) Lost(id base.NodeID) bool { return id != c.self && c.counters(id).lost.get() }

// despiteLost is the key of [DespiteLost] in a context.
type despiteLost struct{}

// DespiteLost is a context whose Calls neither are refused nor end because the peer is lost
// ([Transport].SetLost). Their callers know more of the path than who watches heartbeats.
func DespiteLost(ctx context.Context) context.Context {
	return context.WithValue(ctx, despiteLost{}, true)
}

func isDespiteLost(ctx context.Context) bool { return ctx.Value(despiteLost{}) != nil }

// refuseLost is the error of a Call to a lost peer; nil if it may be tried.
func (c *core) refuseLost(ctx context.Context, id base.NodeID, kind wire.Kind) error {
	if !hurried(kind) {
		return nil
	}
	if _, is := c.counters(id).lost.watch(); is && !isDespiteLost(ctx) {
		return unsent(base.CodeUnavailable, errLost, "%s request to node %d was not sent: %v", kind, id, errLost)
	}
	return nil
}
