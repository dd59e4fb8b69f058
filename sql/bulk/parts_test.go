package bulk

import (
	"context"
	"errors"
	"testing"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/bulk/rowfile"
	"github.com/godwitdb/godwit/sql/bulk/share"
)

func rows(from, to int64) part {
	return part{From: rowfile.Position{Row: from}, To: rowfile.Position{Row: to}, tally: tally{Rows: to - from, Errors: 1}}
}

// begun is a job that a node leads, with the only unit claimed by it.
func begun(t *testing.T, db kv.DB) (*job.Lease, *share.Worker, *share.Claim) {
	t.Helper()
	l, err := job.Create(t.Context(), db, job.Record{Kind: "IMPORT"})
	if err != nil {
		t.Fatal(err)
	}
	w, c := joined(t, db, l)
	return l, w, c
}

func joined(t *testing.T, db kv.DB, l *job.Lease) (*share.Worker, *share.Claim) {
	t.Helper()
	b := share.Of(db, l.ID())
	if err := b.Begin(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	w, err := b.Join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, left, err := w.Claim(t.Context(), 1)
	if err != nil || len(got) != 1 || left != 1 {
		t.Fatalf("%d claims, %d left, %v", len(got), left, err)
	}
	return w, got[0]
}

func load(ctx context.Context, db kv.DB, r *parts, p part) error {
	_, err := kv.Run(ctx, db, kv.Options{}, func(k kv.Txn) error {
		done, err := r.note(ctx, k, &p)
		if done {
			err = errLoaded
		}
		return err
	})
	if err == nil {
		r.loaded(p)
	}
	return err
}

// TestFence: a node whose unit another one has taken loads nothing any more, also if its
// transaction had begun before; and the one that goes on knows what was loaded.
func TestFence(t *testing.T) {
	ctx := t.Context()
	db := memkv.New(1, "a", "b")
	l, w, c := begun(t, db)
	old, err := openParts(ctx, c, unit{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []part{rows(0, 10), rows(10, 20), rows(30, 40)} {
		if err := load(ctx, db, old, p); err != nil {
			t.Fatal(err)
		}
	}
	if err := load(ctx, db, old, rows(10, 20)); !errors.Is(err, errLoaded) {
		t.Errorf("a part that was loaded before: %v", err)
	}
	late := db.Begin(kv.Options{})
	p := rows(20, 30)
	if _, err := old.note(ctx, late, &p); err != nil {
		t.Fatal(err)
	}
	if err := w.Leave(ctx); err != nil {
		t.Fatal(err)
	}
	other := db.Gateway(2)
	opened := make(chan *parts, 1)
	go func() {
		b := share.Of(other, l.ID())
		w, err := b.Join(ctx)
		var got []*share.Claim
		if err == nil {
			got, _, err = w.Claim(ctx, 1)
		}
		var r *parts
		if err == nil {
			r, err = openParts(ctx, got[0], unit{})
		}
		if err != nil {
			t.Error(err)
		}
		opened <- r
	}()
	var now *parts
	if _, err = late.Commit(ctx); err == nil { // before the other one has taken the unit
		now = <-opened
		if to, _ := now.next(rowfile.Position{}); to.Row != 40 {
			t.Errorf("the other node goes on at %d", to.Row)
		}
	} else {
		late.Rollback(context.WithoutCancel(ctx))
		now = <-opened
		if to, most := now.next(rowfile.Position{}); to.Row != 20 || most != 30 {
			t.Errorf("the other node goes on at %d up to %d", to.Row, most)
		}
	}
	if err := load(ctx, db, old, rows(50, 60)); !errors.Is(err, job.ErrLost) {
		t.Errorf("the node before loads on: %v", err)
	}
	if err := load(ctx, other, now, rows(50, 60)); err != nil {
		t.Error(err)
	}
}

// TestMerge: records that follow each other from the beginning of a unit become one, and nothing is
// forgotten.
func TestMerge(t *testing.T) {
	ctx := t.Context()
	for _, first := range []int64{0, 100} {
		db := memkv.New(1)
		_, _, c := begun(t, db)
		u := unit{From: first, To: first + 60}
		r, err := openParts(ctx, c, u)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []part{rows(first+20, first+30), rows(first, first+10), rows(first+10, first+20), rows(first+40, first+50)} {
			if err := load(ctx, db, r, p); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.merge(ctx); err != nil {
			t.Fatal(err)
		}
		again, err := openParts(ctx, c, u)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range []*parts{r, again} {
			if len(r.list) != 2 || r.list[0].To.Row != first+30 || r.list[0].Errors != 3 {
				t.Errorf("%d: %+v", i, r.list)
			}
			to, most := r.next(rowfile.Position{})
			if to.Row != first+30 || most != first+40 {
				t.Errorf("it goes on at %d up to %d", to.Row, most)
			}
			if to, most = r.next(rowfile.Position{Row: first + 40}); to.Row != first+50 || most != first+60 {
				t.Errorf("it goes on at %d up to %d", to.Row, most)
			}
		}
	}
}
