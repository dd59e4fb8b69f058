package lock

import (
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestEnding: a younger transaction waits for an older one that is committing,
// marked as young, and dies at one that is not.
func TestEnding(t *testing.T) {
	tab := New(Limits{})
	id := func(n uint32) base.TxnID { return base.MakeTxnID(base.Timestamp(n), 1, n) }
	key := base.PointSpan(base.Key("k"))
	ask := func(n uint32, mode Mode) (Outcome, *Waiter) {
		t.Helper()
		out, w, _, err := tab.Acquire(Request{Txn: id(n), Age: base.Timestamp(n), Span: key, Mode: mode, Policy: WaitDie})
		if err != nil {
			t.Fatal(err)
		}
		return out, w
	}
	young := func(w *Waiter) bool {
		older, ending := tab.Older(w)
		return older && ending
	}
	if out, _ := ask(10, Exclusive); out != Granted {
		t.Fatal(out)
	}
	if out, _ := ask(20, Exclusive); out != Died {
		t.Fatalf("younger at an older one: %v", out)
	}
	if out, w := ask(5, Exclusive); out != Waiting || young(w) {
		t.Fatalf("older at a younger one: %v", out)
	}
	tab.Release(id(5))
	tab.Ending(id(10), true)
	out, w := ask(20, Exclusive)
	if out != Waiting || !young(w) {
		t.Fatalf("younger at one that is ending: %v", out)
	}
	if out, _ := ask(30, Exclusive); out != Died {
		t.Fatalf("youngest behind a queued older one: %v", out)
	}
	if ev := tab.Release(id(10)); len(ev.Granted) != 1 || ev.Granted[0] != w {
		t.Fatalf("release granted %v", ev.Granted)
	}
	tab.Ending(id(20), true)
	tab.Ending(id(20), false)
	if out, _ := ask(30, Exclusive); out != Died {
		t.Fatalf("younger at one that goes on after all: %v", out)
	}
}

// TestWaitEnding: a request that waits only for committing transactions dies at any other one,
// whatever its age, even if a committing one holds the lock too.
func TestWaitEnding(t *testing.T) {
	tab := New(Limits{})
	id := func(n uint32) base.TxnID { return base.MakeTxnID(base.Timestamp(n), 1, n) }
	key := base.PointSpan(base.Key("k"))
	ask := func(n uint32, mode Mode, want Outcome) *Waiter {
		t.Helper()
		out, w, _, err := tab.Acquire(Request{Txn: id(n), Age: base.Timestamp(n), Span: key, Mode: mode, Policy: WaitEnding})
		if err != nil || out != want {
			t.Fatalf("transaction %d: %v, %v; want %v", n, out, err, want)
		}
		return w
	}
	ask(10, Shared, Granted)
	ask(20, Shared, Granted)
	ask(5, Exclusive, Died)
	ask(30, Exclusive, Died)
	tab.Ending(id(10), true)
	ask(30, Exclusive, Died)
	tab.Ending(id(20), true)
	w := ask(30, Exclusive, Waiting)
	ask(40, Exclusive, Died) // behind 30, which is not committing
	ask(20, Shared, Granted) // it holds the lock already
	tab.Release(id(10))
	if ev := tab.Release(id(20)); len(ev.Granted) != 1 || ev.Granted[0] != w {
		t.Fatalf("release granted %v", ev.Granted)
	}
	ask(40, Shared, Died)
}
