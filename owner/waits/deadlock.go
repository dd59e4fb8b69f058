package waits

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/txns"
)

// Table is one lock table of the node.
type Table interface {
	// Awaited calls f for each transaction that transaction id waits for, with its age, until f
	// returns false.
	Awaited(id base.TxnID, f func(base.TxnID, base.Timestamp) bool)
}

// maxLooked is how many edges of the graph one search follows, at most.
const maxLooked = 10_000

// Youngest looks for a cycle of waiting transactions that contains x, over all tables, and returns
// the youngest transaction of the cycle. It looks at one table after the other, so it may see a
// cycle that never existed. At worst a transaction is retried in vain.
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

// youngest searches, depth first, for a path of waits from x to where the search began. It returns
// the youngest transaction on that path.
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
