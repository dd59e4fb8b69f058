package filter

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"github.com/godwitdb/godwit/base"
)

// Write is one row that a transaction writes.
type Write struct {
	Key   string
	Value []byte // nil in what is left of a loser, and of a null write
	// Null: the origin has compared, and the row is as it was in the snapshot.
	Null bool
	Del  bool
}

// Txn is a transaction submitted to an epoch.
type Txn struct {
	ID base.TxnID
	// Priority: smaller is better; ties are broken by ID, so no two are equal.
	Priority uint64
	// Snapshot is the epoch that it has read. The rule does not use it; the merge does.
	Snapshot uint64
	Reads    []string
	Ranges   []base.Span
	Writes   []Write
	// Lost: it has met a better one. Reads, Ranges and values may be missing.
	Lost bool
}

// Batch is what one node submits to one epoch, or a slice of that.
type Batch struct {
	Origin int
	Txns   []Txn
	// Needs are the origins whose batches made void what is missing here.
	Needs []int
}

// Rule says what conflicts: a transaction loses against a better one that writes
// a key that it writes or, if Reads is set, has read. With Reads, the committed
// transactions are serializable in the order of their priorities, since all have
// executed on the same snapshot; without, it is snapshot isolation.
type Rule struct{ Reads bool }

// rank is a transaction's place among those that write a key.
type rank struct {
	priority uint64
	id       base.TxnID
	origin   int
}

func (r rank) compare(o rank) int {
	if c := cmp.Compare(r.priority, o.priority); c != 0 {
		return c
	}
	return bytes.Compare(r.id[:], o.id[:])
}

// judge knows the best writer of each key.
type judge struct {
	rule   Rule
	best   map[string]rank
	sorted []string // keys of best, once a range asks
}

func newJudge(rule Rule, batches []Batch) *judge {
	n := 0
	for i := range batches {
		for j := range batches[i].Txns {
			n += len(batches[i].Txns[j].Writes)
		}
	}
	g := &judge{rule: rule, best: make(map[string]rank, n)}
	for i := range batches {
		for j := range batches[i].Txns {
			t := &batches[i].Txns[j]
			r := rank{t.Priority, t.ID, batches[i].Origin}
			for w := range t.Writes {
				if old, ok := g.best[t.Writes[w].Key]; !ok || r.compare(old) < 0 {
					g.best[t.Writes[w].Key] = r
				}
			}
		}
	}
	return g
}

// beaten finds a better transaction that t conflicts with.
func (g *judge) beaten(t *Txn) (by rank, lost bool) {
	me := rank{priority: t.Priority, id: t.ID}
	ahead := func(key string) bool {
		r, ok := g.best[key]
		if ok && r.compare(me) < 0 {
			by, lost = r, true
		}
		return lost
	}
	for w := range t.Writes {
		if ahead(t.Writes[w].Key) {
			return by, true
		}
	}
	if !g.rule.Reads {
		return by, false
	}
	if slices.ContainsFunc(t.Reads, ahead) {
		return by, true
	}
	for _, s := range t.Ranges {
		if g.sorted == nil {
			g.sorted = make([]string, 0, len(g.best))
			for k := range g.best {
				g.sorted = append(g.sorted, k)
			}
			slices.Sort(g.sorted)
		}
		start, limit := string(s.Start), string(s.Limit())
		for i := sort.SearchStrings(g.sorted, start); i < len(g.sorted) && g.sorted[i] < limit; i++ {
			if ahead(g.sorted[i]) {
				return by, true
			}
		}
	}
	return by, false
}

// Group shortens the batches of a group in place. Each batch must hold its
// transactions once. What it leaves out it replaces; slices that it was given are
// not written to.
func Group(rule Rule, batches []Batch) {
	g := newJudge(rule, batches)
	seen := map[base.TxnID]*Txn{}
	from := map[base.TxnID]int{}
	for i := range batches {
		b := &batches[i]
		need := func(origin int) {
			if origin != b.Origin && !slices.Contains(b.Needs, origin) {
				b.Needs = append(b.Needs, origin)
			}
		}
		kept := make([]Txn, 0, len(b.Txns))
		for j := range b.Txns {
			t := b.Txns[j]
			if first, ok := seen[t.ID]; ok && same(first, &t) {
				need(from[t.ID])
				continue
			}
			if _, ok := seen[t.ID]; !ok {
				seen[t.ID], from[t.ID] = &b.Txns[j], b.Origin
			}
			if !t.Lost {
				if by, lost := g.beaten(&t); lost {
					need(by.origin)
					t.Lost = true
				}
			}
			if t.Lost {
				t.Reads, t.Ranges = nil, nil
			}
			t.Writes = slices.Clone(t.Writes)
			for w := range t.Writes {
				if t.Lost || t.Writes[w].Null {
					t.Writes[w].Value = nil
				}
			}
			kept = append(kept, t)
		}
		b.Txns = kept
		slices.Sort(b.Needs)
	}
}

// same compares everything: equal ids alone decide nothing.
func same(a, b *Txn) bool {
	return a.ID == b.ID && a.Priority == b.Priority && a.Snapshot == b.Snapshot && a.Lost == b.Lost &&
		slices.Equal(a.Reads, b.Reads) &&
		slices.EqualFunc(a.Ranges, b.Ranges, func(x, y base.Span) bool {
			return bytes.Equal(x.Start, y.Start) && bytes.Equal(x.End, y.End)
		}) &&
		slices.EqualFunc(a.Writes, b.Writes, func(x, y Write) bool {
			return x.Key == y.Key && x.Null == y.Null && x.Del == y.Del && bytes.Equal(x.Value, y.Value)
		})
}

// Result is what an epoch does.
type Result struct {
	Committed []base.TxnID     // in the order of their priorities
	Writes    map[string]Write // that change a row
}

// Winner is a transaction that no better one has beaten, whole or in slices.
type Winner struct {
	ID       base.TxnID
	Priority uint64
	Pieces   []*Txn
}

// Outcome applies the rule to the batches of an epoch, in any order, filtered or not.
func Outcome(rule Rule, batches []Batch) Result {
	res := Result{Writes: map[string]Write{}}
	for _, w := range Winners(rule, batches) {
		res.Committed = append(res.Committed, w.ID)
		for _, t := range w.Pieces {
			for _, x := range t.Writes {
				if !x.Null {
					res.Writes[x.Key] = x
				}
			}
		}
	}
	return res
}

// Winners are the transactions that the rule lets commit, best first. They share memory with the
// batches.
func Winners(rule Rule, batches []Batch) []Winner {
	g := newJudge(rule, batches)
	type fate struct {
		Winner
		lost bool
	}
	fates := map[base.TxnID]*fate{}
	for i := range batches {
		for j := range batches[i].Txns {
			t := &batches[i].Txns[j]
			f := fates[t.ID]
			if f == nil {
				f = &fate{Winner: Winner{ID: t.ID, Priority: t.Priority}}
				fates[t.ID] = f
			}
			_, lost := g.beaten(t)
			f.lost = f.lost || lost || t.Lost
			f.Pieces = append(f.Pieces, t)
		}
	}
	winners := make([]Winner, 0, len(fates))
	for _, f := range fates {
		if !f.lost {
			winners = append(winners, f.Winner)
		}
	}
	slices.SortFunc(winners, func(a, b Winner) int {
		return rank{priority: a.Priority, id: a.ID}.compare(rank{priority: b.Priority, id: b.ID})
	})
	return winners
}
