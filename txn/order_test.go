package txn

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// byTimestamps makes the clusters of a test order by timestamps.
func byTimestamps(how base.Concurrency) func(*cluster) {
	return func(c *cluster) { c.oc = func(o *owner.Config) { o.Concurrency = how } }
}

// orderings runs a test with both variants.
func orderings(t *testing.T, regions, shards int, test func(t *testing.T, c *cluster)) {
	for _, how := range []base.Concurrency{base.ByTimestamp, base.ByTimestampRelay} {
		t.Run(string(how), func(t *testing.T) { bubble(t, regions, shards, test, byTimestamps(how)) })
	}
}

func read(t *testing.T, x kv.Txn, k base.Key, lock kv.LockMode) string {
	t.Helper()
	rows, err := x.Get(ctx(t), []base.Key{k}, lock)
	must(t, err)
	return string(rows[0].Value)
}

// TestOrderedAtItsTimestamp: a transaction whose reads are overwritten later commits all the same,
// at the timestamp of its reads, while nobody has read or written past it what it writes.
func TestOrderedAtItsTimestamp(t *testing.T) {
	orderings(t, 3, 2, func(t *testing.T, c *cluster) {
		a, b := key(1, 1, 1, "a"), key(2, 2, 1, "b")
		put(t, c.db(1), a, "0", b, "0")
		x := c.db(1).Begin(kv.Options{})
		if got := read(t, x, a, kv.LockShared); got != "0" {
			t.Fatalf("read %s", got)
		}
		at := x.ReadTimestamp()
		if ts := put(t, c.db(2), a, "1"); ts <= at {
			t.Fatalf("a write came at %s, below a read at %s", ts, at)
		}
		x.Put(b, []byte("after 0"), 0)
		ts, err := x.Commit(ctx(t))
		must(t, err)
		if ts != at {
			t.Errorf("it committed at %s and has read at %s", ts, at)
		}
		if got := get(t, c.db(3), b); got != "after 0" {
			t.Errorf("b=%s", got)
		}
	})
}

// TestOrderedPushed: who comes too late for its timestamp commits later, if what it read is still
// so.
func TestOrderedPushed(t *testing.T) {
	orderings(t, 3, 2, func(t *testing.T, c *cluster) {
		a, b := key(1, 1, 1, "a"), key(2, 2, 1, "b")
		put(t, c.db(1), a, "0", b, "0")
		for _, changed := range []bool{false, true} {
			x := c.db(1).Begin(kv.Options{})
			was := read(t, x, a, kv.LockShared)
			at := x.ReadTimestamp()
			time.Sleep(10 * time.Millisecond)
			if changed {
				put(t, c.db(1), a, was+"1")
			}
			y := c.db(3).Begin(kv.Options{ReadOnly: true}) // reads b above x
			read(t, y, b, kv.LockNone)
			seen := y.ReadTimestamp()
			x.Put(b, []byte("pushed"), 0)
			ts, err := x.Commit(ctx(t))
			switch {
			case changed && base.CodeOf(err) != base.CodeAborted:
				t.Errorf("a was changed, and it committed at %s (%v), read at %s", ts, err, at)
			case !changed && err != nil:
				t.Error(err)
			case !changed && ts <= seen:
				t.Errorf("it wrote b at %s, which was read at %s", ts, seen)
			}
		}
	})
}

// TestOrderedFarOwner: a commit that relies on a schema and takes much longer to its owner than
// thought gets through, in one transaction. (It once asked for the same time again and again.)
func TestOrderedFarOwner(t *testing.T) {
	orderings(t, 3, 1, func(t *testing.T, c *cluster) {
		k, schema := key(1, 1, 1, "a"), metaKey("schema")
		put(t, c.db(1), k, "0")
		put(t, c.db(1), schema, "1")
		time.Sleep(time.Second)
		c.net.SetPath(2, 1, wan.LinkSpec{Delay: 120 * time.Millisecond})
		x := c.db(2).Begin(kv.Options{})
		if got := read(t, x, schema, kv.LockNone); got != "1" {
			t.Fatal(got)
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		wg.Go(func() { // somebody near has always just read it
			for {
				y := c.db(1).Begin(kv.Options{ReadOnly: true})
				_, _ = y.Get(ctx(t), []base.Key{k}, kv.LockNone)
				y.Rollback(ctx(t))
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
			}
		})
		x.Pin(x.ReadTimestamp(), schema)
		x.Put(k, []byte("1"), 0)
		_, err := x.Commit(ctx(t))
		close(stop)
		wg.Wait()
		must(t, err)
	})
}

// TestOrderedReadsAgain: who reads a row twice sees the same twice, and is not tried again for what
// was written in between.
func TestOrderedReadsAgain(t *testing.T) {
	orderings(t, 3, 1, func(t *testing.T, c *cluster) {
		a := key(1, 1, 1, "a")
		put(t, c.db(1), a, "0")
		for _, from := range []int{1, 2} {
			x := c.db(from).Begin(kv.Options{})
			was := read(t, x, a, kv.LockShared)
			put(t, c.db(3), a, was+"1")
			if got := read(t, x, a, kv.LockShared); got != was {
				t.Errorf("read %s, then %s", was, got)
			}
			if n := len(x.(*Txn).reads); n != 1 {
				t.Errorf("one row counts as %d reads", n)
			}
			if _, err := x.Commit(ctx(t)); err != nil {
				t.Error(err)
			}
		}
	})
}

// TestOrderedUpdatesWait: updates of one row wait for each other instead of being tried again.
func TestOrderedUpdatesWait(t *testing.T) {
	orderings(t, 3, 1, func(t *testing.T, c *cluster) {
		a := key(1, 1, 1, "a")
		put(t, c.db(1), a, string(num(0)))
		const n = 2
		errs := make(chan error, n)
		for range n {
			go func() {
				_, err := do(ctx(t), c.db(1), kv.Options{}, func(x kv.Txn) error {
					rows, err := x.Get(ctx(t), []base.Key{a}, kv.LockExclusive)
					if err == nil {
						x.Put(a, num(toNum(rows[0].Value)+1), 0)
					}
					return err
				})
				errs <- err
			}()
		}
		failed := 0
		for range n {
			if err := <-errs; err != nil {
				failed++
				t.Log(err)
			}
		}
		if got := toNum([]byte(get(t, c.db(2), a))); got != int64(n-failed) {
			t.Errorf("%d of %d failed, and the sum is %d", failed, n, got)
		}
		if failed > 0 {
			t.Errorf("%d of %d updates failed", failed, n)
		}
	})
}

// TestOrderedSlowClock: a reader behind a slow clock sees what was acknowledged before it began.
func TestOrderedSlowClock(t *testing.T) {
	for _, how := range []base.Concurrency{base.ByTimestamp, base.ByTimestampRelay} {
		t.Run(string(how), func(t *testing.T) {
			bubble(t, 3, 2, func(t *testing.T, c *cluster) {
				a, b := key(1, 1, 1, "a"), key(2, 3, 1, "b")
				put(t, c.db(2), b, "0")
				ts := put(t, c.db(2), a, "new") // node 2 is ahead
				x := c.db(3).Begin(kv.Options{})
				read(t, x, b, kv.LockShared)
				if x.ReadTimestamp() >= ts {
					t.Fatal("the clocks do not differ enough for this test")
				}
				if got := read(t, x, a, kv.LockShared); got != "new" {
					t.Errorf("read a=%s", got)
				}
				if x.ReadTimestamp() < ts {
					t.Errorf("it read at %s what was written at %s", x.ReadTimestamp(), ts)
				}
				x.Put(b, []byte("1"), 0)
				_, err := x.Commit(ctx(t))
				must(t, err)
			}, byTimestamps(how), func(c *cluster) { c.skew = 240 * time.Millisecond })
		})
	}
}

// TestOrderedReadsBound: what a transaction that orders by timestamps remembers to have read is
// bounded, as that of one at a slot, and no locks can take its place.
func TestOrderedReadsBound(t *testing.T) {
	bubble(t, 2, 1, func(t *testing.T, c *cluster) {
		x := c.db(1).Begin(kv.Options{})
		defer x.Rollback(ctx(t))
		for i := range 9 {
			_, err := x.Get(ctx(t), []base.Key{key(1, 1, 1, fmt.Sprint(i))}, kv.LockShared)
			if full := i >= 8; full != (base.CodeOf(err) == base.CodeAborted) || !full && err != nil {
				t.Errorf("read %d of at most 8: %v", i+1, err)
			}
		}
	}, byTimestamps(base.ByTimestamp), func(c *cluster) { c.tc = func(tc *Config) { tc.Limits.Reads = 8 } })
}

// TestTimestampManager is the anomaly that Relay excludes and CockroachDB does not: T1 and T2 use
// one region, T1 has ended before T2 begins, and T3 sees T2 but not T1, because T2's clock is slow.
func TestTimestampManager(t *testing.T) {
	for how, want := range map[base.Concurrency]string{base.ByTimestamp: "1", base.ByTimestampRelay: "0"} {
		t.Run(string(how), func(t *testing.T) {
			bubble(t, 3, 2, func(t *testing.T, c *cluster) {
				a, b := key(1, 1, 1, "a"), key(2, 1, 1, "b") // of region 1 both
				put(t, c.db(1), a, "0", b, "0")
				time.Sleep(time.Second)
				t3 := c.db(1).Begin(kv.Options{})
				if got := read(t, t3, a, kv.LockShared); got != "0" {
					t.Fatalf("T3 read a=%s", got)
				}
				ts1 := put(t, c.db(1), a, "1")
				ts2 := put(t, c.db(3), b, "1")
				if above := ts2 >= ts1; above != (how == base.ByTimestampRelay) {
					t.Errorf("T1 committed at %s, then T2 at %s", ts1, ts2)
				}
				if got := read(t, t3, b, kv.LockShared); got != want {
					t.Errorf("T3 read b=%s", got)
				}
				if _, err := t3.Commit(ctx(t)); err != nil {
					t.Error(err)
				}
			}, byTimestamps(how), func(c *cluster) { c.skew = 400 * time.Millisecond })
		})
	}
}

// TestOrderedTurnsToLocks: a transaction that locks the meta shard takes the locks of what it has
// read.
func TestOrderedTurnsToLocks(t *testing.T) {
	orderings(t, 3, 1, func(t *testing.T, c *cluster) {
		a, m := key(1, 1, 1, "a"), metaKey("m")
		put(t, c.db(1), a, "0")
		for _, changed := range []bool{false, true} {
			_, err := do(ctx(t), c.db(1), kv.Options{}, func(x kv.Txn) error {
				was := read(t, x, a, kv.LockShared)
				if changed {
					put(t, c.db(2), a, was+"1")
				}
				if _, err := x.Get(ctx(t), []base.Key{m}, kv.LockExclusive); err != nil {
					return err
				}
				x.Put(m, []byte(was), 0)
				x.Put(a, []byte(was+"2"), 0)
				return nil
			})
			if changed != (base.CodeOf(err) == base.CodeAborted) || !changed && err != nil {
				t.Errorf("changed %v: %v", changed, err)
			}
		}
		if got := get(t, c.db(3), a); got != "021" {
			t.Errorf("a=%s", got)
		}
	})
}

// TestOrderedReadsOutliveLeaders: what was read under one leader is not overwritten below by the
// next.
func TestOrderedReadsOutliveLeaders(t *testing.T) {
	orderings(t, 3, 1, func(t *testing.T, c *cluster) {
		a, b := key(1, 1, 1, "a"), key(1, 2, 1, "b")
		put(t, c.db(1), a, "0", b, "0")
		old := c.db(2).Begin(kv.Options{}) // older than the read
		read(t, old, b, kv.LockShared)
		x := c.db(3).Begin(kv.Options{})
		read(t, x, a, kv.LockShared)
		at := x.ReadTimestamp()
		n := c.nodes[0]
		n.halt()
		time.Sleep(8 * time.Second)
		n.start()
		time.Sleep(8 * time.Second)
		old.Put(a, []byte("1"), 0)
		if ts, err := old.Commit(ctx(t)); err == nil && ts <= at {
			t.Errorf("a was read at %s and written at %s", at, ts)
		} else if err != nil {
			t.Logf("refused: %v", err)
		}
		x.Rollback(ctx(t))
	})
}

var ofOne = base.DataGroup(1, 1)

// restartModeless restarts node 1 so that it leads its region's group and its clock waits to be
// told a mode.
func (c *cluster) restartModeless() *node {
	c.t.Helper()
	n := c.nodes[0]
	n.halt()
	c.modeless = true
	n.start()
	for range 30 {
		if _, ok := n.set.Replica(ofOne).Serving(); ok {
			return n
		}
		if id, _ := n.host.Group(ofOne).Leader(); id != n.id {
			n.host.Group(ofOne).Campaign()
		}
		time.Sleep(time.Second)
	}
	c.t.Fatal("node 1 does not serve")
	return nil
}

// TestOrderedBeforeTheClockMode: an owner that has just been started, and leads before it was told
// the clock mode, takes a write as soon as it is told.
func TestOrderedBeforeTheClockMode(t *testing.T) {
	orderings(t, 3, 1, func(t *testing.T, c *cluster) {
		a := key(1, 1, 1, "a")
		put(t, c.db(1), a, "0")
		n := c.restartModeless()
		done := make(chan error, 1)
		go func() {
			_, err := do(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error {
				x.Put(a, []byte("1"), 0)
				return nil
			})
			done <- err
		}()
		time.Sleep(2 * time.Second)
		select {
		case err := <-done:
			t.Fatalf("the write did not wait: %v", err)
		default:
		}
		told := time.Now()
		n.clock.Adopt(clock.GClock, 1, 0)
		n.clock.Confirm()
		n.clock.Grant(time.Now().Add(time.Hour))
		if err := <-done; err != nil || time.Since(told) > time.Second {
			t.Errorf("%v after the mode was told: %v", time.Since(told), err)
		}
		if got := get(t, c.db(3), a); got != "1" {
			t.Errorf("a=%s", got)
		}
	})
}

// TestOrderedWithoutClockMode: and if it is not told, the writer is asked to try again, within
// seconds.
func TestOrderedWithoutClockMode(t *testing.T) {
	orderings(t, 3, 1, func(t *testing.T, c *cluster) {
		a := key(1, 1, 1, "a")
		put(t, c.db(1), a, "0")
		n := c.restartModeless()
		began := time.Now()
		id := base.MakeTxnID(c.db(2).Clock(), 2, 1)
		resp := n.set.Replica(ofOne).Commit(ctx(t), &wire.CommitRequest{Group: uint32(ofOne), Ordered: true,
			Snapshot: uint64(c.db(2).Clock()),
			Txn:      &wire.TxnMeta{Id: id[:]}, Writes: []*wire.Write{{Key: a, Value: []byte("1"), Kind: wire.WriteKind_PUT}}})
		if code := base.Code(resp.GetStatus().GetCode()); code != base.CodeUnavailable || time.Since(began) > 6*time.Second {
			t.Errorf("after %v: %v", time.Since(began), resp.GetStatus())
		}
	})
}
