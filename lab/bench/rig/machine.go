package rig

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

// CPUTime is the processor time that this process has used.
func CPUTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Pick chooses between a value for quick runs and one for full runs.
func Pick[T any](p Params, quick, full T) T {
	if p.Quick {
		return quick
	}
	return full
}

// Each runs f for 0 to n-1 at once, waits for all, and returns their errors.
func Each(n int, f func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = f(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// Pause waits for a time, or until ctx ends.
func Pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Await calls missing again and again until it returns "". After minutes it fails with the last
// text that missing returned.
func Await(ctx context.Context, missing func() string) error {
	for deadline := time.Now().Add(3 * time.Minute); ; { // only what hangs takes so long
		what := missing()
		if what == "" {
			return nil
		}
		if time.Now().After(deadline) {
			return errors.New(what)
		}
		if err := Pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// Patience is how long a client waits for one transaction.
const Patience = 20 * time.Second

// OpenMySQL connects as root without password to a server on loopback.
func OpenMySQL(port int, db string) (*sql.DB, error) {
	return sql.Open("mysql", fmt.Sprintf("root@tcp(127.0.0.1:%d)/%s", port, db))
}
