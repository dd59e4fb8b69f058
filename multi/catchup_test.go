package multi

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/filter"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
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

// Whoever has copied the rows lacks the log before them. It must never say that it has it, not after its log was truncated and not after a
// restart: who follows it would miss epochs.
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
				t.Errorf("%s: the node gives %d epochs after %d, and has none up to %d (%v)", when, len(a.GetRecords()), at-1, at, err)
			}
		}
		check("after truncation")
		w.restart(2)
		check("after a restart")
	})
}

// Rows that were copied are whole as of the epoch of the copy and later. Before that they lack what was overwritten in between.
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

// A node whose rows differ finds that when it follows the others, and does not take them down.
func TestDivergedNodeStopsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 4, regions: 3, oneWay: 20 * time.Millisecond})
		defer w.close()
		w.start()
		w.nodes[0].commit(t, 1)
		w.settle(time.Second)
		e := w.nodes[2].engine()
		w.nodes[2].isolate(true)
		w.nodes[0].engine().Down(3)
		w.nodes[0].commit(t, 2)
		e.mu.Lock()
		e.digest[0] ^= 1
		e.mu.Unlock()
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
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, worldConfig{seed: 4, regions: 3, oneWay: 20 * time.Millisecond})
		defer w.close()
		w.start()
		w.nodes[0].commit(t, 1)
		w.settle(time.Second)
		e := w.nodes[2].engine()
		e.mu.Lock()
		e.digest[0] ^= 1
		e.mu.Unlock()
		begin := time.Now()
		_, err := e.Submit(context.Background(), filter.Txn{ID: base.MakeTxnID(7, 3, 1), Snapshot: e.Snapshot(), Writes: []filter.Write{{Key: string(key(2)), Value: []byte("v")}}})
		if base.CodeOf(err) != base.CodeAmbiguous || time.Since(begin) > 5*time.Second {
			t.Errorf("after %v: %v", time.Since(begin), err)
		}
		if err := e.Err(); base.CodeOf(err) != base.CodeCorrupt {
			t.Errorf("the node that differs: %v", err)
		}
	})
}
