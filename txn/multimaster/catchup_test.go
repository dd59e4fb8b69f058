package multimaster

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/wire"
)

// copied is the epoch as of which the third node of a world has just copied the rows.
func copied(t *testing.T, w *world) uint64 {
	w.start()
	time.Sleep(time.Second)
	w.nodes[2].crash()
	w.nodes[0].engine().Down(3)
	for n := range 40 {
		w.nodes[0].commit(t, n)
	}
	w.nodes[2].boot()
	w.settle(10 * time.Second)
	at, err := (&journal{w.nodes[2].st}).cut()
	if at == 0 || err != nil {
		t.Fatalf("the third node has copied no rows (%v)", err)
	}
	return at
}

// Whoever has copied the rows lacks the log before them. It must never say that it has it, not
// after its log was truncated and not after a restart: who follows it would miss epochs.
func TestLogBeforeCopiedRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const keep = 60
		w := newWorld(t, worldConfig{seed: 4, regions: 3, oneWay: 20 * time.Millisecond, keep: keep})
		defer w.close()
		at := copied(t, w)
		check := func(when string) {
			t.Helper()
			for n := range 2 {
				w.nodes[0].commit(t, 100+n)
			}
			w.settle(10 * time.Second)
			e := w.nodes[2].engine()
			if applied := e.Snapshot(); applied < at+2 || applied-keep >= at {
				t.Fatalf("%s: epoch %d is applied, which shows nothing of rows as of %d", when, applied, at)
			}
			v, _ := e.View()
			a, err := e.pull(&wire.EpochControl{View: v.Number, After: at - 1})
			if err != nil || !a.StateNeeded {
				t.Errorf("%s: the node gives %d epochs after %d, and has none up to %d (%v)", when,
					len(a.GetRecords()), at-1, at, err)
			}
		}
		check("after truncation")
		w.restart(2)
		check("after a restart")
	})
}

// Rows that were copied are whole as of the epoch of the copy and later. Before that they lack what
// was overwritten in between.
func TestRowsBeforeCopiedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 4, regions: 3, oneWay: 20 * time.Millisecond, keep: 60})
		defer w.close()
		at := copied(t, w)
		ask := func(when string) {
			t.Helper()
			e := w.nodes[2].engine()
			v, _ := e.View()
			q := &wire.EpochControl{View: v.Number, At: at - 1}
			if a, err := e.state(q); err == nil {
				t.Errorf("%s: the node gives %d rows as of %d, and has copied those of %d", when, len(a.Rows), at-1, at)
			}
			q.At = at
			if a, err := e.state(q); err != nil || len(a.Rows) != 40 {
				t.Errorf("%s: rows as of %d: %d, %v", when, at, len(a.GetRows()), err)
			}
		}
		ask("after the copy")
		w.restart(2)
		ask("after a restart")
	})
}

// A transaction that has begun before the rows were copied does not go on with other rows.
func TestCopyUnderTransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		w := newWorld(t, worldConfig{seed: 4, regions: 3, oneWay: 20 * time.Millisecond, keep: 60})
		defer w.close()
		w.start()
		w.settle(time.Second)
		w.nodes[0].commit(t, 1)
		w.settle(time.Second)
		m := w.nodes[2]
		reads := map[string]func(x kv.Txn) error{
			"get": func(x kv.Txn) error { _, err := x.Get(ctx, []base.Key{key(2)}, kv.LockNone); return err },
			"scan": func(x kv.Txn) error {
				_, err := x.Scan(ctx, kv.ScanRequest{Spans: []base.Span{{Start: key(0), End: key(9)}}})
				return err
			},
			"insert": func(x kv.Txn) error { return x.Insert(key(2), []byte("v"), 0) },
			"commit": func(x kv.Txn) error {
				x.Delete(key(1))
				_, err := x.Commit(ctx)
				return err
			},
		}
		begun := map[string]kv.Txn{}
		db := NewDB(memkv.New(3, "r3"), m.engine())
		for name := range reads {
			x := db.Begin(kv.Options{})
			if rows, err := x.Get(ctx, []base.Key{key(1)}, kv.LockNone); err != nil || string(rows[0].Value) != "v" {
				t.Fatalf("the row is %v, %v", rows, err)
			}
			begun[name] = x
		}
		m.isolate(true)
		w.nodes[0].engine().Down(3)
		for range 40 {
			w.nodes[0].commit(t, 1)
		}
		m.isolate(false)
		w.settle(20 * time.Second)
		if cut, err := (&journal{m.st}).cut(); cut == 0 || err != nil {
			t.Fatalf("the third node has copied no rows (%v)", err)
		}
		for name, read := range reads {
			if err := read(begun[name]); base.CodeOf(err) != base.CodeAborted {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

// diverge has a node believe that it has done something else than it has.
func diverge(e *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.digest[0] ^= 1
	e.digests[e.applied.Load()] = e.digest
}

// divergeOnDisk does the same to a node that is down.
func (m *machine) divergeOnDisk(t *testing.T) {
	t.Helper()
	st, err := store.Open(store.Options{Dir: "db", FS: m.fs, Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	j := journal{st}
	at, d, err := j.applied()
	if err == nil {
		d[0] ^= 1
		b := st.NewBatch()
		setApplied(b, at, d)
		err = errors.Join(b.Commit(true), st.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// othersGoOn checks that a node has stopped because its rows differ, and that the others have not.
func (w *world) othersGoOn(t *testing.T, bad int) {
	t.Helper()
	for i, m := range w.nodes {
		if i != bad {
			m.commit(t, 20+i)
		}
	}
	time.Sleep(5 * time.Second)
	for i, m := range w.nodes {
		err := m.engine().Err()
		switch {
		case i != bad && err != nil:
			t.Errorf("node %d: %v", m.id, err)
		case i != bad:
			m.commit(t, 30+i)
		case base.CodeOf(err) != base.CodeCorrupt || !strings.Contains(err.Error(), "godwit epochs copy --addr"):
			t.Errorf("the node that differs: %v", err)
		}
	}
}

// threeAlike runs f with three nodes that have a row in common.
func threeAlike(t *testing.T, f func(*testing.T, *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 4, regions: 3, oneWay: 20 * time.Millisecond})
		defer w.close()
		w.start()
		w.nodes[0].commit(t, 1)
		w.settle(time.Second)
		f(t, w)
	})
}

// A node that needs no epochs from the others is compared with them, too, before it takes part.
func TestDivergedNodeWithoutRecords(t *testing.T) {
	threeAlike(t, func(t *testing.T, w *world) {
		w.nodes[2].crash()
		w.nodes[2].divergeOnDisk(t)
		w.nodes[2].boot()
		time.Sleep(10 * time.Second)
		w.othersGoOn(t, 2)
		if v, _ := w.nodes[0].engine().View(); len(v.Members) != 2 {
			t.Errorf("the view is %+v", v)
		}
	})
}

// When all nodes start at once, the one that differs does not take those down that meet it first.
func TestDivergedNodeAmongRestarted(t *testing.T) {
	threeAlike(t, func(t *testing.T, w *world) {
		for _, m := range w.nodes {
			m.crash()
		}
		w.nodes[0].divergeOnDisk(t)
		for _, m := range w.nodes {
			m.boot()
		}
		time.Sleep(20 * time.Second)
		w.othersGoOn(t, 0)
	})
}

// A member that begins to differ is outvoted: it stops, the others go on, and it copies their rows
// when it is told to.
func TestDivergedMemberIsOutvoted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 4, regions: 3, oneWay: 20 * time.Millisecond})
		defer w.close()
		w.start()
		for n := range 5 {
			w.nodes[n%3].commit(t, n)
		}
		w.settle(time.Second)
		m := w.nodes[2]
		if err := m.engine().Recopy(); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("a healthy node copies rows: %v", err)
		}
		b := m.st.NewBatch()
		at := m.engine().Snapshot()
		b.PutVersion(store.Version{Key: key(1), TS: base.Timestamp(at), Value: []byte("wrong"),
			Writer: base.GroupIndex{Region: 1, Index: at}})
		if err := b.Commit(true); err != nil {
			t.Fatal(err)
		}
		diverge(m.engine())
		w.nodes[0].commit(t, 6)
		w.nodes[1].commit(t, 7)
		time.Sleep(5 * time.Second)
		w.othersGoOn(t, 2)
		if err := m.engine().Recopy(); err != nil {
			t.Fatal(err)
		}
		w.settle(10 * time.Second)
		for _, m := range w.nodes {
			m.commit(t, 40+int(m.id))
		}
		w.settle(10 * time.Second)
		w.check()
		m.crash()
		m.boot()
		w.settle(10 * time.Second)
		w.check()
	})
}

// Who copies rows keeps what it has said that it holds: another one may have acknowledged it
// because of that, and be gone.
func TestRecopyKeepsTheLog(t *testing.T) {
	threeAlike(t, func(t *testing.T, w *world) {
		// Node 1 hears nothing of the others, so it lags; they hear it, and expose what it submits.
		w.net.CutOneWay(2, 1)
		w.net.CutOneWay(3, 1)
		e := w.nodes[2].engine()
		before := e.Snapshot()
		go func() {
			_, _ = w.nodes[0].engine().Submit(context.Background(), filter.Txn{ID: base.MakeTxnID(9, 1, 9), Snapshot: before,
				Writes: []filter.Write{{Key: string(key(2)), Value: []byte("v")}}})
		}()
		for e.Snapshot() == before {
			time.Sleep(10 * time.Millisecond)
		}
		held := e.Snapshot()
		if at := w.nodes[0].engine().Snapshot(); at >= held {
			t.Fatalf("node 1 has applied epoch %d of %d", at, held)
		}
		e.mu.Lock()
		e.differ[1], e.differ[2] = held, held
		e.diverge()
		e.mu.Unlock()
		w.nodes[1].crash()
		w.net.HealAll()
		if err := e.Recopy(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Second)
		for _, n := range []int{0, 2} {
			if at := w.nodes[n].engine().Snapshot(); at < held {
				t.Errorf("node %d has applied epochs up to %d; %d has been acknowledged", n+1, at, held)
			}
		}
		w.nodes[1].boot()
		w.settle(20 * time.Second)
		w.check()
	})
}

// A node whose rows differ finds that when it follows the others, and does not take them down.
func TestDivergedNodeStopsAlone(t *testing.T) {
	threeAlike(t, func(t *testing.T, w *world) {
		e := w.nodes[2].engine()
		w.nodes[2].isolate(true)
		w.nodes[0].engine().Down(3)
		w.nodes[0].commit(t, 2)
		diverge(e)
		w.nodes[2].isolate(false)
		time.Sleep(10 * time.Second)
		if err := e.Err(); base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("the node that differs: %v", err)
		}
		for n, m := range w.nodes[:2] {
			if err := m.engine().Err(); err != nil {
				t.Errorf("node %d: %v", m.id, err)
				continue
			}
			m.commit(t, 3+n)
		}
	})
}

// Nobody waits for a node that has stopped.
func TestHaltAnswers(t *testing.T) {
	threeAlike(t, func(t *testing.T, w *world) {
		e := w.nodes[2].engine()
		diverge(e)
		begin := time.Now()
		_, err := e.Submit(context.Background(), filter.Txn{ID: base.MakeTxnID(7, 3, 1), Snapshot: e.Snapshot(),
			Writes: []filter.Write{{Key: string(key(2)), Value: []byte("v")}}})
		if base.CodeOf(err) != base.CodeAmbiguous || time.Since(begin) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		if err := e.Err(); base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("the node that differs: %v", err)
		}
	})
}
