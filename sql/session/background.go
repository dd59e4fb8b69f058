package session

import (
	"context"
	"sync"
	"time"
)

// background is work of a gateway that no statement waits for.
type background struct {
	mu     sync.Mutex
	ctx    context.Context // nil: nothing was begun yet
	cancel context.CancelFunc
	closed bool
	wg     sync.WaitGroup
}

// Go runs f in the background. Its context ends when the gateway is closed; from then on f is not
// run, and began is false.
func (e *Env) Go(f func(ctx context.Context)) (began bool) {
	b := &e.background
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	if b.ctx == nil {
		b.ctx, b.cancel = context.WithCancel(context.Background())
	}
	ctx := b.ctx
	b.wg.Go(func() { f(ctx) })
	return true
}

// CloseBackground ends the work in the background and waits for it, but not longer than most: a
// commit whose outcome is unknown may take longer, and ends with the transactions' own stop.
func (e *Env) CloseBackground(most time.Duration) {
	b := &e.background
	b.mu.Lock()
	b.closed = true
	if b.cancel != nil {
		b.cancel()
	}
	b.mu.Unlock()
	done := make(chan struct{})
	go func() {
		b.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(most):
	}
}
