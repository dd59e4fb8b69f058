package txns

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/wire"
)

// Register adds a transaction that is new here, with a request under way, whose locks are held from
// a term on. timeout is how long it waits for a lock unless it says so.
func (t *Table) Register(id base.TxnID, m *wire.TxnMeta, term uint64, timeout time.Duration) *Txn {
	x := &Txn{ID: id, Born: term, Age: base.Timestamp(m.Age), Policy: lock.Policy(m.Policy),
		Timeout: time.Duration(m.LockTimeoutNs), Activity: Activity{Calls: 1, Last: time.Now()}}
	if x.Age == 0 {
		x.Age = id.Start()
	}
	if x.Timeout <= 0 {
		x.Timeout = timeout
	}
	t.ByID[id] = x
	return x
}

// FailWaits ends all waits for locks with an error.
func (t *Table) FailWaits(err error) {
	for _, x := range t.ByID {
		for _, w := range x.Waits {
			w.Finish(err)
		}
		x.Waits = nil
	}
}

// Unpend takes back that x was proposed, because it certainly was not.
func (t *Table) Unpend(x *Txn) {
	x.Phase, x.Keys, x.Handover, x.Patches, x.TS, x.Hi = Active, nil, nil, nil, 0, 0
	delete(t.Pending, x)
	delete(t.Slots, x)
	t.LockTable.Ending(x.ID, false)
	if x.Gone != nil && !x.Ended {
		close(x.Gone)
		x.Gone = nil
	}
}

// ForgetLate drops what was remembered for late requests and late notices: for so long, as of now
// by the node's clock.
func (t *Table) ForgetLate(now time.Time, clock base.Timestamp, memory time.Duration) {
	for id, n := range t.Notices {
		if now.Sub(n.At) > memory {
			delete(t.Notices, id)
		}
	}
	horizon := clock.Add(-memory)
	for id, at := range t.Finished {
		if at < horizon {
			delete(t.Finished, id)
		}
	}
}

// Settle wakes the requests whose waits have ended, and returns how many of them died.
func Settle(ev lock.Events) (died int) {
	for _, w := range ev.Granted {
		if lw, ok := w.Data.(*LockWait); ok {
			lw.Finish(nil)
		}
	}
	for _, w := range ev.Died {
		if lw, ok := w.Data.(*LockWait); ok {
			lw.Finish(base.Errorf(base.CodeAborted, "transaction %v gave way to an older one, to end a deadlock: retry", w.Txn()))
		}
	}
	return len(ev.Died)
}
