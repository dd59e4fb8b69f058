package txn

import (
	"fmt"
	"runtime"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// pieces makes every transaction that writes a large one, with pieces of so many writes, and has it
// keep next to nothing in memory, and few locks.
func pieces(writes int) func(*cluster) {
	return func(c *cluster) {
		c.tc = func(tc *Config) {
			tc.Limits.EntryBytes, tc.Limits.PieceWrites, tc.Limits.SpillBytes = 1, writes, 500
		}
		c.oc = func(oc *owner.Config) { oc.Bulk.Escalate = 3 }
	}
}

// TestLargeStrictSerializable is TestStrictSerializable with transactions that commit in pieces of
// one write.
func TestLargeStrictSerializable(t *testing.T) {
	from, to := seeds(t, 4)
	for seed := from; seed < to; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			runtime.GC()
			runtime.GC()
			cryptotest.SetGlobalRandom(t, uint64(seed)+1)
			synctest.Test(t, func(t *testing.T) { soak(t, uint64(seed), 8, pieces(1)) })
		})
	}
}

// TestLargeBites: without a rule of STAGE the checkers find something.
func TestLargeBites(t *testing.T) {
	for name, leave := range map[string]func(*cluster, *owner.Config){
		"STAGE-2": func(c *cluster, oc *owner.Config) { oc.Unlocked = true },
		"STAGE-3": func(c *cluster, oc *owner.Config) { oc.HalfSettled = true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(12) {
				var found error
				synctest.Test(t, func(t *testing.T) {
					found = violation(t, seed, 8, pieces(1), func(c *cluster) {
						// two votes for one row keep a later leader from serving
						c.calm = true
						c.oc = func(oc *owner.Config) { leave(c, oc) }
					})
				})
				if found != nil {
					t.Logf("seed %d: %v", seed, found)
					return
				}
			}
			t.Error("the checkers find nothing")
		})
	}
}

// TestStagedByAnother plays STAGE-1: a transaction stages two pieces, the leader changes, another
// one inserts the same row, and the first one stages a third piece and votes. It does not have the
// locks of its pieces any more, and must not commit.
func TestStagedByAnother(t *testing.T) {
	for _, without := range []bool{false, true} {
		t.Run(fmt.Sprint("without=", without), func(t *testing.T) {
			voted := false
			play := func() {
				bubble(t, 3, 1, func(t *testing.T, c *cluster) {
					g := base.DataGroup(1, 1)
					name := func(n uint32) *wire.TxnMeta {
						id := base.MakeTxnID(c.db(1).Clock(), 1, n)
						return &wire.TxnMeta{Id: id[:], GatewayRegion: 1}
					}
					large := name(7)
					send := func(n *node, q *wire.CommitRequest) error {
						if q.Group = uint32(g); q.Txn == nil {
							q.Txn = large
						}
						return owner.ErrorOf(n.set.Replica(g).Commit(ctx(t), q).Status)
					}
					insert := func(name string) []*wire.Write {
						return []*wire.Write{{Kind: wire.WriteKind_INSERT, Key: key(1, 1, 1, name), Value: []byte("large")}}
					}
					must(t, send(c.nodes[0], &wire.CommitRequest{Stage: 1, Writes: insert("a")}))
					must(t, send(c.nodes[0], &wire.CommitRequest{Stage: 2, Writes: insert("b")}))
					c.net.Cut(1, 2)
					c.net.Cut(1, 3)
					var next *node
					for i := 0; next == nil; i++ {
						for _, n := range c.nodes[1:] {
							if _, ok := n.set.Replica(g).Serving(); ok {
								next = n
							}
						}
						if i == 20_000 {
							t.Fatal("nobody leads")
						}
						time.Sleep(time.Millisecond)
					}
					err := send(next, &wire.CommitRequest{Stage: 3, Writes: insert("c")})
					if !without {
						if base.CodeOf(err) != base.CodeAborted {
							t.Fatalf("a piece behind those of another leader: %v", err)
						}
						return
					}
					if err == nil {
						must(t, send(next, &wire.CommitRequest{Txn: name(8), Writes: insert("a")}))
						err = send(next, &wire.CommitRequest{Prepare: true, Pieces: 3, Participants: []uint32{uint32(g)}})
					}
					// The new leader may have refused it before its third piece came, at a tick.
					if voted = err == nil; !voted && base.CodeOf(err) != base.CodeAborted {
						t.Fatalf("without the rule it votes: %v", err)
					}
				}, func(c *cluster) { c.oc = func(oc *owner.Config) { oc.AnyPieces = without } })
			}
			play()
			for tries := 1; without && !voted; tries++ {
				if tries == 20 {
					t.Fatal("without the rule it never votes")
				}
				play()
			}
		})
	}
}

// TestLarge commits many rows of several shards and homes in pieces, changes them all, and deletes
// them. All of it is there, or nothing is.
func TestLarge(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		const rows = 300
		at := func(i int) base.Key { return key(1+i%2, 1+i%3, uint64(1+i%3), fmt.Sprintf("%05d", i)) }
		keys := make([]base.Key, rows)
		for i := range keys {
			keys[i] = at(i)
		}
		count := func(value string) (n int) {
			x := c.db(2).Begin(kv.Options{ReadOnly: true})
			defer x.Rollback(ctx(t))
			got, err := x.Get(ctx(t), keys, kv.LockNone)
			must(t, err)
			for _, r := range got {
				if r.Value != nil && string(r.Value) == value {
					n++
				}
			}
			return n
		}
		_, err := do(ctx(t), c.db(1), kv.Options{}, func(x kv.Txn) error {
			for i := range keys {
				must(t, x.Insert(keys[i], []byte("a"), base.RegionID(1+i%3)))
			}
			return nil
		})
		must(t, err)
		if n := count("a"); n != rows {
			t.Fatalf("%d of %d rows are there", n, rows)
		}
		if n := c.db(1).stats.TwoRound.Load(); n == 0 {
			t.Error("the transaction was no large one")
		}
		// a key that is there is told, and nothing changes
		_, err = do(ctx(t), c.db(3), kv.Options{}, func(x kv.Txn) error {
			for i := range keys[:rows-1] {
				x.Put(keys[i], []byte("b"), 0)
			}
			return x.Insert(keys[rows-1], []byte("b"), 0)
		})
		if base.CodeOf(err) != base.CodeExists {
			t.Fatalf("insert of a row that is there: %v", err)
		}
		time.Sleep(time.Second)
		if n := count("a"); n != rows {
			t.Fatalf("%d of %d rows are as they were", n, rows)
		}
		_, err = do(ctx(t), c.db(3), kv.Options{}, func(x kv.Txn) error {
			for i := range keys {
				x.Put(keys[i], []byte("b"), 0)
			}
			return nil
		})
		must(t, err)
		if n := count("b"); n != rows {
			t.Fatalf("%d of %d rows are changed", n, rows)
		}
		_, err = do(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error {
			for i := range keys {
				x.Delete(keys[i])
			}
			return nil
		})
		must(t, err)
		if n := count("b"); n != 0 {
			t.Fatalf("%d of %d rows are left", n, rows)
		}
		time.Sleep(5 * time.Second)
		for _, n := range c.nodes {
			for _, r := range n.set.Replicas() {
				if staged := r.Staged(); staged != 0 {
					t.Errorf("node %d, group %v: %d transactions have pieces left", n.id, r.ID(), staged)
				}
			}
		}
	}, pieces(20))
}

// TestEscalation: a transaction that has many locks locks what else it reads as ranges, so that
// there is no bound of the rows that it may lock.
func TestEscalation(t *testing.T) {
	bubble(t, 1, 1, func(t *testing.T, c *cluster) {
		x := c.db(1).Begin(kv.Options{})
		for batch := range 20 {
			var keys []base.Key
			for i := range 10 {
				keys = append(keys, key(1, 1, 1, fmt.Sprintf("%03d", (10*batch+i)*7%200)))
			}
			_, err := x.Get(ctx(t), keys, kv.LockExclusive)
			must(t, err)
		}
		if n := len(c.nodes[0].set.Replica(base.DataGroup(1, 1)).Locks(0)); n > 60 {
			t.Errorf("it holds %d locks", n)
		}
		for i := range 200 {
			_, err := do(ctx(t), c.db(1), kv.Options{Policy: kv.NoWait}, func(y kv.Txn) error {
				_, err := y.Get(ctx(t), []base.Key{key(1, 1, 1, fmt.Sprintf("%03d", i))}, kv.LockShared)
				return err
			})
			if base.CodeOf(err) != base.CodeAborted {
				t.Fatalf("another one reads row %d under a lock: %v", i, err)
			}
		}
		x.Rollback(ctx(t))
	}, func(c *cluster) { c.oc = func(oc *owner.Config) { oc.Bulk.Escalate, oc.Limits.PerTxn = 20, 60 } })
}
