package txn

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
)

// prepare prepares a transaction, and ends it a while later through any node. An error that is not
// Ambiguous says that it has not committed and never will.
func (w *worker) prepare(ctx context.Context, x kv.Txn, p *kv.Preparation, id int64) (base.Timestamp, error) {
	p.Name = fmt.Append(nil, "txn", id)
	_, err := x.Commit(ctx)
	stands := err == nil
	if err != nil && base.CodeOf(err) != base.CodeAmbiguous {
		return 0, err
	}
	time.Sleep(time.Duration(w.rng.IntN(10)*w.rng.IntN(10)*w.rng.IntN(60)) * time.Millisecond)
	commit, asked := w.rng.IntN(4) > 0, false
	for ctx.Err() == nil {
		db := w.c.nodes[w.rng.IntN(len(w.c.nodes))].up.Load()
		if db == nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		ts, found, err := db.endPrepared(ctx, p.Name, commit)
		switch {
		case err == nil && found && commit:
			return ts, nil
		case err == nil && found:
			return 0, base.Errorf(base.CodeAborted, "rolled back")
		case err == nil && !stands || err == nil && asked:
			return 0, base.Errorf(base.CodeAmbiguous, "it was never prepared, or is ended")
		case err == nil && !w.c.broken:
			w.c.t.Errorf("transaction %s was prepared, nobody has ended it, and it is gone", p.Name)
			return 0, base.Errorf(base.CodeAmbiguous, "lost")
		case base.CodeOf(err) == base.CodeAmbiguous:
			asked = true
		}
		time.Sleep(time.Duration(50+w.rng.IntN(200)) * time.Millisecond)
	}
	return 0, base.Errorf(base.CodeAmbiguous, "it stands")
}

// endPrepared ends what is left of prepared transactions.
func (c *cluster) endPrepared(ctx context.Context) {
	time.Sleep(10 * time.Second) // what was under way is known by then
	all, err := c.db(1).Prepared(ctx)
	must(c.t, err)
	for _, p := range all {
		found, err := c.db(1).EndPrepared(ctx, p.Name, true)
		if (err != nil || !found) && !c.broken {
			c.dump()
			c.t.Errorf("transaction %s cannot be ended: %v, %v", p.Name, found, err)
		}
	}
	time.Sleep(5 * time.Second)
	for _, n := range c.nodes {
		for _, r := range n.set.Replicas() {
			if n := r.Standing(); n != 0 && !c.broken {
				c.t.Errorf("%d transactions stand in group %v, and none is left", n, r.ID())
			}
		}
	}
}

// TestPreparedStrictSerializable is TestStrictSerializable with half of the transactions prepared
// and ended later, by any node. In every other run most of the others cross regions at slots.
func TestPreparedStrictSerializable(t *testing.T) {
	from, to := seeds(t, 6)
	for seed := from; seed < to; seed++ {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			runtime.GC()
			runtime.GC()
			cryptotest.SetGlobalRandom(t, uint64(seed)+1)
			synctest.Test(t, func(t *testing.T) {
				soak(t, uint64(seed), 0, func(c *cluster) { c.prepares, c.relays = true, seed%2 == 1 })
			})
		})
	}
}

// TestPreparedBites: without a rule of XA the checkers find something.
func TestPreparedBites(t *testing.T) {
	for name, leave := range map[string]func(*owner.Config){
		"XA-1": func(oc *owner.Config) { oc.NoStanding = true },
		"XA-2": func(oc *owner.Config) { oc.NoLasting = true },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(24) {
				var found error
				synctest.Test(t, func(t *testing.T) {
					found = violation(t, seed, 0, func(c *cluster) {
						c.prepares, c.broken, c.oc = true, true, leave
						// a slot over locks that stand keeps a later leader from serving
						c.relays, c.calm = name == "XA-2", name == "XA-2"
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

// TestPreparedGaps plays XA-3: two transactions insert rows of other regions, each in front of a
// row that the other one has locked. The gaps behind the new rows go to these regions with the
// commits. Without the rule both stand, and neither can be committed.
func TestPreparedGaps(t *testing.T) {
	for _, without := range []bool{false, true} {
		t.Run(fmt.Sprint("without=", without), func(t *testing.T) {
			bubble(t, 3, 1, func(t *testing.T, c *cluster) {
				at := func(name string) base.Key { return key(1, 1, 1, name) }
				prepare := func(db *DB, name, inserts, locks string) error {
					p := &kv.Preparation{}
					x := db.Begin(kv.Options{Prepare: p, LockTimeout: time.Second})
					defer x.Rollback(ctx(t))
					if _, err := x.Get(ctx(t), []base.Key{at(locks)}, kv.LockExclusive); err != nil {
						return err
					}
					must(t, x.Insert(at(inserts), []byte("v"), db.Region()))
					p.Name = []byte(name)
					_, err := x.Commit(ctx(t))
					return err
				}
				end := func(name string) error {
					found, err := c.db(1).EndPrepared(ctx(t), []byte(name), true)
					if err == nil && !found {
						t.Errorf("%s does not stand", name)
					}
					return err
				}
				must(t, prepare(c.db(2), "first", "a", "d"))
				err := prepare(c.db(3), "second", "c", "b")
				if !without {
					if base.CodeOf(err) != base.CodeLockTimeout {
						t.Fatalf("the second one is prepared within the gap of the first: %v", err)
					}
					must(t, end("first"))
					time.Sleep(time.Second)
					must(t, prepare(c.db(3), "second", "c", "b"))
					must(t, end("second"))
					return
				}
				must(t, err)
				if one, two := end("first"), end("second"); one == nil || two == nil {
					t.Errorf("without the rule they end: %v, %v", one, two)
				}
			}, func(c *cluster) { c.oc = func(oc *owner.Config) { oc.PointsOnly = without } })
		})
	}
}

// TestPrepared prepares a transaction that reads a row and writes others, of several groups, takes
// its gateway away and has all leads change. Nobody changes what it has locked until it is
// committed, from another region.
func TestPrepared(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		read, old, fresh, gone := key(1, 1, 1, "read"), key(1, 2, 2, "old"), key(1, 3, 3, "fresh"), key(1, 1, 1, "gone")
		put(t, c.db(1), read, "r", old, "o", gone, "g")
		name := []byte("a\x00b")
		prepare := func(db *DB) error {
			p := &kv.Preparation{User: "me"}
			x := db.Begin(kv.Options{Prepare: p, Relay: true})
			defer x.Rollback(ctx(t))
			_, err := x.Get(ctx(t), []base.Key{read}, kv.LockShared)
			must(t, err)
			must(t, x.Insert(fresh, []byte("new"), 3))
			x.Put(old, []byte("new"), 0)
			x.Delete(gone)
			p.Name = name
			_, err = x.Commit(ctx(t))
			return err
		}
		must(t, prepare(c.db(1)))
		free := func(when string, want bool) {
			t.Helper()
			for _, k := range []base.Key{read, old, fresh, gone} {
				_, err := do(ctx(t), c.db(2), kv.Options{Policy: kv.NoWait}, func(y kv.Txn) error {
					_, err := y.Get(ctx(t), []base.Key{k}, kv.LockExclusive)
					return err
				})
				if (err == nil) != want {
					t.Errorf("%s: key %v locked by another one: %v", when, k, err)
				}
			}
			_, err := do(ctx(t), c.db(2), kv.Options{Policy: kv.NoWait}, func(y kv.Txn) error {
				_, err := y.Get(ctx(t), []base.Key{read}, kv.LockShared)
				return err
			})
			must(t, err) // it was only read
		}
		free("prepared", false)
		if err := prepare(c.db(3)); base.CodeOf(err) == base.CodeExists || err == nil {
			t.Errorf("another one that needs its locks: %v", err)
		}
		if v := get(t, c.db(2), old); v != "o" {
			t.Errorf("what is prepared shows: %q", v)
		}
		// A wait for it ends by itself, and is no deadlock.
		_, err := do(ctx(t), c.db(2), kv.Options{LockTimeout: time.Second}, func(y kv.Txn) error {
			_, err := y.Get(ctx(t), []base.Key{old}, kv.LockExclusive)
			return err
		})
		if base.CodeOf(err) != base.CodeLockTimeout {
			t.Errorf("a wait for a prepared transaction ends with %v", err)
		}
		for round := range 3 {
			for _, n := range c.nodes { // each node is away for so long that others lead, and forget it
				n.halt()
				c.net.Crash(n.id)
				time.Sleep(20 * time.Second)
				c.net.Rejoin(n.id)
				n.start()
				c.ready()
				if round == 2 { // older than the records of transactions
					time.Sleep(11 * time.Minute)
				}
				free(fmt.Sprint("after node ", n.id), false)
			}
		}
		all, err := c.db(2).Prepared(ctx(t))
		must(t, err)
		if len(all) != 1 || string(all[0].Name) != string(name) || all[0].User != "me" || all[0].Gateway != 1 {
			t.Errorf("prepared are %+v", all)
		}
		if found, err := c.db(2).EndPrepared(ctx(t), name, true); err != nil || !found {
			c.dump()
			t.Fatalf("commit: %v, %v", found, err)
		}
		time.Sleep(time.Second) // the outcome is on its way to the groups
		free("committed", true)
		for k, want := range map[string]string{string(read): "r", string(old): "new", string(fresh): "new", string(gone): "-"} {
			if v := get(t, c.db(3), base.Key(k)); v != want {
				t.Errorf("key %v is %q, not %q", base.Key(k), v, want)
			}
		}
		if found, err := c.db(1).EndPrepared(ctx(t), name, true); err != nil || found {
			t.Errorf("it is committed twice: %v, %v", found, err)
		}
		put(t, c.db(1), fresh, "z") // the insert of the next one fails
		if err := prepare(c.db(1)); base.CodeOf(err) != base.CodeExists {
			t.Errorf("an insert of a row that is there is prepared: %v", err)
		}
		_, err = do(ctx(t), c.db(1), kv.Options{}, func(y kv.Txn) error { y.Delete(fresh); return nil })
		must(t, err)
		must(t, prepare(c.db(3)))
		if found, err := c.db(1).EndPrepared(ctx(t), name, false); err != nil || !found {
			t.Fatalf("rollback: %v, %v", found, err)
		}
		time.Sleep(time.Second)
		free("rolled back", true)
		if v := get(t, c.db(3), fresh); v != "-" {
			t.Errorf("what was rolled back is there: %q", v)
		}
	})
}
