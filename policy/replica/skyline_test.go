package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

const ms = time.Millisecond

func node(id base.NodeID, stale, latency time.Duration, load int) Node {
	return Node{ID: id, Staleness: stale, Latency: latency, Load: load, Healthy: true}
}

func ids(nodes []Node) string {
	s := ""
	for _, n := range nodes {
		s += fmt.Sprint(n.ID, " ")
	}
	return s
}

func TestSkyline(t *testing.T) {
	dead := node(9, 0, 0, 0)
	dead.Healthy = false
	for _, c := range []struct {
		name  string
		nodes []Node
		want  string
	}{
		{"none", nil, ""},
		{"one", []Node{node(1, 10*ms, ms, 0)}, "1 "},
		{"a faster and fresher one beats the rest", []Node{node(1, 10*ms, 5*ms, 0), node(2, 5*ms, ms, 0)}, "2 "},
		{"fast and stale, slow and fresh: both", []Node{node(1, 50*ms, 0, 0), node(2, 0, 60*ms, 0)}, "1 2 "},
		{"in the middle, and beaten there", []Node{node(1, 50*ms, 0, 0), node(2, 0, 60*ms, 0),
			node(3, 20*ms, 30*ms, 0), node(4, 30*ms, 40*ms, 0)}, "1 3 2 "},
		{"load is latency", []Node{node(1, 10*ms, ms, 100), node(2, 10*ms, 2*ms, 0)}, "2 "},
		{"the dead are out", []Node{dead, node(1, 10*ms, ms, 0)}, "1 "},
		{"the same twice", []Node{node(2, ms, ms, 0), node(1, ms, ms, 0)}, "1 "},
	} {
		if got := ids(Skyline(c.nodes)); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestChoose(t *testing.T) {
	local, mate, owner := node(1, 80*ms, 0, 0), node(2, 70*ms, ms, 0), node(3, 0, 120*ms, 0)
	for _, c := range []struct {
		name  string
		nodes []Node
		q     Query
		want  base.NodeID
	}{
		{"the local one is fresh enough", []Node{local, mate, owner}, Query{Bound: 100 * ms}, 1},
		{"only a mate is", []Node{local, mate, owner}, Query{Bound: 75 * ms, Wait: 10 * ms}, 2},
		{"a wait is shorter than the way to the owner", []Node{local, owner}, Query{Bound: 0, Wait: 10 * ms}, 1},
		{"the way to the owner is shorter than a wait", []Node{node(1, 2*time.Second, 0, 0), owner},
			Query{Bound: 0, Wait: 10 * ms}, 3},
		{"who holds it", []Node{local, mate, owner}, Query{Bound: time.Second, Holds: func(n base.NodeID) bool {
			return n == 2
		}}, 2},
		{"nobody holds it", []Node{local}, Query{Holds: func(base.NodeID) bool { return false }}, 0},
		{"nobody", nil, Query{}, 0},
		{"an overloaded owner's load goes elsewhere", []Node{node(3, 0, ms, 2000), node(2, 20*ms, 2*ms, 0)},
			Query{Bound: 50 * ms}, 2},
	} {
		got, ok := Choose(c.nodes, c.q)
		if got.ID != c.want || ok != (c.want != 0) {
			t.Errorf("%s: node %d (%v), want %d", c.name, got.ID, ok, c.want)
		}
	}
}

// TestTable replays what happens to a replica: slow, stale, dead, and well again.
func TestTable(t *testing.T) {
	tab := NewTable()
	facts := func(stale2 time.Duration, healthy2 bool) {
		tab.Set(node(2, stale2, ms, 0))
		if !healthy2 {
			n := node(2, stale2, ms, 0)
			n.Healthy = false
			tab.Set(n)
		}
		tab.Set(node(3, 30*ms, 2*ms, 0))
	}
	choose := func() base.NodeID { n, _ := Choose(tab.Nodes(), Query{Bound: 50 * ms}); return n.ID }
	expect := func(step string, want base.NodeID) {
		t.Helper()
		if got := choose(); got != want {
			t.Errorf("%s: node %d, want %d", step, got, want)
		}
	}
	facts(20*ms, true)
	expect("well", 2)
	for range 4 {
		tab.Answered(2, 20*ms, false)
	}
	expect("slow answers", 3)
	for range 40 {
		facts(20*ms, true)
	}
	expect("forgiven", 2)
	facts(500*ms, true)
	expect("stale", 3)
	facts(20*ms, true)
	expect("caught up", 2)
	tab.Answered(2, 0, true)
	expect("an error", 3)
	for range 60 {
		facts(20*ms, true)
	}
	facts(20*ms, false)
	expect("dead", 3)
	tab.Drop(3)
	expect("nobody left", 0)
	facts(20*ms, true)
	expect("back", 2)
}
