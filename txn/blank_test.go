package txn

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
)

// TestBlankNames: a node has just been started and knows nothing of the time when a transaction
// begins there. Once it does, the transaction commits, or locks and commits, under a name of that
// time (TXN-9). With the name of before the owners take it for one that is older than what they
// remember.
func TestBlankNames(t *testing.T) {
	for _, broken := range []bool{false, true} {
		for _, locks := range []bool{false, true} {
			bubble(t, 3, 1, func(t *testing.T, c *cluster) {
				a := key(1, 1, 1, "a")
				put(t, c.db(1), a, "0")
				n := c.nodes[1]
				n.halt()
				c.modeless, c.tc = true, func(tc *Config) { tc.BlankNames = broken }
				n.start()
				x := n.db.Begin(kv.Options{})
				old := x.(*Txn).ID()
				go func() {
					time.Sleep(200 * time.Millisecond)
					n.clock.Confirm()
					n.clock.Grant(time.Now().Add(time.Hour))
					n.clock.Adopt(clock.GClock, 1, 0)
				}()
				if broken {
					time.Sleep(300 * time.Millisecond) // the owner is asked when all else is well
				}
				var err error
				if locks {
					_, err = x.Get(ctx(t), []base.Key{a}, kv.LockExclusive)
				}
				if err == nil {
					x.Put(a, []byte("1"), 0)
					_, err = x.Commit(ctx(t))
				}
				if broken {
					if base.CodeOf(err) != base.CodeAborted {
						t.Errorf("locks %v: the owner takes a transaction of time 0: %v", locks, err)
					}
					return
				}
				if err != nil {
					t.Fatalf("locks %v: %v", locks, err)
				}
				now := n.clock.Latest()
				if id := x.(*Txn).ID(); id == old || now.Sub(id.Start()) > time.Minute {
					t.Errorf("locks %v: the transaction is called %v as before, or %v, at %v", locks, old, id, now)
				}
			})
		}
	}
}
