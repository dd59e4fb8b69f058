package txn

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestHomeSection: a key of an index keyed by home belongs to the home in the key, whatever home a
// write names, so that its group may write it without a look at it.
func TestHomeSection(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		entry := func(name string) base.Key {
			return append(base.IndexPrefix(1, base.MakeTableID(1, 1), 2|base.ByHome, 2), name...)
		}
		// What an earlier transaction locked may be free a moment later than its client is
		// answered.
		run := func(region int, fn func(kv.Txn) error) {
			for {
				_, err := do(ctx(t), c.db(region), kv.Options{}, fn)
				if base.CodeOf(err) != base.CodeAborted {
					must(t, err)
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		for _, home := range []base.RegionID{0, 2, 3} {
			run(1, func(x kv.Txn) error {
				x.Put(entry("a"), []byte("1"), home)
				return x.Insert(entry(string(rune('b'+home))), []byte("1"), home)
			})
		}
		run(3, func(x kv.Txn) error {
			x.Delete(entry("absent"))
			x.Put(entry("absent2"), []byte("2"), 3)
			return nil
		})
		run(2, func(x kv.Txn) error {
			rows, err := x.Get(ctx(t), []base.Key{entry("a"), entry("b"), entry("d"), entry("e"), entry("absent"),
				entry("absent2")}, kv.LockExclusive)
			for i, r := range rows {
				if (r.Value == nil) != (i == 4) || r.Value != nil && r.Home != 2 {
					t.Errorf("%v: value %q home %d", r.Key, r.Value, r.Home)
				}
			}
			return err
		})
	})
}

// TestKnownKeys: a commit that trusts what its transaction read for update still gets inserts,
// deletes and their opposite right, also over several reads, savepoints, and more keys than are
// remembered.
func TestKnownKeys(t *testing.T) {
	bubble(t, 3, 1, func(t *testing.T, c *cluster) {
		var keys []base.Key
		for i := range 80 {
			keys = append(keys, key(1, 1+i%2, 1, string(rune('A'+i))))
			if i%3 == 0 {
				put(t, c.db(1+i%2), keys[i], "old")
			}
		}
		_, err := do(ctx(t), c.db(1), kv.Options{}, func(x kv.Txn) error {
			for at := 0; at < len(keys); at += 20 {
				if _, err := x.Get(ctx(t), keys[at:at+20], kv.LockExclusive); err != nil {
					return err
				}
			}
			for i, k := range keys {
				switch {
				case i%5 == 0:
					x.Delete(k)
				case i%3 == 0:
					x.Put(k, []byte("new"), 3)
				default:
					if err := x.Insert(k, []byte("new"), 0); err != nil {
						return err
					}
				}
			}
			return nil
		})
		must(t, err)
		for i, k := range keys {
			want := "new"
			if i%5 == 0 {
				want = "-"
			}
			if got := get(t, c.db(3), k); got != want {
				t.Errorf("%v is %q, want %q", k, got, want)
			}
		}
	})
}

// TestKnownRanges: what a range read under locks has shown is there for inserts and for commits in
// several groups.
func TestKnownRanges(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		db := c.db(1)
		for i := range 60 {
			put(t, db, key(1+i%2, 1, 1, string(rune('A'+i))), "old")
		}
		x := db.Begin(kv.Options{})
		for _, reverse := range []bool{false, true} {
			for sh := 1; sh <= 2; sh++ {
				p := key(sh, 1, 1, "")
				res, err := x.Scan(ctx(t), kv.ScanRequest{Spans: []base.Span{{Start: p, End: p.PrefixEnd()}},
					Reverse: reverse, Lock: kv.LockShared})
				must(t, err)
				if len(res.Rows) != 30 {
					t.Fatalf("%d rows", len(res.Rows))
				}
			}
		}
		if x.(*Txn).rows.Ranges() < 2 {
			t.Errorf("%d ranges are remembered", x.(*Txn).rows.Ranges())
		}
		for i := range 60 {
			k := key(1+i%2, 1, 1, string(rune('A'+i)))
			if err := x.Insert(k, nil, 0); base.CodeOf(err) != base.CodeExists {
				t.Fatalf("insert of %v: %v", k, err)
			}
			x.Put(k, []byte("new"), 0)
		}
		must(t, x.Insert(key(1, 1, 1, "A0"), []byte("new"), 0))
		_, err := x.Commit(ctx(t))
		must(t, err)
		for i := range 60 {
			if got := get(t, db, key(1+i%2, 1, 1, string(rune('A'+i)))); got != "new" {
				t.Fatalf("row %d: %s", i, got)
			}
		}
	})
}
