package owner

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/txns"
)

// waitGraph is the waits-for graph of all owners of this node. They are looked at one after the
// other, so a cycle may be seen that never existed. At worst a transaction is retried in vain.
type waitGraph struct {
	at     []*Replica
	from   txns.Ranked
	seen   map[base.TxnID]struct{}
	budget int
}

// youngest follows the waits from x back to where the search began and returns
// the youngest transaction of the cycle found.
func (g *waitGraph) youngest(x txns.Ranked) (victim txns.Ranked, found bool) {
	for _, r := range g.at {
		var next []txns.Ranked
		r.mu.Lock()
		r.LockTable.Awaited(x.ID, func(b base.TxnID, age base.Timestamp) bool {
			if g.budget--; g.budget < 0 || b == g.from.ID {
				found = b == g.from.ID
				return false
			}
			if _, ok := g.seen[b]; !ok {
				g.seen[b] = struct{}{}
				next = append(next, txns.Ranked{ID: b, Age: age})
			}
			return true
		})
		r.mu.Unlock()
		if found {
			return x, true
		}
		for _, b := range next {
			if victim, found = g.youngest(b); found {
				if victim.Older(x) {
					victim = x
				}
				return victim, true
			}
		}
	}
	return txns.Ranked{}, false
}

// breakDeadlock kills the youngest in a cycle of transactions, the given one among them, that
// wait for locks of several owners of this node. No replica's mu is held.
func (s *Set) breakDeadlock(x *txns.Txn) {
	g := waitGraph{from: txns.Ranked{ID: x.ID, Age: x.Age}, seen: map[base.TxnID]struct{}{}, budget: maxDetect}
	for _, r := range *s.replicas.Load() {
		if r.queued.Load() > 0 {
			g.at = append(g.at, r)
		}
	}
	if len(g.at) < 2 {
		return // its table has looked already
	}
	victim, found := g.youngest(g.from)
	if !found {
		return
	}
	for _, r := range g.at {
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
