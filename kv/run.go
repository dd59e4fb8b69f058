package kv

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/godwitdb/godwit/base"
)

const (
	backoffMin = time.Millisecond
	backoffMax = 500 * time.Millisecond
)

func run(ctx context.Context, db DB, opts Options, fn func(Txn) error) (base.Timestamp, error) {
	if opts.Age == 0 {
		opts.Age = db.Clock()
	}
	aborts := 0
	for backoff := backoffMin; ; backoff = min(2*backoff, backoffMax) {
		t := db.Begin(opts)
		err := fn(t)
		if err == nil {
			var ts base.Timestamp
			if ts, err = t.Commit(ctx); err == nil {
				return ts, nil
			}
		}
		t.Rollback(ctx)
		if !base.Retryable(err) {
			return 0, err
		}
		if base.CodeOf(err) == base.CodeAborted {
			aborts++
			opts.Relay = opts.Relay && aborts < RelayTries
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(backoff/2 + rand.N(backoff)):
		}
	}
}
