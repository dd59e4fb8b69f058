package bulk

import (
	"context"
	"errors"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
)

func rows(from, to int64) part {
	return part{From: rowfile.Position{Row: from}, To: rowfile.Position{Row: to}, tally: tally{Rows: to - from, Errors: 1}}
}

// TestFence: a node whose job another one has taken loads nothing any more, also if its transaction
// had begun before; and the one that goes on knows what was loaded.
func TestFence(t *testing.T) {
	ctx := t.Context()
	db := memkv.New(1, "a", "b")
	one, err := job.Create(ctx, db, job.Record{Kind: "IMPORT"})
	if err != nil {
		t.Fatal(err)
	}
	old, err := openRecords(ctx, db, one, 2)
	if err != nil {
		t.Fatal(err)
	}
	load := func(r *records, file int, p part) error {
		_, err := kv.Run(ctx, r.db, kv.Options{}, func(k kv.Txn) error {
			done, err := r.note(ctx, k, file, &p)
			if done {
				err = errLoaded
			}
			return err
		})
		if err == nil {
			r.loaded(file, p)
		}
		return err
	}
	for _, p := range []part{rows(0, 10), rows(10, 20), rows(30, 40)} {
		if err := load(old, 1, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := load(old, 1, rows(10, 20)); !errors.Is(err, errLoaded) {
		t.Errorf("a part that was loaded before: %v", err)
	}
	late := db.Begin(kv.Options{})
	p := rows(20, 30)
	if _, err := old.note(ctx, late, 1, &p); err != nil {
		t.Fatal(err)
	}
	if err := one.Release(ctx); err != nil {
		t.Fatal(err)
	}
	other := db.Gateway(2)
	two, err := job.Claim(ctx, other, one.ID())
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan *records, 1)
	go func() {
		r, err := openRecords(ctx, other, two, 2)
		if err != nil {
			t.Error(err)
		}
		opened <- r
	}()
	var now *records
	if _, err = late.Commit(ctx); err == nil { // before the other one has opened the records
		now = <-opened
		if to, _ := now.next(1, rowfile.Position{}); to.Row != 40 {
			t.Errorf("the other node goes on at %d", to.Row)
		}
	} else {
		late.Rollback(context.WithoutCancel(ctx))
		now = <-opened
		if to, most := now.next(1, rowfile.Position{}); to.Row != 20 || most != 30 {
			t.Errorf("the other node goes on at %d up to %d", to.Row, most)
		}
	}
	if err := load(old, 0, rows(0, 10)); !errors.Is(err, job.ErrLost) {
		t.Errorf("the node before loads on: %v", err)
	}
	if _, err := openRecords(ctx, db, one, 2); !errors.Is(err, job.ErrLost) {
		t.Errorf("the node before opens the records again: %v", err)
	}
}

// TestMerge: records that follow each other from the beginning of a file become one, and nothing is
// forgotten.
func TestMerge(t *testing.T) {
	ctx := t.Context()
	db := memkv.New(1)
	l, err := job.Create(ctx, db, job.Record{Kind: "IMPORT"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := openRecords(ctx, db, l, 2)
	if err != nil {
		t.Fatal(err)
	}
	for file, ps := range [][]part{{rows(20, 30), rows(0, 10), rows(10, 20), rows(40, 50)}, {rows(5, 10), rows(10, 15)}} {
		for _, p := range ps {
			if _, err := kv.Run(ctx, db, kv.Options{}, func(k kv.Txn) error { _, err := r.note(ctx, k, file, &p); return err }); err != nil {
				t.Fatal(err)
			}
			r.loaded(file, p)
		}
	}
	if err := r.merge(ctx); err != nil {
		t.Fatal(err)
	}
	for i, again := range []*records{r, nil} {
		if again == nil {
			if again, err = openRecords(ctx, db, l, 2); err != nil {
				t.Fatal(err)
			}
		}
		if len(again.files[0]) != 2 || again.files[0][0].To.Row != 30 || again.files[0][0].Errors != 3 || len(again.files[1]) != 2 ||
			again.total() != (tally{Rows: 50, Errors: 6}) {
			t.Errorf("%d: %+v, %+v", i, again.files, again.total())
		}
		if to, most := again.next(0, rowfile.Position{}); to.Row != 30 || most != 40 {
			t.Errorf("it goes on at %d up to %d", to.Row, most)
		}
	}
	if _, err := kv.Run(ctx, db, kv.Options{}, func(k kv.Txn) error { return r.remove(ctx, k) }); err != nil {
		t.Fatal(err)
	}
	n := 0
	if _, err := kv.Run(ctx, db, kv.Options{}, func(k kv.Txn) error { return r.each(ctx, k, func(base.Key, []byte) error { n++; return nil }) }); err != nil || n != 0 {
		t.Errorf("%d records are left, %v", n, err)
	}
}
