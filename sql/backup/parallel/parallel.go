// Package parallel does several things at once.
package parallel

import (
	"context"
	"runtime"
	"sync"
)

// Half is as many as half of the processors, at most most: clients of this node take turns with a
// backup, and those of other processes of the machine do not.
func Half(most int) int { return max(1, min(most, runtime.GOMAXPROCS(0)/2)) }

// Each runs fn for all indexes below n, several at a time, until one fails.
func Each(ctx context.Context, n, atOnce int, fn func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	next := make(chan int)
	for range min(n, atOnce) {
		wg.Go(func() {
			for i := range next {
				if err := fn(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
feed:
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	wg.Wait()
	return context.Cause(ctx)
}
