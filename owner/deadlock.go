package owner

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/waits"
)

// Awaited implements waits.Table.
func (r *Replica) Awaited(id base.TxnID, f func(base.TxnID, base.Timestamp) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.LockTable.Awaited(id, f)
}

// breakDeadlock looks for a cycle of transactions that contains x and goes over several owners of
// this node, and ends the waits of the youngest one with an error. No replica's mu is held.
func (s *Set) breakDeadlock(x *txns.Txn) {
	var at []*Replica
	var tables []waits.Table
	for _, r := range s.Replicas() {
		if r.queued.Load() > 0 {
			at, tables = append(at, r), append(tables, r)
		}
	}
	if len(at) < 2 {
		return // its table has looked already
	}
	victim, found := waits.Youngest(tables, txns.Ranked{ID: x.ID, Age: x.Age})
	if !found {
		return
	}
	for _, r := range at {
		r.mu.Lock()
		if v := r.ByID[victim.ID]; v != nil {
			for _, w := range v.Waits {
				if w.Finish(base.Errorf(base.CodeAborted,
					"transaction %v gave way to an older one, to end a deadlock: retry", v.ID)) {
					r.stats.Deadlocks.Add(1)
					r.settle(r.LockTable.Cancel(w.In))
				}
			}
		}
		r.mu.Unlock()
	}
}
