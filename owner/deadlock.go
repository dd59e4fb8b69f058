package owner

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
)

// ranked is a transaction with its priority.
type ranked struct {
	id  base.TxnID
	age base.Timestamp
}

func (a ranked) older(b ranked) bool {
	return a.age < b.age || a.age == b.age && bytes.Compare(a.id[:], b.id[:]) < 0
}

// waitGraph is the waits-for graph of all owners of this node. They are asked one after the other, so
// that a circle may be seen that never was: at worst somebody is tried again in vain.
type waitGraph struct {
	at     []*Replica
	from   ranked
	seen   map[base.TxnID]struct{}
	budget int
}

// youngest follows the waits from x back to where the search began and returns
// the youngest transaction of the circle found.
func (g *waitGraph) youngest(x ranked) (victim ranked, found bool) {
	for _, r := range g.at {
		var next []ranked
		r.mu.Lock()
		r.locks.Awaited(x.id, func(b base.TxnID, age base.Timestamp) bool {
			if g.budget--; g.budget < 0 || b == g.from.id {
				found = b == g.from.id
				return false
			}
			if _, ok := g.seen[b]; !ok {
				g.seen[b] = struct{}{}
				next = append(next, ranked{b, age})
			}
			return true
		})
		r.mu.Unlock()
		if found {
			return x, true
		}
		for _, b := range next {
			if victim, found = g.youngest(b); found {
				if victim.older(x) {
					victim = x
				}
				return victim, true
			}
		}
	}
	return ranked{}, false
}

// breakDeadlock kills the youngest in a circle of transactions, the given one among them, that
// wait for locks of several owners of this node. No replica's mu is held.
func (s *Set) breakDeadlock(x *txnState) {
	g := waitGraph{from: ranked{x.id, x.age}, seen: map[base.TxnID]struct{}{}, budget: maxDetect}
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
		if v := r.txns[victim.id]; v != nil {
			for _, w := range v.waits {
				if w.finish(base.Errorf(base.CodeAborted, "transaction %v gave way to an older one, to end a deadlock: retry", v.id)) {
					r.stats.Deadlocks.Add(1)
					r.settle(r.locks.Cancel(w.in))
				}
			}
		}
		r.mu.Unlock()
	}
}
