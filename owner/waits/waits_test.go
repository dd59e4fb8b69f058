package waits

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/txns"
)

// TestLeft: how long a request waits depends on the transaction that it waits for.
func TestLeft(t *testing.T) {
	const ms = time.Millisecond
	start := time.Now()
	p := Patience{Deadlock: 100 * ms}
	for _, c := range []struct {
		what          string
		x             txns.Txn
		brief         bool
		older, ending bool
		alone         bool
		at            time.Duration // of the second call of Left; the first one is at the start
		left          time.Duration
		v             Verdict
	}{
		{"a younger one", txns.Txn{}, false, false, false, false, 9 * time.Second, time.Second, GoesOn},
		{"as long as it allows", txns.Txn{}, false, false, false, false, 10 * time.Second, 0, Timeout},
		{"an older one", txns.Txn{}, false, true, false, false, 99 * ms, 9901 * ms, GoesOn},
		{"an older one for long", txns.Txn{}, false, true, false, false, 100 * ms, 0, Cyclic},
		{"one node", txns.Txn{}, false, true, false, true, 5 * time.Second, 5 * time.Second, GoesOn},
		{"one node under WAIT_DIE", txns.Txn{Policy: lock.WaitDie}, false, true, false, true, 100 * ms, 0, Cyclic},
		{"one that is committing", txns.Txn{}, false, true, true, false, 999 * ms, 9001 * ms, GoesOn},
		{"one that is committing for long", txns.Txn{}, false, true, true, false, time.Second, 0, Cyclic},
		{"with votes", txns.Txn{Voting: true}, false, true, true, false, 500 * ms, 0, Cyclic},
		{"with votes, a younger one", txns.Txn{Voting: true}, false, false, false, false, 1499 * ms, 8501 * ms, GoesOn},
		{"with votes, a younger one for long", txns.Txn{Voting: true}, false, false, false, false, 1500 * ms, 0, Cyclic},
		{"briefly", txns.Txn{}, true, true, true, false, 900 * ms, 100 * ms, GoesOn},
		{"briefly for long", txns.Txn{}, true, false, false, true, time.Second, 0, Busy},
	} {
		c.x.Timeout, p.Alone = 10*time.Second, c.alone
		w := Wait{Txn: &c.x, Start: start, Brief: c.brief}
		w.Left(start, p, c.older, c.ending)
		if left, v := w.Left(start.Add(c.at), p, c.older, c.ending); left != c.left || v != c.v {
			t.Errorf("%s: %v, %v; want %v, %v", c.what, left, v, c.left, c.v)
		}
	}
	// The bound counts from the moment at which the request began to wait for an older one.
	x := txns.Txn{}
	x.Timeout, p.Alone = 10*time.Second, false
	w := Wait{Txn: &x, Start: start}
	w.Left(start, p, true, false)
	w.Left(start.Add(50*ms), p, false, false)
	w.Left(start.Add(60*ms), p, true, false)
	if _, v := w.Left(start.Add(150*ms), p, true, false); v != GoesOn {
		t.Errorf("90 ms after an older one has come: %v", v)
	}
	if _, v := w.Left(start.Add(160*ms), p, true, false); v != Cyclic {
		t.Errorf("100 ms after an older one has come: %v", v)
	}
}

type graphOf map[uint32][]uint32

func id(n uint32) base.TxnID { return base.MakeTxnID(base.Timestamp(n), 1, n) }

func (g graphOf) Awaited(x base.TxnID, f func(base.TxnID, base.Timestamp) bool) {
	for from, tos := range g {
		if id(from) != x {
			continue
		}
		for _, to := range tos {
			if !f(id(to), base.Timestamp(to)) {
				return
			}
		}
	}
}

// TestYoungest: the search finds the youngest transaction of a cycle over several tables from each
// of its members, and nothing from a transaction outside of a cycle.
func TestYoungest(t *testing.T) {
	tables := []Table{graphOf{1: {5}, 7: {9}}, graphOf{5: {3}, 9: {1}}, graphOf{3: {1, 7}}}
	for _, c := range []struct{ from, victim uint32 }{{1, 5}, {5, 5}, {3, 5}, {7, 9}, {9, 9}, {2, 0}} {
		v, found := Youngest(tables, txns.Ranked{ID: id(c.from), Age: base.Timestamp(c.from)})
		if found != (c.victim != 0) || found && v.Age != base.Timestamp(c.victim) {
			t.Errorf("from %d: %v, %v; want %d", c.from, v.Age, found, c.victim)
		}
	}
}
