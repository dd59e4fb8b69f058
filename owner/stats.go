package owner

import (
	"time"

	"github.com/godwitdb/godwit/base"
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
type TxnRow = txns.TxnRow

// LockRow is one granted or waiting lock, for people to look at.
type LockRow = txns.LockRow

// Locks lists the locks of this owner, at most limit (0: all).
func (r *Replica) Locks(limit int) []LockRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.LockRows(limit)
}

// Txns lists the transactions of this owner.
func (r *Replica) Txns() []TxnRow {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.TxnRows(time.Now())
}

// Staged is how many transactions have pieces here and have not voted.
func (r *Replica) Staged() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rep.Staged)
}

// Standing is how many transactions stand prepared here.
func (r *Replica) Standing() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.rep.Standing)
}
