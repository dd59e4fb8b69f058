package waits

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/txns"
)

// Table is one lock table of the node.
type Table interface {
	// Awaited calls f for each transaction that one waits for, with its age, until f returns false.
	Awaited(id base.TxnID, f func(base.TxnID, base.Timestamp) bool)
}

// maxLooked is how many transactions and locks one search looks at.
const maxLooked = 10_000

// Youngest is the youngest transaction of a cycle of waits over several tables that goes through x.
// The tables are looked at one after the other, so a cycle may be seen that never existed. At worst
// a transaction is retried in vain.
func Youngest(at []Table, x txns.Ranked) (victim txns.Ranked, found bool) {
	g := graph{at: at, from: x, seen: map[base.TxnID]struct{}{}, budget: maxLooked}
	return g.youngest(x)
}

// graph is the waits-for graph of all tables.
type graph struct {
	at     []Table
	from   txns.Ranked
	seen   map[base.TxnID]struct{}
	budget int
}

// youngest follows the waits from x back to where the search began.
func (g *graph) youngest(x txns.Ranked) (victim txns.Ranked, found bool) {
	for _, t := range g.at {
		var next []txns.Ranked
		t.Awaited(x.ID, func(b base.TxnID, age base.Timestamp) bool {
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
