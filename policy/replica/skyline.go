package replica

import (
	"cmp"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Node is what is known of a node that may answer reads.
type Node struct {
	ID     base.NodeID
	Region base.RegionID
	// Staleness is how old the newest snapshot is that its replicas can show.
	Staleness time.Duration
	// Latency is how long its answer takes: the round trip, and what reads asked of it were seen to
	// take on top.
	Latency time.Duration
	Load    int  // statements in flight there
	Healthy bool // it was heard of lately, and holds what it should
}

// perStatement is what a statement in flight adds to the expected latency of the next one.
const perStatement = 100 * time.Microsecond

// Cost is the latency to expect, with the load.
func (n *Node) Cost() time.Duration { return n.Latency + time.Duration(n.Load)*perStatement }

// Skyline is the healthy nodes that no other one beats: none is both at least as fresh and at least
// as fast, and better in one of them. It is ordered by cost: the fastest first, the freshest last.
func Skyline(nodes []Node) []Node {
	all := slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !n.Healthy })
	slices.SortFunc(all, func(a, b Node) int {
		return cmp.Or(cmp.Compare(a.Cost(), b.Cost()), cmp.Compare(a.Staleness, b.Staleness), cmp.Compare(a.ID, b.ID))
	})
	var out []Node
	for _, n := range all {
		if len(out) == 0 || n.Staleness < out[len(out)-1].Staleness {
			out = append(out, n)
		}
	}
	return out
}

// Query is a read that looks for a node.
type Query struct {
	// Bound is how old the snapshot is that the read wants: a node at least so fresh can answer
	// without a wait.
	Bound time.Duration
	// Holds reports whether a node holds what is read; nil: all do.
	Holds func(base.NodeID) bool
	// Wait is the time between closed timestamps: what a node that is too stale adds to the wait
	// for them.
	Wait time.Duration
}

// Choose picks the node whose answer is to be expected first: of the nodes that hold what is read,
// the fastest one that is fresh enough, or one that will be sooner than that one answers. ok is
// false if there is none.
func Choose(nodes []Node, q Query) (best Node, ok bool) {
	if q.Holds != nil {
		nodes = slices.DeleteFunc(slices.Clone(nodes), func(n Node) bool { return !q.Holds(n.ID) })
	}
	var least time.Duration
	for _, n := range Skyline(nodes) {
		c := n.Cost()
		if n.Staleness > q.Bound {
			c += n.Staleness - q.Bound + q.Wait
		}
		if !ok || c < least {
			best, least, ok = n, c, true
		}
	}
	return best, ok
}

// Table is what the nodes are known to be, kept fresh in the background.
type Table struct {
	nodes map[base.NodeID]*Node
	extra map[base.NodeID]time.Duration // what reads took beyond the round trip, smoothed
}

// NewTable knows nobody yet.
func NewTable() *Table {
	return &Table{nodes: map[base.NodeID]*Node{}, extra: map[base.NodeID]time.Duration{}}
}

// Set takes the facts of a node; its latency is the round trip.
func (t *Table) Set(n Node) {
	n.Latency += t.extra[n.ID]
	t.nodes[n.ID] = &n
	t.extra[n.ID] -= t.extra[n.ID] / 8 // it is forgiven in time, so that it is tried again
}

// Drop forgets a node.
func (t *Table) Drop(id base.NodeID) {
	delete(t.nodes, id)
	delete(t.extra, id)
}

// Answered notes that a node took so long beyond its round trip to answer a read; failed: it did
// not.
func (t *Table) Answered(id base.NodeID, beyond time.Duration, failed bool) {
	if failed {
		beyond = max(beyond, penalty)
	}
	e := t.extra[id] + (max(beyond, 0)-t.extra[id])/4
	if n := t.nodes[id]; n != nil {
		n.Latency += e - t.extra[id]
	}
	t.extra[id] = e
}

// penalty is what a failed read counts as.
const penalty = 2 * time.Second

// Nodes are all of them, by id.
func (t *Table) Nodes() []Node {
	out := make([]Node, 0, len(t.nodes))
	for _, n := range t.nodes {
		out = append(out, *n)
	}
	slices.SortFunc(out, func(a, b Node) int { return cmp.Compare(a.ID, b.ID) })
	return out
}
