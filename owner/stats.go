package owner

import (
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lock"
)

// Stats count what a replica did as an owner, since the process began.
type Stats struct {
	Reads, Commits, Prepares, Resolves, Errors        atomic.Int64
	LockWaits, LockWaitNanos, LockTimeouts, Deadlocks atomic.Int64
	Died                                              atomic.Int64 // requests that lost a conflict
	UndecidedWaits                                    atomic.Int64 // reads that waited for an undecided commit
	SlotWaits                                         atomic.Int64 // waits for the outcome of a transaction whose slot had come
	Patches                                           atomic.Int64 // patches evaluated at their slots
	PatchWaits                                        atomic.Int64 // waits of writers over whose rows a patch on its way would not be defined
	PatchesLost                                       atomic.Int64 // patches that were not defined at their slots; always 0
	Orders                                            atomic.Int64 // ends of transactions told to it as the timestamp manager of its region
	Expired                                           atomic.Int64 // transactions aborted for silence
	Collected                                         atomic.Int64 // tombstones
	HandedOver, Inherited, GivenUp                    atomic.Int64 // hand-overs of the lead: told to the heir, taken up as heir, come to nothing
	Helped                                            atomic.Int64 // requests that met one and were passed on, or served later
}

// Stats are the replica's counters, to be read.
func (r *Replica) Stats() *Stats { return &r.stats }

// TxnRow is one transaction at its owner, for people to look at.
type TxnRow struct {
	ID       base.TxnID
	Age      base.Timestamp
	Phase    string
	Locks    int
	Waiting  int
	Idle     time.Duration
	TS       base.Timestamp // assigned or voted, else 0
	Prepared time.Duration  // how long ago
}

// LockRow is one granted or waiting lock, for people to look at.
type LockRow struct {
	lock.Row
	Age base.Timestamp // of its transaction: the smaller, the higher its priority in conflicts
	CRT bool           // in the tier that orders transactions which cross regions (slot.go)
}

// Locks lists the locks of this owner, at most limit (0: all).
func (r *Replica) Locks(limit int) []LockRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := r.locks.Rows(limit)
	out := make([]LockRow, len(rows))
	for i, l := range rows {
		out[i].Row = l
		out[i].Span, out[i].CRT = tierOf(l.Span)
		if x := r.txns[l.Txn]; x != nil {
			out[i].Age = x.age
		}
	}
	return out
}

// Txns lists the transactions of this owner.
func (r *Replica) Txns() []TxnRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	rows := make([]TxnRow, 0, len(r.txns))
	for id, x := range r.txns {
		row := TxnRow{ID: id, Age: x.age, Phase: x.phase.String(), Locks: r.locks.Count(id), Waiting: len(x.waits), Idle: now.Sub(x.last), TS: x.ts}
		if x.phase == prepared {
			row.Prepared = now.Sub(x.since)
		}
		rows = append(rows, row)
	}
	return rows
}
