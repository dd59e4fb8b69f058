package multi

import (
	"testing"
	"testing/synctest"
	"time"

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
		w.nodes[2].crash()
		w.nodes[2].boot()
		w.settle(10 * time.Second)
		check("after a restart")
	})
}
