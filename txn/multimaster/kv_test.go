package multimaster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// single is a cluster of one node with transactions of both kinds.
func single(t *testing.T, f func(db *DB)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 1, regions: 1})
		defer w.close()
		w.start()
		w.settle(time.Second)
		f(NewDB(memkv.New(1, "r1"), w.nodes[0].eng))
	})
}

// A transaction sees its own writes in scans of any size and direction, with savepoints, as a map
// does.
func TestScansSeeOwnWrites(t *testing.T) {
	single(t, func(db *DB) {
		ctx := context.Background()
		rng := rand.New(rand.NewPCG(1, 2))
		stored := map[int]string{}
		for round := range 60 {
			x := db.Begin(kv.Options{})
			now := map[int]string{}
			for k, v := range stored {
				now[k] = v
			}
			write := func() {
				for range rng.IntN(12) {
					i := rng.IntN(40)
					if rng.IntN(3) == 0 {
						x.Delete(key(i))
						delete(now, i)
						continue
					}
					v := fmt.Sprint(round, ".", rng.IntN(1000))
					x.Put(key(i), []byte(v), 0)
					now[i] = v
				}
			}
			write()
			mark, kept := x.Savepoint(), map[int]string{}
			for k, v := range now {
				kept[k] = v
			}
			write()
			if rng.IntN(2) == 0 {
				x.RollbackTo(mark)
				now = kept
			}
			for range 4 {
				lo := rng.IntN(40)
				hi := lo + rng.IntN(41-lo)
				reverse := rng.IntN(2) == 0
				var want, got []string
				for i := lo; i < hi; i++ {
					if v, ok := now[i]; ok {
						want = append(want, fmt.Sprint(i, "=", v))
					}
				}
				if reverse {
					slices.Reverse(want)
				}
				req := &kv.ScanRequest{Spans: []base.Span{{Start: key(lo), End: key(hi)}}, Reverse: reverse,
					Limit: 1 + rng.IntN(7), Lock: kv.LockMode(rng.IntN(3))}
				for req != nil && lo < hi {
					res, err := x.Scan(ctx, *req)
					if err != nil {
						t.Fatal(err)
					}
					for _, r := range res.Rows {
						got = append(got, fmt.Sprint(int(r.Key[len(r.Key)-1]), "=", string(r.Value)))
					}
					req = res.Next
				}
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Fatalf("round %d: [%d, %d) reverse %v: %v, want %v", round, lo, hi, reverse, got, want)
				}
			}
			if _, err := x.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			stored = now
		}
	})
}

func TestMixedWritesAreRefused(t *testing.T) {
	single(t, func(db *DB) {
		ctx := context.Background()
		x := db.Begin(kv.Options{})
		x.Put(key(1), []byte("a"), 0)
		x.Put(append(base.IndexPrefix(1, 77, 0, 0), 1), []byte("b"), 1)
		if _, err := x.Commit(ctx); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("committed: %v", err)
		}
		rows, err := db.Begin(kv.Options{}).Get(ctx, []base.Key{key(1)}, kv.LockNone)
		if err != nil || rows[0].Value != nil {
			t.Errorf("a part was written: %v, %v", rows, err)
		}
	})
}

// Transactions are held to the version of a definition (EPO-7): the old one is refused, what has
// read the old one loses, and a version that nobody has declared is declared by who waits for it.
func TestVersionsOfDefinitions(t *testing.T) {
	single(t, func(db *DB) {
		ctx := context.Background()
		const table = base.TableID(77)
		held := func(version base.Timestamp) (*Txn, error) {
			x := db.Begin(kv.Options{}).(*Txn)
			return x, x.Hold(ctx, table, version)
		}
		begin := time.Now()
		old, err := held(5) // whoever made it has died
		if err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d < 400*time.Millisecond || d > 2*time.Second {
			t.Errorf("the version was declared after %v", d)
		}
		old.Put(key(1), []byte("old"), 0)
		if err := db.Declare(ctx, table, 6); err != nil {
			t.Fatal(err)
		}
		if _, err := old.Commit(ctx); base.CodeOf(err) != base.CodeAborted {
			t.Errorf("who knows the old definition commits: %v", err)
		}
		if _, err := held(5); base.CodeOf(err) != base.CodeSchemaChanged {
			t.Errorf("the old definition is taken: %v", err)
		}
		if err := db.Declare(ctx, table, 5); err != nil {
			t.Fatal(err)
		}
		x, err := held(6)
		if err != nil {
			t.Fatal(err)
		}
		x.Put(key(1), []byte("new"), 0)
		if _, err := x.Commit(ctx); err != nil {
			t.Error(err)
		}
		if err := db.Declare(ctx, table, base.MaxTimestamp); err != nil {
			t.Fatal(err)
		}
		if _, err := held(6); base.CodeOf(err) != base.CodeSchemaChanged {
			t.Errorf("a table that is gone is written: %v", err)
		}
	})
}

// TestHoldEndsWithThePatience: a node that is cut off waits for a definition that does not arrive.
// Its statement hears so when its patience ends.
func TestHoldEndsWithThePatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 1, regions: 3})
		defer w.close()
		w.start()
		w.settle(5 * time.Second)
		m := w.nodes[2]
		m.isolate(true)
		db := NewDB(memkv.New(3, "r3"), m.eng)
		began := time.Now()
		err := db.Begin(kv.Options{}).(*Txn).Hold(context.Background(), 77, 5)
		if d := time.Since(began); base.CodeOf(err) != base.CodeUnavailable || d > kv.ReachIn+100*time.Millisecond {
			t.Errorf("after %v: %v", d, err)
		}
		m.isolate(false)
	})
}
