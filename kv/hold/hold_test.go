package hold

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// TestHolds: the oldest one counts, renewed ones last, and those of the dead end and are removed.
func TestHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, db := t.Context(), memkv.New(2, "eu")
		oldest := func() base.Timestamp {
			t.Helper()
			f, err := Oldest(ctx, db)
			if err != nil {
				t.Fatal(err)
			}
			if len(f.Ended) > 0 {
				if err := Remove(ctx, db, f.Ended); err != nil {
					t.Fatal(err)
				}
			}
			return f.Oldest
		}
		if got := oldest(); got != 0 {
			t.Errorf("without holds: %v", got)
		}
		a, err := Take(ctx, db, 200, "a")
		if err != nil {
			t.Fatal(err)
		}
		b, err := Take(ctx, db, 100, "b")
		if err != nil {
			t.Fatal(err)
		}
		if got := oldest(); got != 100 {
			t.Errorf("two holds: %v", got)
		}
		time.Sleep(Lasts - time.Second)
		if err := a.Renew(ctx); err != nil {
			t.Fatal(err)
		}
		if got := oldest(); got != 100 {
			t.Errorf("before the second ends: %v", got)
		}
		time.Sleep(2 * time.Second)
		if got := oldest(); got != 200 {
			t.Errorf("after the second has ended: %v", got)
		}
		if f, _ := Oldest(ctx, db); len(f.Ended) != 0 {
			t.Errorf("%d holds that have ended are left", len(f.Ended))
		}
		for _, h := range []*Hold{a, b} { // b is gone already: that is no error
			if err := h.Release(ctx); err != nil {
				t.Fatal(err)
			}
		}
		if got := oldest(); got != 0 {
			t.Errorf("after all were released: %v", got)
		}
	})
}

// TestBadRecord: a row that is no hold is an error, which stops the collection rather than letting
// it go on.
func TestBadRecord(t *testing.T) {
	ctx, db := t.Context(), memkv.New(2, "eu")
	if _, err := kv.Run(ctx, db, kv.Options{}, func(x kv.Txn) error {
		x.Put(base.AppendBytes(Span().Start.Clone(), []byte("x")), []byte("{"), 0)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := Oldest(ctx, db); base.CodeOf(err) != base.CodeCorrupt {
		t.Errorf("got %v", err)
	}
}
