package txn

import (
	"context"
	"sync"
	"time"
)

// taskTimeout bounds one task in the background.
const taskTimeout = 10 * time.Second

// tasks is the work of a gateway in the background: releases and outcomes on their way to owners.
// What is not done because the node stops, the owners' recovery makes good.
type tasks struct {
	stopped chan struct{}
	slots   chan struct{}
	wg      sync.WaitGroup

	mu     sync.Mutex
	closed bool
}

func (b *tasks) init(most int) {
	b.stopped, b.slots = make(chan struct{}), make(chan struct{}, most)
}

// close ends the tasks and waits for them.
func (b *tasks) close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.stopped)
	}
	b.mu.Unlock()
	b.wg.Wait()
}

// spawn runs f in the background; beyond the bound it runs here and now.
func (b *tasks) spawn(f func(ctx context.Context)) {
	if full := b.begin(f); full {
		b.run(f)
	}
}

// begin starts f unless the tasks are closed. full: there are as many as may be.
func (b *tasks) begin(f func(ctx context.Context)) (full bool) {
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

func (b *tasks) run(f func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), taskTimeout)
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
