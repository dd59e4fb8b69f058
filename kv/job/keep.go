package job

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// Regularly calls renew each time that a while has passed, until it returns false, ctx ends, or
// stop is called, which waits for the last call.
func Regularly(ctx context.Context, every time.Duration, renew func(context.Context) bool) (stop func()) {
	ctx, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for more := true; more; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				more = renew(ctx)
			}
		}
	})
	return func() { end(); wg.Wait() }
}

// followEvery is how often a node looks for jobs that nobody does.
const followEvery = 5 * time.Second

// Follow calls adopt with the jobs of a kind whose lease nobody holds, now and then, until ctx
// ends. It reads them only when jobs have changed, or some run that may become free. That they
// cannot be read is not told: backups look for theirs, too, and say so.
func Follow(ctx context.Context, db kv.DB, kind string, adopt func(context.Context, Record)) {
	var seen base.Timestamp
	running := true
	stop := Regularly(ctx, followEvery, func(ctx context.Context) bool {
		at, _ := db.MetaVersion(Span())
		if at <= seen && !running {
			return true
		}
		all, err := List(ctx, db)
		if err != nil {
			return true
		}
		seen, running = at, false
		for _, rec := range all {
			if rec.Kind != kind {
				continue
			}
			running = running || rec.State == Running
			if rec.Free(db.Time()) {
				adopt(ctx, rec)
			}
		}
		return true
	})
	<-ctx.Done()
	stop()
}

// Keep renews a lease, with the progress of the job (nil: nobody knows it), until stop is called or
// the lease is lost. It calls cancel with ErrCanceled, ErrPaused, or ErrLost once another node may
// go on.
func (l *Lease) Keep(ctx context.Context, cancel context.CancelCauseFunc, log *slog.Logger,
	progress func() (done, total int64)) (stop func()) {
	rec := l.Record()
	every, _ := rec.terms()
	return Regularly(ctx, every, func(ctx context.Context) bool {
		if progress != nil {
			l.Did(progress())
		}
		left := l.Record().Until.Sub(l.db.Time())
		try, done := context.WithTimeout(ctx, max(left, 0))
		err := l.Renew(kv.WithPatience(try, kv.NewPatience()))
		done()
		switch {
		case err == nil || ctx.Err() != nil:
		case errors.Is(err, ErrEnded): // with what has made its work visible
			return false
		case errors.Is(err, ErrLost), errors.Is(err, ErrCanceled), errors.Is(err, ErrPaused):
			cancel(err)
			return false
		case l.Record().Until <= l.db.Time():
			log.Warn("the lease of a job could not be renewed: another node may go on with it", "job", l.ID(), "err", err)
			cancel(ErrLost)
			return false
		}
		return true
	})
}

// HeldIn fails in a transaction with ErrLost or ErrEnded, unless this node still holds the lease
// when it commits: for what a node must not do that held the lease before.
func (l *Lease) HeldIn(ctx context.Context, t kv.Txn) error {
	return l.update(ctx, t, func(*Record) {})
}

// Remove ends a job that has succeeded, and forgets it at once.
func (l *Lease) Remove(ctx context.Context) error {
	_, err := kv.Run(ctx, l.db, kv.Options{}, func(t kv.Txn) error {
		if err := l.update(ctx, t, func(*Record) {}); err != nil {
			return err
		}
		t.Delete(keyOf(l.ID()))
		return nil
	})
	return err
}
