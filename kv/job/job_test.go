package job

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// TestLeases: a job has one node that may end it. When that is silent, another one goes on from the
// checkpoint, and the first one can neither renew its lease nor end the job.
func TestLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db := memkv.New(1, "a", "b")
		other := db.Gateway(2)
		a, err := Create(ctx, db, Record{Kind: "BACKUP", What: "x", Spec: []byte(`{"n":1}`)})
		if err != nil {
			t.Fatal(err)
		}
		a.Did(7, 9)
		if err := errors.Join(a.Checkpoint(3), a.Renew(ctx)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Lasts - time.Second)
		if l, err := Claim(ctx, other, a.ID()); l != nil || err != nil {
			t.Fatalf("a job whose lease lasts is claimed: %v", err)
		}
		time.Sleep(2 * time.Second)
		b, err := Claim(ctx, other, a.ID())
		if err != nil || b == nil || b.Term() != 2 || b.Record().Node != 2 || b.Record().Done != 7 {
			t.Fatalf("the job cannot be claimed: %+v, %v", b, err)
		}
		var at int
		if ok, err := b.Restore(&at); !ok || at != 3 || err != nil {
			t.Errorf("the checkpoint is %d, %v, %v", at, ok, err)
		}
		if l, err := Claim(ctx, db, a.ID()); l != nil || err != nil {
			t.Errorf("the job is claimed twice: %v", err)
		}
		for what, err := range map[string]error{"renew": a.Renew(ctx), "release": a.Release(ctx), "finish": a.Finish(ctx, nil)} {
			if !errors.Is(err, ErrLost) {
				t.Errorf("%s by a node that has lost the job: %v", what, err)
			}
		}
		if err := Cancel(ctx, db, a.ID()); err != nil {
			t.Fatal(err)
		}
		if err := b.Renew(ctx); !errors.Is(err, ErrCanceled) {
			t.Errorf("a job that is canceled: %v", err)
		}
		if err := b.Finish(ctx, ErrCanceled); err != nil {
			t.Fatal(err)
		}
		if err := b.Renew(ctx); !errors.Is(err, ErrEnded) {
			t.Errorf("a lease of a job that this node has ended: %v", err)
		}
		all, err := List(ctx, db)
		if err != nil || len(all) != 1 || all[0].State != Canceled || all[0].Spec != nil || all[0].Checkpoint != nil {
			t.Errorf("jobs: %+v, %v", all, err)
		}
		if err := Cancel(ctx, db, a.ID()); err == nil {
			t.Error("a job that has ended is canceled")
		}
	})
}

// TestBrisk: a brisk job whose node is silent can be claimed after a few seconds, also the second
// time, and while its node keeps it nobody can.
func TestBrisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db := memkv.New(1, "a", "b")
		a, err := Create(ctx, db, Record{Brisk: true})
		if err != nil {
			t.Fatal(err)
		}
		stop := a.Keep(ctx, func(err error) { t.Error(err) }, slog.New(slog.DiscardHandler), nil)
		time.Sleep(3 * BriskLasts)
		if l, err := Claim(ctx, db.Gateway(2), a.ID()); l != nil || err != nil {
			t.Fatalf("a job that is kept is claimed: %v", err)
		}
		stop()
		for i := range 2 {
			time.Sleep(BriskLasts + time.Millisecond)
			b, err := Claim(ctx, db.Gateway(base.RegionID(2-i)), a.ID())
			if b == nil || err != nil || !b.Record().Brisk {
				t.Fatalf("it cannot be claimed: %v, %v", b, err)
			}
		}
	})
}

// TestRelease: a job that a node lets go can be claimed at once.
func TestRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memkv.New(1)
		a, err := Create(t.Context(), db, Record{})
		if err == nil {
			err = a.Release(t.Context())
		}
		if err != nil {
			t.Fatal(err)
		}
		if b, err := Claim(t.Context(), db, a.ID()); b == nil || err != nil {
			t.Errorf("%v, %v", b, err)
		}
	})
}

// TestOnce: a job with an id is made once, also by two nodes.
func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := memkv.New(1, "a", "b")
		var made []bool
		for _, d := range []kv.DB{db, db.Gateway(2), db} {
			l, err := Create(context.Background(), d, Record{ID: 77})
			if err != nil {
				t.Fatal(err)
			}
			made = append(made, l != nil)
		}
		if !slices.Equal(made, []bool{true, false, false}) {
			t.Errorf("made: %v", made)
		}
	})
}

// TestForget: jobs that have ended are forgotten after a while, others are not.
func TestForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db := memkv.New(1)
		for i := range uint64(3) {
			l, err := Create(ctx, db, Record{ID: 10 + i})
			if err == nil && i < 2 {
				err = l.Finish(ctx, nil)
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(Remembered / 3)
		}
		all, err := List(ctx, db)
		if err == nil {
			err = Forget(ctx, db, all)
		}
		if err != nil {
			t.Fatal(err)
		}
		var left []uint64
		if all, err = List(ctx, db); err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			left = append(left, r.ID)
		}
		if !slices.Equal(left, []uint64{11, 12}) {
			t.Errorf("left: %v", left)
		}
	})
}

// TestForgetEvents: many events that fail do not push other jobs out.
func TestForgetEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db := memkv.New(1)
		for i := range uint64(MostEnded + 10) {
			rec := Record{ID: 10 + i, Kind: "EVENT"}
			if i == 0 {
				rec.Kind = "BACKUP"
			}
			l, err := Create(ctx, db, rec)
			if err == nil {
				err = l.Finish(ctx, errors.New("it failed"))
			}
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		all, err := List(ctx, db)
		if err == nil {
			err = Forget(ctx, db, all)
		}
		if err != nil {
			t.Fatal(err)
		}
		if all, err = List(ctx, db); err != nil || len(all) != MostEnded+1 || all[0].ID != 10 {
			t.Errorf("%d jobs are left, %v, want the backup and %d events", len(all), err, MostEnded)
		}
	})
}

// TestRemove: a job that has succeeded may be forgotten at once, by its node only.
func TestRemove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db := memkv.New(1)
		l, err := Create(ctx, db, Record{ID: 10})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(Lasts)
		other, err := Claim(ctx, db, 10)
		if err != nil || other == nil {
			t.Fatal(other, err)
		}
		if err := l.Remove(ctx); !errors.Is(err, ErrLost) {
			t.Errorf("removed by a node that has lost it: %v", err)
		}
		if err := other.Remove(ctx); err != nil {
			t.Error(err)
		}
		if all, err := List(ctx, db); err != nil || len(all) != 0 {
			t.Errorf("left: %v, %v", all, err)
		}
	})
}

// TestPause: a job stands still with its checkpoint, may be canceled so, and goes on where it was.
func TestPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db := memkv.New(1)
		a, err := Create(ctx, db, Record{Kind: "x", Spec: []byte(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		if err := Pause(ctx, db, a.ID(), "y"); err == nil {
			t.Error("a job of another kind is paused")
		}
		if err := Resume(ctx, db, a.ID(), "x"); err == nil {
			t.Error("a job that runs is resumed")
		}
		if err := errors.Join(a.Checkpoint(7), Pause(ctx, db, a.ID(), "x")); err != nil {
			t.Fatal(err)
		}
		if err := a.Renew(ctx); !errors.Is(err, ErrPaused) {
			t.Errorf("a job that is to stand still: %v", err)
		}
		if err := a.Suspend(ctx, errors.New("tired")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(Remembered + time.Hour)
		all, err := List(ctx, db)
		if err == nil {
			err = Forget(ctx, db, all)
		}
		if err != nil || len(all) != 1 || all[0].State != Paused || all[0].Error != "tired" {
			t.Fatalf("jobs: %+v, %v", all, err)
		}
		if l, err := Claim(ctx, db, a.ID()); l != nil || err != nil {
			t.Errorf("a job that stands still is claimed: %v", err)
		}
		if err := Resume(ctx, db, a.ID(), "x"); err != nil {
			t.Fatal(err)
		}
		b, err := Claim(ctx, db, a.ID())
		if err != nil || b == nil {
			t.Fatalf("a job that was resumed cannot be claimed: %v", err)
		}
		var at int
		if ok, err := b.Restore(&at); !ok || at != 7 || err != nil || b.Record().Pause {
			t.Errorf("the checkpoint is %d, %v, %v", at, ok, err)
		}
		if err := errors.Join(Pause(ctx, db, a.ID(), "x"), b.Suspend(ctx, nil), Cancel(ctx, db, a.ID())); err != nil {
			t.Fatal(err)
		}
		if r, err := Find(ctx, db, a.ID()); err != nil || r.State != Canceled || r.Spec != nil {
			t.Errorf("%+v, %v", r, err)
		}
	})
}
