// Package background runs what a gateway does beside its callers.
package background

import (
	"context"
	"sync"
	"time"
)

// taskTimeout bounds one task in the background.
const taskTimeout = 10 * time.Second

// Tasks is the work of a gateway in the background: releases and outcomes on their way to owners.
// What is not done because the node stops, the owners' recovery makes good.
type Tasks struct {
	stopped chan struct{}
	slots   chan struct{}
	wg      sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

// Init is called once, before all else; most is how many tasks run at once.
func (b *Tasks) Init(most int) {
	b.stopped, b.slots = make(chan struct{}), make(chan struct{}, most)
}

// Close ends the tasks and waits for them.
func (b *Tasks) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stopped)
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// Spawn runs f in the background; beyond the bound it runs here and now.
func (b *Tasks) Spawn(f func(ctx context.Context)) {
	if full := b.begin(f); full {
		b.run(f)
	}
}

// Go runs f beside its caller, unless the tasks are closed; they do not close before it ends.
func (b *Tasks) Go(f func()) (begun bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.wg.Go(f)
	}
	return !b.closed
}

// For runs f beside its caller, who waits for it in the end. It is told to end with ctx, and with
// the tasks. begun is false if they are closed.
func (b *Tasks) For(ctx context.Context, f func(ctx context.Context)) (begun bool) {
	return b.Go(func() { b.within(ctx, f) })
}

// Stopped is closed when the tasks are to end.
func (b *Tasks) Stopped() <-chan struct{} { return b.stopped }

// begin starts f unless the tasks are closed. full: there are as many as may be.
func (b *Tasks) begin(f func(ctx context.Context)) (full bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	select {
	case b.slots <- struct{}{}:
	default:
		return true
	}
	b.wg.Go(func() {
		defer func() { <-b.slots }()
		b.run(f)
	})
	return false
}

func (b *Tasks) run(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), taskTimeout)
	defer cancel()
	b.within(ctx, f)
}

// within runs f until the tasks end.
func (b *Tasks) within(ctx context.Context, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan struct{})
	defer close(done)
	go func() {
		select {
		case <-b.stopped:
			cancel()
		case <-done:
		}
	}()
	f(ctx)
}
