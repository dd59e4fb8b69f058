package txn

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestLostLeaderIsNotWaitedFor: requests that were sent to a leader in a region that is lost are
// made again at the next leader as soon as there is one; the transport would take ten seconds to
// give them up.
func TestLostLeaderIsNotWaitedFor(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		a, b := key(1, 1, 1, "a"), key(1, 1, 1, "b")
		put(t, c.db(1), a, "1", b, "1")
		c.net.Isolate(1)
		begin := time.Now()
		done := make(chan time.Duration, 2)
		go func() { // a read under a lock
			_, err := kv.Run(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error { return update(t, x, a) })
			if err != nil {
				t.Error(err)
			}
			done <- time.Since(begin)
		}()
		go func() { // a commit, whose fate is unknown at first
			_, err := kv.Run(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error { x.Put(b, []byte("2"), 0); return nil })
			if err != nil {
				t.Error(err)
			}
			done <- time.Since(begin)
		}()
		for range 2 {
			if d := <-done; d > 7*time.Second {
				t.Errorf("a transaction on rows of a lost leader took %v", d)
			}
		}
		if v := get(t, c.db(3), a) + get(t, c.db(3), b); v != "22" {
			t.Errorf("read %s", v)
		}
		c.net.HealAll()
	})
}

func update(t *testing.T, x kv.Txn, k base.Key) error {
	rows, err := x.Get(ctx(t), []base.Key{k}, kv.LockExclusive)
	if err == nil {
		x.Put(rows[0].Key, []byte("2"), 0)
	}
	return err
}
