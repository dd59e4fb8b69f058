package node

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// lifecycle holds how far a node has become ready, failed or ended.
type lifecycle struct {
	ready      chan struct{} // closed when the node serves
	fatal      chan error    // the error that made the node useless
	stopc      chan struct{} // closed when Close has begun
	ending     sync.Once
	leaving    atomic.Bool // Close was called
	background sync.WaitGroup

	mu       sync.Mutex
	closers  []func() error // what Close calls, in this order
	closed   bool           // the closers have been called
	stopping bool           // Close has begun
}

func (l *lifecycle) init() {
	l.ready, l.stopc, l.fatal = make(chan struct{}), make(chan struct{}), make(chan error, 1)
}

// drainTimeout bounds the hand-over of leads at the end of a node's life.
const drainTimeout = 3 * time.Second

func (n *Node) stopped() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.stopping
}

// closeLast adds to the end of what Close does, closeFirst to its beginning.
func (n *Node) closeLast(f ...func() error) {
	n.onClose(f, func(old []func() error) []func() error { return append(old, f...) })
}

func (n *Node) closeFirst(f ...func() error) {
	n.onClose(f, func(old []func() error) []func() error { return append(f, old...) })
}

// onClose adds to what Close does. If the node is closed already, it calls f at once.
func (n *Node) onClose(f []func() error, add func([]func() error) []func() error) {
	n.mu.Lock()
	closed := n.closed
	if !closed {
		n.closers = add(n.closers)
	}
	n.mu.Unlock()
	if closed {
		for _, fn := range f {
			_ = fn()
		}
	}
}

func (n *Node) fail(err error) {
	n.log.Error("node stops", "err", err)
	select {
	case n.fatal <- err:
	default:
	}
}

// Ready is closed when the node serves SQL (or, without SQL, transactions).
func (n *Node) Ready() <-chan struct{} { return n.ready }

// Wait returns the error that made the node useless, or nil once it is closed.
func (n *Node) Wait() error {
	err, ok := <-n.fatal
	if !ok {
		return nil
	}
	return err
}

// Failed delivers the error that makes the node useless.
func (n *Node) Failed() <-chan error { return n.fatal }

// Close hands the leads of this node to others while it still serves, lets clients finish and tells
// them to go, and stops the node.
func (n *Node) Close(ctx context.Context) error { return n.shut(ctx, true) }

func (n *Node) shut(ctx context.Context, drain bool) error {
	var errs []error
	n.ending.Do(func() {
		n.leaving.Store(true)
		n.mu.Lock()
		c := n.cluster
		n.mu.Unlock()
		if drain && c != nil {
			ctx, cancel := context.WithTimeout(ctx, drainTimeout)
			c.Drain(ctx)
			cancel()
		}
		n.mu.Lock()
		n.stopping = true
		srv := n.sql
		n.mu.Unlock()
		close(n.stopc)
		if srv != nil {
			errs = append(errs, srv.Close())
		}
		n.mu.Lock()
		closers := n.closers
		n.closers, n.closed = nil, true
		n.mu.Unlock()
		for _, f := range closers {
			// servers close their listeners, too
			if err := f(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		n.background.Wait()
	})
	return errors.Join(errs...)
}

// Kill stops the node as if its process had died, without a message to other nodes. For tests.
func (n *Node) Kill() error {
	n.mu.Lock()
	tr := n.trans
	n.mu.Unlock()
	if tr != nil {
		_ = tr.Close()
	}
	return n.shut(context.Background(), false)
}
