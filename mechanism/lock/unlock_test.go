package lock

import (
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestUnlock: one lock is given back, and who waits for it goes on; the others stay.
func TestUnlock(t *testing.T) {
	tab := New(Limits{})
	id := func(n uint32) base.TxnID { return base.MakeTxnID(base.Timestamp(n), 1, n) }
	key := func(k string) base.Span { return base.PointSpan(base.Key(k)) }
	ask := func(n uint32, k string, mode Mode) (Outcome, *Waiter) {
		t.Helper()
		out, w, _, err := tab.Acquire(Request{Txn: id(n), Age: base.Timestamp(n), Span: key(k), Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		return out, w
	}
	ask(1, "a", Shared)
	ask(1, "b", Shared)
	ask(2, "a", Shared)
	out, w := ask(3, "a", Exclusive)
	if out != Waiting {
		t.Fatal(out)
	}
	if ev := tab.Unlock(id(1), key("a")); len(ev.Granted) != 0 {
		t.Fatal("granted beside a reader")
	}
	if ev := tab.Unlock(id(2), key("a")); len(ev.Granted) != 1 || ev.Granted[0] != w {
		t.Fatalf("granted %v", ev.Granted)
	}
	for _, k := range []string{"a", "c"} { // it holds neither
		if ev := tab.Unlock(id(1), key(k)); len(ev.Granted) != 0 || !tab.Holds(id(3), key("a"), Exclusive) {
			t.Fatal("unlocked for another one")
		}
	}
	if !tab.Holds(id(1), key("b"), Shared) || tab.Holds(id(1), key("a"), Shared) {
		t.Fatal("the wrong lock is gone")
	}
	if locks, waiting, txns := tab.Counts(); locks != 2 || waiting != 0 || txns != 2 {
		t.Fatalf("%d locks, %d waiting, %d transactions", locks, waiting, txns)
	}
	tab.Unlock(id(1), key("b"))
	tab.Release(id(3))
	if locks, _, txns := tab.Counts(); locks != 0 || txns != 0 {
		t.Fatalf("%d locks of %d transactions are left", locks, txns)
	}
}
