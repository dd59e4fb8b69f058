package txn

import (
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestDeadlock: transactions that lock two rows in opposite orders. The younger
// dies soon, wherever the rows are, and the older commits.
func TestDeadlock(t *testing.T) {
	for _, w := range []struct {
		name             string
		regions, gateway int
		a, b             base.Key
		within           time.Duration
	}{
		{"one owner", 1, 1, key(1, 1, 1, "a"), key(1, 1, 1, "b"), 0},
		{"two owners of one node", 1, 1, key(1, 1, 1, "a"), key(2, 1, 1, "b"), 20 * time.Millisecond},
		{"two nodes", 3, 2, key(1, 1, 1, "a"), key(1, 2, 2, "b"), time.Second},
	} {
		t.Run(w.name, func(t *testing.T) {
			bubble(t, w.regions, 2, func(t *testing.T, c *cluster) {
				put(t, c.db(1), w.a, "1")
				put(t, c.db(w.gateway), w.b, "1")
				time.Sleep(time.Second)
				older, younger := c.db(1).Begin(kv.Options{}), c.db(w.gateway).Begin(kv.Options{Age: c.db(1).Clock() + 1})
				lock := func(x kv.Txn, k base.Key) error {
					_, err := x.Get(ctx(t), []base.Key{k}, kv.LockExclusive)
					return err
				}
				must(t, lock(older, w.a))
				must(t, lock(younger, w.b))
				start := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() {
					if err := lock(younger, w.a); base.CodeOf(err) != base.CodeAborted {
						t.Errorf("younger: %v", err)
					}
					younger.Rollback(ctx(t))
				})
				wg.Go(func() { must(t, lock(older, w.b)) })
				wg.Wait()
				if d := time.Since(start); d > w.within {
					t.Errorf("it took %v", d)
				}
				older.Put(w.a, []byte("2"), 0)
				older.Put(w.b, []byte("2"), 0)
				_, err := older.Commit(ctx(t))
				must(t, err)
			})
		})
	}
}

// TestDeadlockOfVotes: two transactions that write the same two rows of two regions commit at once;
// each has its vote in its own region and waits in the other's. Only the younger gives up. (Both
// once did, at the same time, again and again.)
func TestDeadlockOfVotes(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		rows := []base.Key{key(1, 1, 1, "a"), key(1, 2, 2, "b")}
		for i, k := range rows {
			put(t, c.db(i+1), k, "1")
		}
		time.Sleep(time.Second)
		now := c.db(1).Clock()
		var wg sync.WaitGroup
		for i := range rows {
			x := c.db(i + 1).Begin(kv.Options{Age: now + base.Timestamp(i)})
			for _, k := range rows {
				x.Put(k, []byte("2"), 0)
			}
			wg.Go(func() {
				start := time.Now()
				_, err := x.Commit(ctx(t))
				if i == 0 && err != nil {
					t.Errorf("older: %v", err)
				}
				if i == 1 && base.CodeOf(err) != base.CodeAborted {
					t.Errorf("younger: %v", err)
				}
				if d := time.Since(start); d > time.Second {
					t.Errorf("transaction %d took %v", i, d)
				}
			})
		}
		wg.Wait()
	})
}

// TestYoungerWaits: without a deadlock a younger transaction waits for an older
// one, as long as it takes on a cluster of one node.
func TestYoungerWaits(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		a := key(1, 1, 1, "a")
		x := c.db(1).Begin(kv.Options{})
		_, err := x.Get(ctx(t), []base.Key{a}, kv.LockExclusive)
		must(t, err)
		time.AfterFunc(5*time.Second, func() { x.Rollback(ctx(t)) })
		start := time.Now()
		put(t, c.db(1), a, "1")
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("it waited %v", d)
		}
	})
}
