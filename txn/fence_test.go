package txn

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestFence: a fence gives a region the gap from a key on, so that it inserts there without a trip;
// what is there already, rows and gaps, stays whose it is.
func TestFence(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		k := func(s string) base.Key { return key(1, 1, 1, s) }
		insert := func(r, want int, s string) {
			t.Helper()
			if n := hopsOf(t, c.db(r), kv.Options{}, func(x kv.Txn) error { return x.Insert(k(s), []byte(s), 0) }); n != want {
				t.Errorf("region %d inserts %s with %d hops, want %d", r, s, n, want)
			}
		}
		fence := func(r int, keys ...string) {
			t.Helper()
			_, err := kv.Run(ctx(t), c.db(r), kv.Options{}, func(x kv.Txn) error {
				for _, s := range keys {
					x.Fence(k(s), base.RegionID(r))
					rows, err := x.Get(ctx(t), []base.Key{k(s)}, kv.LockNone)
					if err != nil || (rows[0].Value != nil) != slices.Contains([]string{"a", "z", "m5"}, s) {
						t.Errorf("the fence at %s shows as %q, %v", s, rows[0].Value, err)
					}
				}
				return nil
			})
			must(t, err)
			time.Sleep(time.Second)
		}
		put(t, c.db(1), k("a"), "a", k("z"), "z")
		fence(2, "m", "z") // z is a row and stays
		insert(2, 2, "m5")
		insert(2, 2, "m")
		insert(1, 2, "b")
		insert(1, 2, "zz")
		fence(2, "a", "m1", "m5")
		if h := homeOf(t, c.db(2), k("a")); h != 1 {
			t.Errorf("the fence took row a to region %d", h)
		}
		fence(3, "m7")
		insert(3, 2, "m8")
		insert(2, 2, "m6")
		insert(1, 4, "m9") // it is region 3's gap, which the new row splits
		insert(3, 2, "m81")
		if v := get(t, c.db(1), k("m7")); v != "-" {
			t.Errorf("a fence reads as %s", v)
		}
		// A fence in the transaction that then writes the key, and under its own insert, is of no
		// account.
		_, err := kv.Run(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error {
			x.Fence(k("p"), 2)
			x.Fence(k("q"), 2)
			if err := x.Insert(k("p"), []byte("p"), 0); err != nil {
				return err
			}
			x.Fence(k("p"), 3)
			x.Move(k("q"), 2, kv.MoveOptions{})
			res, err := x.Scan(ctx(t), kv.ScanRequest{Spans: []base.Span{{Start: k("o"), End: k("r")}}, Lock: kv.LockExclusive})
			if err == nil && len(res.Rows) != 1 {
				err = fmt.Errorf("%d rows between o and r", len(res.Rows))
			}
			return err
		})
		must(t, err)
		if h := homeOf(t, c.db(1), k("p")); h != 2 {
			t.Errorf("p is at home in region %d", h)
		}
	})
}

// TestFenceOutlivesLeaders: who owns a fenced gap is in the log, and collection of the fence gives
// it to nobody else.
func TestFenceOutlivesLeaders(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		k := func(s string) base.Key { return key(1, 1, 1, s) }
		_, err := kv.Run(ctx(t), c.db(2), kv.Options{}, func(x kv.Txn) error { x.Fence(k("m"), 2); return nil })
		must(t, err)
		time.Sleep(time.Second)
		for _, n := range c.nodes {
			n.halt()
			n.start()
		}
		time.Sleep(15 * time.Second)
		for _, n := range c.nodes {
			must(t, n.set.Collect(ctx(t)))
		}
		for i, want := range []int{2, 2} {
			r := i + 1
			s := []string{"b", "n"}[i]
			if n := hopsOf(t, c.db(r), kv.Options{}, func(x kv.Txn) error { return x.Insert(k(s), []byte(s), 0) }); n != want {
				t.Errorf("region %d inserts %s with %d hops, want %d", r, s, n, want)
			}
		}
	})
}
