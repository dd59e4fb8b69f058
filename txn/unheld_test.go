package txn

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/txn/slottime"
)

func catalogKey(name string) base.Key {
	return append(base.IndexPrefix(base.MetaShard, base.CatalogTable, 0, 0), name...)
}

// TestSlotsBesideDefinitions: definitions change all the time, so that a node knows for no longer
// than the next heartbeats that the one which its client relies on holds, while votes take longer.
// A client that is alone with its rows loses no transaction for that: the gateway locks instead of
// proposing a slot (REL-7), and proposes slots again when definitions rest. Neither holds up the
// other.
func TestSlotsBesideDefinitions(t *testing.T) {
	hold := func(c *cluster) {
		c.oc = func(o *owner.Config) { o.Hold = func() time.Duration { return time.Second } }
	}
	for gateway := 1; gateway <= 3; gateway++ { // 1 leads the meta group
		t.Run(fmt.Sprint(gateway), func(t *testing.T) {
			bubble(t, 3, 1, func(t *testing.T, c *cluster) {
				db, own := c.db(gateway), catalogKey("own")
				one, two := 1+gateway%3, 1+(gateway+1)%3
				a, b := key(1, one, 1, "a"), key(1, two, 2, "b")
				put(t, c.db(1), own, "0")
				put(t, c.db(one), a, "0")
				put(t, c.db(two), b, "0")
				stop := make(chan struct{})
				var wg sync.WaitGroup
				var slowest time.Duration
				wg.Go(func() {
					for i := 0; ; i++ {
						start := time.Now()
						put(t, c.db(1), catalogKey("other"), fmt.Sprint(i))
						slowest = max(slowest, time.Since(start))
						select {
						case <-stop:
							return
						case <-time.After(time.Duration(i%7) * 100 * time.Millisecond):
						}
					}
				})
				var locked int
				var total time.Duration
				transfer := func(careful bool) {
					start := time.Now()
					var last *Txn
					_, err := do(ctx(t), db, kv.Options{Relay: true, Careful: careful}, func(x kv.Txn) error {
						last = x.(*Txn)
						for _, k := range []base.Key{a, b} {
							if _, err := x.Get(ctx(t), []base.Key{k}, kv.LockExclusive); err != nil {
								return err
							}
							x.Put(k, []byte("1"), 0)
						}
						at, err := db.clock.Snapshot(ctx(t))
						x.Pin(at.Add(-10*time.Millisecond), own)
						return err
					})
					if took := time.Since(start); err != nil || took > 1200*time.Millisecond {
						t.Errorf("a transaction of a client that is alone: %v after %v", err, took)
					}
					total += time.Since(start)
					if last.mode != bySlot {
						locked++
					}
				}
				for i := range 40 {
					transfer(i%2 == 0)
					time.Sleep(time.Duration(i) * 7 * time.Millisecond)
				}
				close(stop)
				wg.Wait()
				if slowest > time.Second {
					t.Errorf("a change of a definition took %v", slowest)
				}
				time.Sleep(5 * time.Second)
				if locked == 0 && gateway != 1 {
					t.Error("there was always a slot")
				}
				t.Logf("%d of 40 transactions locked, they took %v on average, a change of a definition %v at most",
					locked, total/40, slowest)
				locked = 0
				if transfer(true); locked > 0 {
					t.Error("no slot is proposed when definitions rest")
				}
			}, hold)
		})
	}
}

// TestSlotsMissed: votes take longer to arrive than any slot lies ahead. The transaction is not
// told to try again: it locks what it has read, under a name that nobody has refused yet.
func TestSlotsMissed(t *testing.T) {
	patient := func(c *cluster) { c.tc = func(tc *Config) { tc.Limits.Commit = time.Minute } }
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		a, b := key(1, 1, 1, "a"), key(1, 2, 2, "b")
		put(t, c.db(1), a, "0")
		put(t, c.db(2), b, "0")
		time.Sleep(2 * time.Second)
		c.net.SetPath(1, 2, wan.LinkSpec{Delay: slottime.Max + 100*time.Millisecond})
		db := c.db(1)
		var last *Txn
		_, err := do(ctx(t), db, kv.Options{Relay: true}, func(x kv.Txn) error {
			last = x.(*Txn)
			_, err := x.Get(ctx(t), []base.Key{a, b}, kv.LockExclusive)
			x.Put(a, []byte("1"), 0)
			x.Put(b, []byte("1"), 0)
			return err
		})
		if missed := db.stats.SlotsMissed.Load(); err != nil || last.mode != byLocks || missed != maxSlots {
			t.Errorf("%v after %d slots that were missed, mode %v", err, missed, last.mode)
		}
		if got := get(t, c.db(2), b) + get(t, c.db(3), a); got != "11" {
			t.Errorf("the rows are %q", got)
		}
		for _, k := range []base.Key{a, b} { // nothing is locked any more
			start := time.Now()
			put(t, c.db(3), k, "2")
			if took := time.Since(start); took > time.Second {
				t.Errorf("the next change took %v", took)
			}
		}
	}, patient)
}
