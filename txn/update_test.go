package txn

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/wire"
)

// shipBoth is a crossing transaction that puts bytes behind two rows without relying on what they
// are.
func shipBoth(t *testing.T, db *DB, a, b base.Key, p *wire.Patch) (base.Timestamp, error) {
	return do(ctx(t), db, kv.Options{Relay: true}, func(x kv.Txn) error {
		for _, k := range []base.Key{a, b} {
			rows, err := x.Get(ctx(t), []base.Key{k}, kv.LockExclusive)
			if err != nil {
				return err
			}
			value, ok := patch.Apply(p, rows[0].Value)
			if !ok {
				t.Errorf("the update is not defined over %q", rows[0].Value)
			}
			x.Update(k, value, p)
		}
		return nil
	})
}

// besideUpdate runs other beside a crossing transaction that ships an update of its row, at all
// moments of its commit.
func besideUpdate(t *testing.T, c *cluster, p *wire.Patch, other func(b base.Key, slot func() base.Timestamp)) {
	a, b := key(1, 1, 1, "a"), key(1, 2, 2, "b")
	for i := range 25 {
		put(t, c.db(1), a, "x")
		put(t, c.db(2), b, "x")
		time.Sleep(200 * time.Millisecond)
		var slot base.Timestamp
		var err error
		done := make(chan struct{})
		go func() {
			defer close(done)
			slot, err = shipBoth(t, c.db(1), a, b, p)
		}()
		time.Sleep(time.Duration(i) * 20 * time.Millisecond)
		other(b, func() base.Timestamp {
			<-done
			if err != nil && !base.Retryable(err) {
				t.Fatal(err)
			}
			if err != nil {
				return 0
			}
			return slot
		})
		<-done
		if err == nil {
			if v := get(t, c.db(3), a); v != "x+" {
				t.Fatalf("round %d: %q", i, v)
			}
		}
	}
}

// TestShippedUpdateHoldsNobody: a transaction of a region changes a row that a crossing one has
// voted to update. Until the slot it takes no longer than alone, neither update is lost, and they
// take effect in the order of their timestamps.
func TestShippedUpdateHoldsNobody(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		var before, after, aborted int
		besideUpdate(t, c, patch.Append([]byte("+")), func(b base.Key, slot func() base.Timestamp) {
			start := time.Now()
			ts, err := do(ctx(t), c.db(2), kv.Options{Policy: kv.NoWait}, func(x kv.Txn) error {
				rows, err := x.Get(ctx(t), []base.Key{b}, kv.LockExclusive)
				if err != nil {
					return err
				}
				x.Put(b, append(rows[0].Value, 'i'), 0)
				return nil
			})
			took := time.Since(start)
			s := slot()
			want := "x+"
			switch {
			case err != nil && !base.Retryable(err):
				t.Fatal(err)
			case s == 0:
				t.Fatal("the crossing transaction was aborted")
			case err != nil:
				aborted++ // it came so near to the slot that it did not commit below it
			case ts < s:
				want, before = "xi+", before+1
				if took > 2*oneWay+4*bound {
					t.Errorf("a commit below the slot took %v", took)
				}
			default:
				want, after = "x+i", after+1
			}
			if v := get(t, c.db(1), b); v != want {
				t.Errorf("%q instead of %q", v, want)
			}
		})
		t.Logf("%d before the slot, %d after it, %d aborted", before, after, aborted)
		if before < 5 || after < 5 || aborted > 5 {
			t.Errorf("%d before the slot, %d after it, %d aborted", before, after, aborted)
		}
	})
}

// TestShippedUpdateStaysDefined: what would leave an update on its way undefined waits for its
// slot: a delete, and a value that it could not be applied to.
func TestShippedUpdateStaysDefined(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		p := patch.Append([]byte("+"))
		p.Ops[0].Most = 3
		for _, del := range []bool{true, false} {
			var waited int
			besideUpdate(t, c, p, func(b base.Key, slot func() base.Timestamp) {
				ts, err := do(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error {
					if del {
						x.Delete(b)
					} else {
						x.Put(b, []byte("long"), 0)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				s := slot()
				if s != 0 && ts < s {
					t.Errorf("delete %v: committed at %s, below the slot %s", del, ts, s)
				} else if s != 0 {
					waited++
				}
				v := get(t, c.db(1), b)
				if del && v != "-" || !del && v != "long" {
					t.Errorf("%q", v)
				}
			})
			if waited < 5 {
				t.Errorf("delete %v: %d came behind the slot", del, waited)
			}
		}
		for g := range 3 {
			if n := c.nodes[g].set.Replica(base.DataGroup(1, base.RegionID(g+1))).Stats().PatchesLost.Load(); n != 0 {
				t.Errorf("%d updates were lost", n)
			}
		}
	})
}

// TestUpdateThatWasRead: an update is a plain write, which relies on the row being as it was, once
// anything else that the transaction does relies on that.
func TestUpdateThatWasRead(t *testing.T) {
	p := patch.Append([]byte("+"))
	for name, use := range map[string]func(t *testing.T, x kv.Txn, k base.Key){
		"read before": nil,
		"read after": func(t *testing.T, x kv.Txn, k base.Key) {
			rows, err := x.Get(ctx(t), []base.Key{k}, kv.LockShared)
			if err != nil || string(rows[0].Value) != "x+" {
				t.Errorf("%v %v", rows, err)
			}
		},
		"updated twice": func(t *testing.T, x kv.Txn, k base.Key) { x.Update(k, []byte("x++"), p) },
		"replaced":      func(t *testing.T, x kv.Txn, k base.Key) { x.Put(k, []byte("y"), 0) },
		"rolled back": func(t *testing.T, x kv.Txn, k base.Key) {
			x.RollbackTo(1)
			x.Put(key(1, 1, 1, "c"), []byte("c"), 0)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, 1, func(t *testing.T, c *cluster) {
				a, b := key(1, 1, 1, "a"), key(1, 2, 2, "b")
				for _, beside := range []bool{false, true} {
					put(t, c.db(1), a, "x")
					put(t, c.db(2), b, "x")
					time.Sleep(time.Second)
					_, err := do(ctx(t), c.db(1), kv.Options{Relay: true}, func(x kv.Txn) error {
						x.Put(a, []byte("y"), 0)
						reads := 1
						if use == nil {
							reads = 2
						}
						for range reads {
							if _, err := x.Get(ctx(t), []base.Key{b}, kv.LockExclusive); err != nil {
								return err
							}
						}
						x.Savepoint()
						x.Update(b, []byte("x+"), p)
						if use != nil {
							use(t, x, b)
						}
						if beside {
							put(t, c.db(2), b, "z")
						}
						return nil
					})
					if beside && base.CodeOf(err) != base.CodeAborted || !beside && err != nil {
						t.Errorf("written beside %v: %v", beside, err)
					}
				}
			})
		})
	}
}

// TestShippedUpdates: crossing transactions of all regions update the same rows, beside
// transactions of one group; no update is lost.
func TestShippedUpdates(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		a, b := key(1, 1, 1, "a"), key(1, 2, 2, "b")
		put(t, c.db(1), a, "x")
		put(t, c.db(2), b, "x")
		time.Sleep(time.Second)
		p := patch.Append([]byte("+"))
		var wg sync.WaitGroup
		update := func(db *DB, k base.Key) func(kv.Txn) error {
			return func(x kv.Txn) error {
				rows, err := x.Get(ctx(t), []base.Key{k}, kv.LockExclusive)
				if err == nil {
					x.Update(k, append(rows[0].Value, '+'), p)
				}
				return err
			}
		}
		const each = 5
		for r := 1; r <= 3; r++ {
			db := c.db(r)
			for _, fn := range []func(kv.Txn) error{
				func(x kv.Txn) error {
					if err := update(db, a)(x); err != nil {
						return err
					}
					return update(db, b)(x)
				},
				update(db, a), // of one group, from here or from afar
				update(db, b),
			} {
				wg.Go(func() {
					for range each {
						if _, err := kv.Run(ctx(t), db, kv.Options{Relay: true}, fn); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		wg.Wait()
		for _, k := range []base.Key{a, b} {
			if v := get(t, c.db(3), k); strings.Count(v, "+") != 6*each {
				t.Errorf("%v: %q has %d updates, not %d", k, v, strings.Count(v, "+"), 6*each)
			}
		}
	})
}

// TestDraft: an update of a far row is made of what is known of it here, without a wait for the
// snapshot, and of the newest version at its slot all the same; what shows it, moves it or takes it
// back rests on the row as it is read.
func TestDraft(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		a, b, plus := key(1, 1, 1, "a"), key(1, 2, 2, "b"), patch.Append([]byte("+"))
		begin := func() kv.Txn {
			t.Helper()
			put(t, c.db(1), a, "x")
			put(t, c.db(2), b, "x")
			time.Sleep(2 * time.Second)
			put(t, c.db(2), b, "xy") // is not known in region 1 yet
			x := c.db(1).Begin(kv.Options{Relay: true})
			if _, ok, err := x.Draft(ctx(t), a); ok || err != nil {
				t.Fatalf("a row of the own region: %v, %v", ok, err)
			}
			start := time.Now()
			row, ok, err := x.Draft(ctx(t), b)
			if err != nil || !ok || string(row.Value) != "x" || time.Since(start) > time.Millisecond {
				t.Fatalf("%q, %v, %v, after %v", row.Value, ok, err, time.Since(start))
			}
			x.Update(b, []byte("x+"), plus)
			x.Put(a, []byte("z"), 0)
			return x
		}
		for _, test := range []struct {
			name, want string
			do         func(x kv.Txn)
			aborts     bool
		}{
			{"alone", "xy+", func(kv.Txn) {}, false},
			{"shown", "xy+", func(x kv.Txn) {
				if rows, err := x.Get(ctx(t), []base.Key{b}, kv.LockShared); err != nil || string(rows[0].Value) != "xy+" {
					t.Errorf("%+v, %v", rows, err)
				}
			}, false},
			{"scanned", "xy+", func(x kv.Txn) {
				res, err := x.Scan(ctx(t), kv.ScanRequest{Spans: []base.Span{{Start: b, End: b.Next()}}, Lock: kv.LockShared})
				if err != nil || len(res.Rows) != 1 || string(res.Rows[0].Value) != "xy+" {
					t.Errorf("%+v, %v", res.Rows, err)
				}
			}, false},
			{"updated again", "xy++", func(x kv.Txn) {
				if _, ok, err := x.Draft(ctx(t), b); ok || err != nil {
					t.Errorf("a row written: %v, %v", ok, err)
				}
				rows, err := x.Get(ctx(t), []base.Key{b}, kv.LockExclusive)
				if err != nil {
					t.Fatal(err)
				}
				x.Update(b, append(rows[0].Value, '+'), plus)
			}, false},
			{"overwritten", "xy", func(x kv.Txn) { x.Put(b, []byte("w"), 0) }, true},
			{"deleted", "xy", func(x kv.Txn) { x.Delete(b) }, true},
			{"moved", "xy", func(x kv.Txn) { x.Move(b, 1, kv.MoveOptions{}) }, true},
		} {
			x := begin()
			test.do(x)
			_, err := x.Commit(ctx(t))
			if test.aborts != (base.CodeOf(err) == base.CodeAborted) || !test.aborts && err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			if v := get(t, c.db(2), b); v != test.want {
				t.Errorf("%s: %q, want %q", test.name, v, test.want)
			}
		}
		x := begin() // taken back, which says only that the row was there
		x.Rollback(ctx(t))
		x = c.db(1).Begin(kv.Options{Relay: true})
		x.Put(a, []byte("z"), 0)
		s := x.Savepoint()
		if _, ok, err := x.Draft(ctx(t), b); !ok || err != nil {
			t.Fatal(ok, err)
		}
		x.Update(b, []byte("x+"), plus)
		x.RollbackTo(s)
		if _, err := x.Commit(ctx(t)); base.CodeOf(err) != base.CodeAborted {
			t.Errorf("an update of a row that has changed since it was known, taken back: %v", err)
		}
		x = c.db(1).Begin(kv.Options{Relay: true})
		if _, err := x.Get(ctx(t), []base.Key{b}, kv.LockExclusive); err != nil {
			t.Fatal(err)
		}
		if _, ok, err := x.Draft(ctx(t), b); ok || err != nil {
			t.Errorf("a row that was read: %v, %v", ok, err)
		}
		x.Rollback(ctx(t))
	})
}
