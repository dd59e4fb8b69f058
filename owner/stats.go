package owner

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// Stats are the replica's counters, to be read.
func (r *Replica) Stats() *gauge.Stats { return &r.stats }

// Loads are the requests to this replica as its group's leader, by their sender.
func (r *Replica) Loads() map[gauge.Asker]gauge.Load { return r.load.All() }

// countRequest counts a request, whose first key is given. A statement that was forwarded here made
// one trip, whatever it asks here; it counts with its commit.
func (r *Replica) countRequest(from base.NodeID, txn *wire.TxnMeta, write bool, key base.Key) {
	whole := r.cfg.Whole != nil && len(key) >= base.IndexPrefixLen && r.cfg.Whole(key)
	if from == r.cfg.Self && r.cfg.Region != nil {
		if g := base.RegionID(txn.GetGatewayRegion()); g != 0 && g != r.cfg.Region() {
			if write {
				r.load.Note(gauge.Asker{Region: g}, true, whole)
			}
			return
		}
	}
	r.load.Note(gauge.Asker{Node: from}, write, whole)
}

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
		row := TxnRow{ID: id, Age: x.Age, Phase: x.Phase.String(), Locks: r.LockTable.Count(id),
			Waiting: len(x.Waits), Idle: now.Sub(x.Last), TS: x.TS}
		if x.Phase == txns.Prepared {
			row.Prepared = now.Sub(x.Since)
		}
		rows = append(rows, row)
	}
	return rows
}
