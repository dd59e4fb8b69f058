package txn

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// besideSlot runs a crossing transaction that writes a row of its region and one of another beside
// another one, which pauses longer and longer, so that it falls on either side of the votes and of
// the slot.
func besideSlot(t *testing.T, c *cluster, ra int, a base.Key, rb int, b base.Key,
	other func(ctx context.Context, val string, begin func(), pause time.Duration) (base.Timestamp, []string, error)) {
	var before, after int
	for i := range 60 {
		old, val := fmt.Sprint("old", i), fmt.Sprint("new", i)
		put(t, c.db(ra), a, old)
		put(t, c.db(rb), b, old)
		var slot, ts base.Timestamp
		var perr, oerr error
		var saw []string
		var wg sync.WaitGroup
		begin := sync.OnceFunc(func() {
			wg.Go(func() {
				slot, perr = do(t.Context(), c.db(ra), kv.Options{Relay: true}, func(x kv.Txn) error {
					if _, err := x.Get(t.Context(), []base.Key{a, b}, kv.LockShared); err != nil {
						return err
					}
					x.Put(a, []byte(val), 0)
					x.Put(b, []byte(val), 0)
					return nil
				})
			})
		})
		ts, saw, oerr = other(t.Context(), val, begin, time.Duration(i)*8*time.Millisecond)
		begin()
		wg.Wait()
		for _, err := range []error{perr, oerr} {
			if err != nil && !base.Retryable(err) {
				t.Fatalf("round %d: %v", i, err)
			}
		}
		if perr != nil || oerr != nil {
			continue
		}
		want := old
		if ts > slot {
			want = val
			after++
		} else {
			before++
		}
		for _, s := range saw {
			if s != want {
				t.Errorf("round %d: committed at %s beside a slot at %s, and saw %q, not %q throughout", i, ts, slot, saw, want)
				break
			}
		}
	}
	if before+after < 10 {
		t.Errorf("only %d committed before the slot and %d after it: the test shows little", before, after)
	}
}

// TestOneGroupBesideSlot: a crossing transaction whose reads and writes lie in one group commits
// there in one round. What it has read may be due to change at a slot that was voted for before it
// came; its commit must not lie behind that slot.
func TestOneGroupBesideSlot(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		a, b, d := key(1, 1, 1, "a"), key(1, 2, 2, "b"), key(1, 1, 1, "d")
		besideSlot(t, c, 1, a, 2, b, func(ctx context.Context, val string, begin func(),
			pause time.Duration) (base.Timestamp, []string, error) {
			var saw []string
			ts, err := do(ctx, c.db(3), kv.Options{Relay: true}, func(x kv.Txn) error {
				rows, err := x.Get(ctx, []base.Key{a}, kv.LockShared)
				if err != nil {
					return err
				}
				saw = append(saw, string(rows[0].Value))
				begin()
				time.Sleep(pause)
				x.Put(d, []byte(val), 1)
				return nil
			})
			return ts, saw, err
		})
	})
}
