package txn

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestReadsThatDoNotWait: a read with NoWait fails at once where another transaction has locked a
// row, and its own transaction goes on. A read with Skip marks such rows, wherever their owners
// are, and locks the others. Locks of the own transaction stop neither of them.
func TestReadsThatDoNotWait(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		db := c.db(1)
		a, b, free := key(1, 1, 1, "a"), key(2, 1, 1, "b"), key(1, 1, 1, "c")
		far, farFree := key(1, 2, 2, "far"), key(2, 2, 2, "free")
		put(t, db, a, "1", b, "1", free, "1")
		put(t, c.db(2), far, "1", farFree, "1")
		holder := db.Begin(kv.Options{})
		_, err := holder.Get(ctx(t), []base.Key{a, b, far}, kv.LockExclusive)
		must(t, err)

		not, skip := kv.WithNoWait(ctx(t)), kv.WithSkip(ctx(t), 0)
		x := db.Begin(kv.Options{})
		locked := func(what string, err error) {
			t.Helper()
			if base.CodeOf(err) != base.CodeLocked {
				t.Errorf("%s: %v, want a lock of another transaction", what, err)
			}
		}
		_, err = x.Get(not, []base.Key{free, a}, kv.LockExclusive)
		locked("own region", err)
		_, err = x.Get(not, []base.Key{far}, kv.LockShared)
		locked("another region", err)
		span := base.Span{Start: key(1, 1, 1, "a"), End: key(1, 1, 1, "z")}
		_, err = x.Scan(not, kv.ScanRequest{Spans: []base.Span{span}, Lock: kv.LockExclusive})
		locked("a scan", err)
		_, err = x.Scan(skip, kv.ScanRequest{Spans: []base.Span{span}, Lock: kv.LockExclusive})
		if base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("a scan that skips: %v", err)
		}
		rows, err := x.Get(skip, []base.Key{far, a, free, farFree, b}, kv.LockExclusive)
		must(t, err)
		for i, held := range []bool{true, true, false, false, true} {
			if r := rows[i]; r.Skipped != held || held == (r.Value != nil) {
				t.Errorf("%v: skipped %v with value %q, want %v", r.Key, r.Skipped, r.Value, held)
			}
		}
		_, err = x.Get(not, []base.Key{free, farFree}, kv.LockExclusive)
		must(t, err)
		y := db.Begin(kv.Options{})
		rows, err = y.Get(skip, []base.Key{farFree, free}, kv.LockShared)
		must(t, err)
		if !rows[0].Skipped || !rows[1].Skipped {
			t.Errorf("rows that a transaction has found free are not locked: %+v", rows)
		}
		rows, err = y.Get(kv.WithSkip(ctx(t), 1), []base.Key{key(1, 1, 1, "p"), key(1, 1, 1, "q")}, kv.LockExclusive)
		must(t, err)
		if rows[0].Skipped || !rows[1].Skipped {
			t.Errorf("one of two is asked for: %+v", rows)
		}
		_, err = y.Commit(ctx(t))
		must(t, err)

		holder.Put(a, []byte("2"), 0)
		_, err = holder.Commit(ctx(t))
		must(t, err)
		rows, err = x.Get(skip, []base.Key{far, a, b}, kv.LockExclusive)
		must(t, err)
		for _, r := range rows {
			if r.Skipped {
				t.Errorf("%v is skipped after its holder has committed", r.Key)
			}
		}
		x.Put(a, append(rows[1].Value, '3'), 0)
		_, err = x.Commit(ctx(t))
		must(t, err)
		if got := get(t, db, a); got != "23" {
			t.Errorf("read %s", got)
		}
	})
}

// TestGlance: a glance shows the newest rows, whatever the transaction's snapshot is, and does not
// change that snapshot.
func TestGlance(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		db := c.db(1)
		a, far := key(1, 1, 1, "a"), key(1, 2, 2, "far")
		put(t, db, a, "1")
		put(t, c.db(2), far, "1")
		x := db.Begin(kv.Options{})
		value := func(what string, glance *base.Timestamp, want string) {
			t.Helper()
			cx := ctx(t)
			if glance != nil {
				cx = kv.WithGlance(cx, glance)
			}
			rows, err := x.Get(cx, []base.Key{a, far}, kv.LockNone)
			must(t, err)
			if got := string(rows[0].Value) + string(rows[1].Value); got != want {
				t.Errorf("%s: %s, want %s", what, got, want)
			}
		}
		value("snapshot", nil, "11")
		put(t, db, a, "2")
		put(t, c.db(2), far, "2")
		var at base.Timestamp
		value("glance", &at, "22")
		put(t, db, a, "3")
		value("the same glance", &at, "22")
		value("another one", new(base.Timestamp), "32")
		value("snapshot after", nil, "11")
		_, err := x.Commit(ctx(t))
		must(t, err)
	})
}

// TestSkipForeseesNothing: an attempt that begins by locking what the attempts before it have noted
// does not do so in a read that is not to wait: what that skips would count as absent.
func TestSkipForeseesNothing(t *testing.T) {
	bubble(t, 3, 2, func(t *testing.T, c *cluster) {
		db := c.db(1)
		a, free := key(1, 1, 1, "a"), key(1, 1, 1, "free")
		put(t, db, a, "1", free, "1")
		holder := db.Begin(kv.Options{})
		_, err := holder.Get(ctx(t), []base.Key{a}, kv.LockExclusive)
		must(t, err)
		for _, wait := range []context.Context{kv.WithSkip(ctx(t), 1), kv.WithNoWait(ctx(t))} {
			var touched kv.Touched
			touched.Note(base.PointSpan(a), kv.LockExclusive)
			x := db.Begin(kv.Options{Touched: &touched, LockTimeout: 50 * time.Millisecond})
			rows, err := x.Get(wait, []base.Key{free}, kv.LockExclusive)
			must(t, err)
			if rows[0].Skipped {
				t.Error("a free row was skipped")
			}
			if rows, err = x.Get(ctx(t), []base.Key{a}, kv.LockExclusive); err == nil {
				t.Errorf("a row that another transaction has locked: %+v", rows)
			}
			x.Rollback(ctx(t))
		}
		holder.Rollback(ctx(t))
	})
}
