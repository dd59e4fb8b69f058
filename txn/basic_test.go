package txn

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/obs"
)

// TestHops is the round-trip budget of docs/design.md.
func TestHops(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		db := c.db(1)
		a, b := key(1, 1, 1, "a"), key(2, 1, 1, "b")
		put(t, db, a, "1", b, "1")
		far := key(1, 2, 2, "far")
		put(t, c.db(2), far, "1")
		hops := func(what string, want int, fn func(x kv.Txn) error) {
			t.Helper()
			tr := &obs.Trace{}
			_, err := do(ctx(t), db, kv.Options{Trace: tr}, fn)
			must(t, err)
			if tr.Bytes() == 0 && want > 0 || tr.Bytes() > 0 && want == 0 {
				t.Errorf("%s: %d WAN bytes", what, tr.Bytes())
			}
			if tr.Hops() != want {
				t.Errorf("%s: %d hops, want %d", what, tr.Hops(), want)
			}
		}
		read := func(lock kv.LockMode, ks ...base.Key) func(kv.Txn) error {
			return func(x kv.Txn) error {
				rows, err := x.Get(ctx(t), ks, lock)
				for _, r := range rows {
					if err == nil && r.Value == nil {
						return fmt.Errorf("%v is absent", r.Key)
					}
				}
				return err
			}
		}
		hops("own-region read", 0, read(kv.LockNone, a))
		hops("own-region read of two shards", 0, read(kv.LockNone, a, b))
		hops("own-region locking read", 0, read(kv.LockShared, a, b))
		hops("foreign read", 2, read(kv.LockNone, far))
		hops("own and foreign read in parallel", 2, read(kv.LockNone, a, far, b))
		hops("IRT commit", 2, func(x kv.Txn) error { x.Put(a, []byte("2"), 0); return nil })
		hops("IRT commit of two shards", 2, func(x kv.Txn) error {
			if err := read(kv.LockExclusive, a, b)(x); err != nil {
				return err
			}
			x.Put(a, []byte("3"), 0)
			x.Put(b, []byte("3"), 0)
			return nil
		})
		hops("one foreign row", 4, func(x kv.Txn) error { x.Put(far, []byte("2"), 0); return nil })
		if got := get(t, c.db(3), a) + get(t, c.db(3), b) + get(t, c.db(3), far); got != "332" {
			t.Errorf("read %s from region 3", got)
		}
	})
}

// TestOwnWrites: a transaction sees its own writes in Get and Scan, both ways, with limits and
// savepoints.
func TestOwnWrites(t *testing.T) {
	bubble(t, 1, 2, func(t *testing.T, c *cluster) {
		db := c.db(1)
		for i := 0; i < 10; i += 2 {
			put(t, db, key(1+i/2%2, 1, 1, fmt.Sprint(i)), fmt.Sprint("v", i))
		}
		x := db.Begin(kv.Options{})
		x.Put(key(1, 1, 1, "3"), []byte("new3"), 0)
		x.Put(key(1, 1, 1, "4"), []byte("new4"), 0)
		sp := x.Savepoint()
		x.Delete(key(2, 1, 1, "2"))
		x.Put(key(2, 1, 1, "9"), []byte("new9"), 0)
		scan := func(reverse bool, limit int) string {
			s := ""
			req := kv.ScanRequest{Merge: true, Reverse: reverse, Limit: limit, Lock: kv.LockShared}
			for sh := 1; sh <= 2; sh++ {
				p := key(sh, 1, 1, "")
				req.Spans = append(req.Spans, base.Span{Start: p, End: p.PrefixEnd()})
			}
			for next := &req; next != nil; {
				res, err := x.Scan(ctx(t), *next)
				must(t, err)
				if limit > 0 && len(res.Rows) > limit {
					t.Fatalf("%d rows, limit %d", len(res.Rows), limit)
				}
				for _, r := range res.Rows {
					s += string(r.Value) + " "
				}
				next = res.Next
			}
			return s
		}
		want, back := "v0 new3 new4 v6 v8 new9 ", "new9 v8 v6 new4 new3 v0 "
		for limit := 0; limit < 8; limit++ {
			if got := scan(false, limit); got != want {
				t.Errorf("limit %d: %q", limit, got)
			}
			if got := scan(true, limit); got != back {
				t.Errorf("reverse, limit %d: %q", limit, got)
			}
		}
		if err := x.Insert(key(1, 1, 1, "0"), nil, 0); base.CodeOf(err) != base.CodeExists {
			t.Errorf("insert of a row read under a lock: %v", err)
		}
		x.RollbackTo(sp)
		if got := scan(false, 3); got != "v0 v2 new3 new4 v6 v8 " {
			t.Errorf("after rollback to the savepoint: %q", got)
		}
		if _, err := x.Commit(ctx(t)); err != nil {
			t.Fatal(err)
		}
		if got := get(t, db, key(1, 1, 1, "4")) + get(t, db, key(2, 1, 1, "2")) + get(t, db,
			key(2, 1, 1, "9")); got != "new4v2-" {
			t.Errorf("after commit: %s", got)
		}
	})
}
