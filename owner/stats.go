package owner

import (
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/txns"
)

// Stats count what a replica did as an owner, since the process began.
type Stats struct {
	Reads, Commits, Prepares, Resolves, Errors        atomic.Int64
	LockWaits, LockWaitNanos, LockTimeouts, Deadlocks atomic.Int64
	Died                                              atomic.Int64 // requests that lost a conflict
	// reads that waited for an undecided commit
	UndecidedWaits atomic.Int64
	// waits for the outcome of a transaction whose slot had come
	SlotWaits atomic.Int64
	// patches evaluated at their slots
	Patches atomic.Int64
	// waits of writers over whose rows a patch on its way would not be defined
	PatchWaits atomic.Int64
	// patches that were not defined at their slots; always 0
	PatchesLost atomic.Int64
	// ends of transactions noted as the timestamp manager of its region
	Orders atomic.Int64
	// transactions aborted for silence
	Expired   atomic.Int64
	Collected atomic.Int64 // tombstones
	// hand-overs of the lead: state sent to the transfer target, taken up as transfer target, given
	// up
	HandedOver, Inherited, GivenUp atomic.Int64
	// requests that met one and were passed on, or served later
	Helped atomic.Int64
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
	rows := r.LockTable.Rows(limit)
	out := make([]LockRow, len(rows))
	for i, l := range rows {
		out[i].Row = l
		out[i].Span, out[i].CRT = txns.TierOf(l.Span)
		if x := r.ByID[l.Txn]; x != nil {
			out[i].Age = x.Age
		}
	}
	return out
}

// Txns lists the transactions of this owner.
func (r *Replica) Txns() []TxnRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	rows := make([]TxnRow, 0, len(r.ByID))
	for id, x := range r.ByID {
		row := TxnRow{ID: id, Age: x.Age, Phase: x.Phase.String(), Locks: r.LockTable.Count(id), Waiting: len(x.Waits), Idle: now.Sub(x.Last), TS: x.TS}
		if x.Phase == txns.Prepared {
			row.Prepared = now.Sub(x.Since)
		}
		rows = append(rows, row)
	}
	return rows
}
