package history

import (
	"fmt"
	"maps"
	"slices"
)

// Level is what a history is checked against.
type Level uint8

const (
	// LevelSnapshotIsolation: the dependencies have no cycle without two adjacent rw edges (Adya's
	// PL-SI as characterised by Cerone and Gotsman, "Analysing Snapshot Isolation", theorem 10). No
	// real time.
	LevelSnapshotIsolation Level = iota
	// LevelSerializable: the dependencies have no cycle (PL-3).
	LevelSerializable
	// LevelSessionSerializable: serializable, and each client sees its own transactions in order.
	LevelSessionSerializable
	// LevelRelay: Relay, section 3.1: serializable in an order that keeps real time between
	// transactions that share a region, and between conflicting ones wherever they are (no stale
	// reads). The edges of all regions stand in ONE graph: region by region is not enough.
	LevelRelay
	// LevelStrictSerializable: serializable in an order that keeps real time.
	LevelStrictSerializable
)

var levelNames = [...]string{"snapshot isolation", "serializability", "session serializability", "Relay consistency",
	"strict serializability"}

// String is the name of the level in reports.
func (l Level) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return fmt.Sprintf("Level(%d)", uint8(l))
}

// Stats says how much information a verdict rests on.
type Stats struct {
	Txns      int // in the history
	Effective int // of those, committed or seen
	Reads     int // external reads, one a key
	Keys      int
	// UnorderedKeys have versions whose order is only partly known (before real time is used).
	UnorderedKeys int
	// AmbiguousReads saw an absent key and it is not known which tombstone; they add no edges.
	AmbiguousReads int
	Nodes, Edges   int // of the graph
}

// SnapshotIsolation checks LevelSnapshotIsolation.
func SnapshotIsolation(h *History) *Violation { v, _ := Check(h, LevelSnapshotIsolation); return v }

// Serializable checks LevelSerializable.
func Serializable(h *History) *Violation { v, _ := Check(h, LevelSerializable); return v }

// SessionSerializable checks LevelSessionSerializable.
func SessionSerializable(h *History) *Violation { v, _ := Check(h, LevelSessionSerializable); return v }

// RelayConsistent checks LevelRelay.
func RelayConsistent(h *History) *Violation { v, _ := Check(h, LevelRelay); return v }

// StrictSerializable checks LevelStrictSerializable.
func StrictSerializable(h *History) *Violation { v, _ := Check(h, LevelStrictSerializable); return v }

// Check judges the history against one level; nil means that no violation could be proved. Time and
// memory are O(n log n) in the number of operations, where a range read counts once for every key
// of the history in its span.
func Check(h *History, level Level) (*Violation, Stats) {
	st := Stats{Txns: len(h.Txns)}
	x, v := newIndex(h, level == LevelRelay || level == LevelStrictSerializable)
	if v != nil {
		v.Level = level.String()
		return v, st
	}
	st.Keys, st.Reads, st.AmbiguousReads = len(x.keys), len(x.reads), x.ambiguous
	for _, e := range x.effective {
		if e {
			st.Effective++
		}
	}
	for k := range x.keys {
		if !x.keys[k].total {
			st.UnorderedKeys++
		}
	}
	g := newGraph(len(h.Txns))
	x.addDependencies(g)
	x.addOrders(g, level)
	if level == LevelSnapshotIsolation {
		g = g.withoutAdjacentRW()
	}
	g.freeze()
	st.Nodes, st.Edges = g.nodes, len(g.edges)
	v = x.findCycle(g)
	if v != nil {
		v.Level = level.String()
	}
	return v, st
}

// manySuccessors is the number of direct successors of a version from which on its readers share an
// auxiliary node.
const manySuccessors = 4

// addDependencies adds Adya's ww, wr and rw edges.
func (x *index) addDependencies(g *graph) {
	for i := range x.vers {
		if v := &x.vers[i]; v.txn != none {
			for _, s := range v.succ {
				g.add(v.txn, x.vers[s].txn, ww, v.key)
			}
		}
	}
	shared := map[[2]int32]int32{} // (version, kind) to the auxiliary node of its readers
	for _, r := range x.reads {
		if r.ver == none {
			continue
		}
		if v := &x.vers[r.ver]; v.txn != none {
			g.add(v.txn, r.txn, wr, r.key)
		}
		x.addAntiDependencies(g, r, shared)
	}
}

// addAntiDependencies adds the rw edges of a read: to all that overwrote what it saw.
func (x *index) addAntiDependencies(g *graph, r access, shared map[[2]int32]int32) {
	kind := rw
	if r.scan {
		kind = rwScan
	}
	succ := x.vers[r.ver].succ
	own, writes := x.own[r.txn][r.key]
	switch {
	case len(succ) < manySuccessors:
	case writes && contains(succ, own):
		// The shared node would lead the reader to itself.
		succ = succ[:min(len(succ), maxExplicit)]
	default:
		id := [2]int32{r.ver, int32(kind)}
		node, ok := shared[id]
		if !ok {
			node = g.aux()
			shared[id] = node
			for _, s := range succ {
				g.add(node, x.vers[s].txn, inner, none)
			}
		}
		g.add(r.txn, node, kind, r.key)
		return
	}
	for _, s := range succ {
		g.add(r.txn, x.vers[s].txn, kind, r.key)
	}
}

func contains(list []int32, v int32) bool {
	for _, e := range list {
		if e == v {
			return true
		}
	}
	return false
}

// addOrders adds the order that the level demands beyond the dependencies.
func (x *index) addOrders(g *graph, level Level) {
	var all []int32
	for _, t := range x.h.sortByInvoke() {
		if x.effective[t] {
			all = append(all, t)
		}
	}
	switch level {
	case LevelSessionSerializable:
		x.addSessions(g, all)
		return
	case LevelStrictSerializable:
		g.orderByRealTime(x, all, all)
	case LevelRelay:
		x.addRegions(g, all)
	default:
		return
	}
	readers := x.readersByKey()
	for k := range x.keys {
		if level == LevelRelay {
			writers, accessors := x.accessorsOf(k, readers[k])
			g.orderByRealTime(x, writers, accessors)
		}
		if !x.keys[k].total {
			g.inferFromRealTime(x, int32(k), readers[k])
		}
	}
}

// addSessions orders what each client did.
func (x *index) addSessions(g *graph, all []int32) {
	last := map[int]int32{}
	for _, t := range all {
		now := &x.h.Txns[t]
		if p, ok := last[now.Client]; ok && x.h.Txns[p].Outcome == Committed && x.h.Txns[p].Return <= now.Invoke {
			g.add(p, t, session, none)
		}
		last[now.Client] = t
	}
}

// addRegions orders what involved each region by real time.
func (x *index) addRegions(g *graph, all []int32) {
	members := map[string][]int32{}
	for _, t := range all {
		for _, r := range x.h.Txns[t].regions() {
			members[r] = append(members[r], t)
		}
	}
	for _, r := range slices.Sorted(maps.Keys(members)) {
		g.orderByRealTime(x, members[r], members[r])
	}
}

// accessorsOf are the writers of a key, and all that read or wrote it.
func (x *index) accessorsOf(k int, readers []access) (writers, accessors []int32) {
	for _, v := range x.keys[k].vers[1:] {
		writers = append(writers, x.vers[v].txn)
	}
	accessors = append(accessors, writers...)
	for _, r := range readers {
		if _, both := x.own[r.txn][r.key]; !both {
			accessors = append(accessors, r.txn)
		}
	}
	return writers, accessors
}

func (x *index) readersByKey() [][]access {
	by := make([][]access, len(x.keys))
	for _, r := range x.reads {
		by[r.key] = append(by[r.key], r)
	}
	return by
}

// withoutAdjacentRW returns a graph whose cycles are those cycles of g that have no two adjacent rw
// edges. A node n has two copies: n as reached by other edges, and nodes+n as reached by an rw
// edge, from where no rw edge leads on.
func (g *graph) withoutAdjacentRW() *graph {
	n := int32(g.nodes)
	d := &graph{txns: g.txns, nodes: 2 * g.nodes, half: g.nodes, edges: make([]edge, 0, 2*len(g.edges))}
	for _, e := range g.edges {
		switch e.kind {
		case rw, rwScan:
			d.edges = append(d.edges, edge{e.from, e.to + n, e.kind, e.label})
		case inner:
			// An auxiliary node hands on the way in which it was reached.
			d.edges = append(d.edges, e, edge{e.from + n, e.to + n, e.kind, e.label})
		default:
			d.edges = append(d.edges, e, edge{e.from + n, e.to, e.kind, e.label})
		}
	}
	return d
}

// findCycle looks for a cycle, first in the whole graph; if there is one, then in growing sets of
// edges, so that the cycle reported is of the worst kind.
func (x *index) findCycle(g *graph) *Violation {
	keepAll := func(edgeKind) bool { return true }
	if len(g.cyclic(keepAll)) == 0 {
		return nil
	}
	for _, last := range []edgeKind{ww, wr, rwScan, session, rwTime} {
		keep := func(k edgeKind) bool { return k <= last || k == inner }
		if comps := g.cyclic(keep); len(comps) > 0 {
			if cycle := g.shortCycle(comps, keep); cycle != nil {
				return x.explain(g, cycle)
			}
		}
	}
	// Every cycle has a transaction, but a search may have begun only from others: report the first
	// component.
	comp := g.cyclic(keepAll)[0]
	var txns []int32
	for _, n := range comp {
		if n < int32(g.txns) && len(txns) < 20 {
			txns = append(txns, n)
		}
	}
	return complain(x.h, "cycle", txns, "a cycle among %d nodes", len(comp))
}
