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

// torn has a transaction across regions change two rows, each of them of another region, at a slot,
// and one that locks what it reads look at one of them before and at the other one after that, from
// a gateway of a third region or of the first. It returns how often it was shown the old value of
// one row and the new value of the other, and how often the same of both.
func torn(t *testing.T, c *cluster, gateway int, near bool) (torn, whole int) {
	a, b := key(1, 1, 1, "a"), key(2, 2, 2, "b")
	if near {
		b = key(2, 1, 1, "b") // of another group of the same region
	}
	far := key(1, 3, 3, "far")
	for i := range 40 {
		old, val := fmt.Sprint("old", i), fmt.Sprint("new", i)
		put(t, c.db(1), a, old)
		put(t, c.db(1), b, old)
		put(t, c.db(3), far, old)
		time.Sleep(2 * time.Second)
		var wg sync.WaitGroup
		change := func() {
			_, err := do(t.Context(), c.db(3), kv.Options{Relay: true}, func(x kv.Txn) error {
				if _, err := x.Get(t.Context(), []base.Key{a, b, far}, kv.LockShared); err != nil {
					return err
				}
				for _, k := range []base.Key{a, b, far} {
					x.Put(k, []byte(val), 0)
				}
				return nil
			})
			if err != nil && !base.Retryable(err) {
				t.Error(err)
			}
		}
		var saw []string
		read := func(x kv.Txn, k base.Key) error {
			rows, err := x.Get(t.Context(), []base.Key{k}, kv.LockShared)
			if err == nil {
				saw = append(saw, string(rows[0].Value))
			}
			return err
		}
		x := c.db(gateway).Begin(kv.Options{LockTimeout: 10 * time.Second})
		late := time.Duration(i%20) * 10 * time.Millisecond // it begins before the other's votes, or behind them
		if i < 20 {
			wg.Go(change)
			time.Sleep(late)
		}
		err := read(x, a)
		if i >= 20 {
			wg.Go(change)
			time.Sleep(late)
		}
		if err == nil {
			time.Sleep(300 * time.Millisecond)
			err = read(x, b)
		}
		if err != nil && !base.Retryable(err) {
			t.Errorf("round %d: %v", i, err)
		}
		x.Rollback(context.Background())
		wg.Wait()
		switch {
		case len(saw) < 2:
		case saw[0] != saw[1]:
			torn++
		default:
			whole++
		}
	}
	return torn, whole
}

// TestTornReads: a transaction that locks what it reads is never shown one row as of before a slot,
// and another one as of after it, though it could not commit then (REL-17). Without the rule it is.
func TestTornReads(t *testing.T) {
	for _, near := range []bool{true, false} {
		for _, gateway := range []int{1, 2} {
			for _, broken := range []bool{false, true} {
				bubble(t, 3, 2, func(t *testing.T, c *cluster) {
					torn, whole := torn(t, c, gateway, near)
					t.Logf("near %v, gateway %d, broken %v: torn %d times, whole %d times", near, gateway, broken, torn, whole)
					if (torn > 0) != broken {
						t.Errorf("near %v, gateway %d, broken %v: torn %d times", near, gateway, broken, torn)
					}
					if whole == 0 {
						t.Errorf("near %v, gateway %d, broken %v: it never reads both rows", near, gateway, broken)
					}
				}, func(c *cluster) { c.tc = func(tc *Config) { tc.TornReads = broken } })
			}
		}
	}
}
