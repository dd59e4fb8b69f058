package kv

import (
	"context"
	"errors"
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
	if opts.Relay && opts.Touched == nil {
		opts.Touched = &Touched{}
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
			opts.Relay = opts.MayRelay(aborts)
		}
		select {
		case <-ctx.Done():
			return 0, err
		case <-time.After(Pause(err, backoff, db.Clock())):
		}
	}
}

// Pause is how long to wait before an aborted transaction is tried again: until the cause of the
// abort is over, if that is known, or else about backoff. A retry before that would lose again, and
// hold up others.
func Pause(err error, backoff time.Duration, now base.Timestamp) time.Duration {
	var e *base.Error
	if errors.As(err, &e) && e.After > now {
		return min(e.After.Sub(now), backoffMax) + rand.N(2*backoffMin)
	}
	return backoff/2 + rand.N(backoff)
}
