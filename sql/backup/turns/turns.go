// Package turns has backups wait for the statements of clients.
package turns

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/sql/admit"
)

const (
	// Every is after how many rows a backup lets statements of clients compute.
	Every = 64
	// askAgain is how long it waits when more statements want to compute than can queue.
	askAgain = 100 * time.Millisecond
)

// Yield waits until a backup may go on computing: it takes turns with the statements of the node's
// clients. It has time, and so is never refused; the error is the cause of the context's end.
func Yield(ctx context.Context, t *admit.Turn) error {
	for {
		err := t.Yield(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(askAgain):
		}
	}
}
