package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Group is a set of nodes that exchange with the others through its aggregators.
type Group struct {
	// Members are in increasing order and include the aggregators.
	Members []int
	// Aggregators each have one slice, by position. A group of one aggregates for itself.
	Aggregators []int
}

// Plan says how a round travels. It does not change once made.
type Plan struct {
	Groups []Group
	// Of is the group of each node.
	Of []int
	// Routes are the relays between two nodes that talk to each other; a pair that
	// is not here goes direct.
	Routes map[[2]int][]int
	// Order is in which order each group serves the others: the longest way first.
	Order [][]int
	// Makespan is the predicted time of the round, Flat that of the flat round over
	// direct paths, and Bound what no plan can beat.
	Makespan, Flat, Bound time.Duration
	// Cost is what the round sends.
	Cost Cost
	// Exact: no plan of one aggregator a group is faster than Fastest, and none within
	// Slack of that is cheaper than this one was before it was sharded.
	Exact   bool
	Fastest time.Duration
	// Steps of the exact searches.
	Steps int
}

// Cost of a round, in the order in which it is saved.
type Cost struct {
	WANBytes float64 // sent between regions, by relays too
	Messages int     // sent by anybody but relays
}

// Less compares bytes, then messages. What rounding can do to a sum of bytes is no difference.
func (c Cost) Less(o Cost) bool {
	if d := c.WANBytes - o.WANBytes; d < -1e-9*o.WANBytes || d > 1e-9*o.WANBytes {
		return d < 0
	}
	return c.Messages < o.Messages
}

// FlatGroups are n groups of one.
func FlatGroups(n int) []Group {
	gs := make([]Group, n)
	for i := range gs {
		gs[i] = Group{Members: []int{i}, Aggregators: []int{i}}
	}
	return gs
}

// Flat is the plan without groups and relays.
func Flat(n int) *Plan {
	p := &Plan{Groups: FlatGroups(n), Of: make([]int, n)}
	for i := range n {
		p.Of[i] = i
	}
	return p
}

// GroupsOf makes groups with one aggregator each from the aggregator of every node.
func GroupsOf(aggregator []int) []Group {
	var gs []Group
	at := map[int]int{}
	for i, a := range aggregator {
		g, ok := at[a]
		if !ok {
			g = len(gs)
			at[a] = g
			gs = append(gs, Group{Aggregators: []int{a}})
		}
		gs[g].Members = append(gs[g].Members, i)
	}
	return gs
}

// Check reports what is wrong with a plan for n nodes. A plan that passes cannot
// make a message travel in a cycle.
func (p *Plan) Check(n int) error {
	if len(p.Of) != n {
		return fmt.Errorf("a plan for %d nodes was made for %d", n, len(p.Of))
	}
	for g, gr := range p.Groups {
		for _, m := range gr.Members {
			if m < 0 || m >= n {
				return fmt.Errorf("group %d has node %d of %d", g, m, n)
			}
		}
	}
	var f faults
	p.checkGroups(&f)
	p.checkOrder(&f)
	p.checkRoutes(&f)
	return errors.Join(f...)
}

// faults collects what is wrong with something.
type faults []error

func (f *faults) add(format string, args ...any) { *f = append(*f, fmt.Errorf(format, args...)) }

// checkGroups: each node is in one group, which has aggregators of its own.
func (p *Plan) checkGroups(f *faults) {
	seen := make([]int, len(p.Of))
	for g, gr := range p.Groups {
		for _, m := range gr.Members {
			seen[m]++
			if p.Of[m] != g {
				f.add("node %d is in group %d, but Of says %d", m, g, p.Of[m])
			}
		}
		if len(gr.Aggregators) == 0 {
			f.add("group %d has no aggregator", g)
		}
		for i, a := range gr.Aggregators {
			if !slices.Contains(gr.Members, a) {
				f.add("aggregator %d is no member of group %d", a, g)
			}
			if slices.Contains(gr.Aggregators[:i], a) {
				f.add("group %d has aggregator %d twice", g, a)
			}
		}
	}
	for i, c := range seen {
		if c != 1 {
			f.add("node %d is in %d groups", i, c)
		}
	}
}

// checkOrder: each group serves others, each of them once.
func (p *Plan) checkOrder(f *faults) {
	if len(p.Order) > 0 && len(p.Order) != len(p.Groups) {
		f.add("%d of %d groups have an order in which they serve the others", len(p.Order), len(p.Groups))
	}
	for g, order := range p.Order {
		served := map[int]bool{g: true}
		for _, o := range order {
			if o < 0 || o >= len(p.Groups) || served[o] {
				f.add("group %d serves the others in the order %v", g, order)
				break
			}
			served[o] = true
		}
	}
}

// checkRoutes is PLAN-4.
func (p *Plan) checkRoutes(f *faults) {
	n := len(p.Of)
	for k, relays := range p.Routes {
		if min(k[0], k[1]) < 0 || max(k[0], k[1]) >= n || k[0] == k[1] {
			f.add("there is a route from %d to %d of %d nodes", k[0], k[1], n)
			continue
		}
		for i, r := range relays {
			if r < 0 || r >= n || r == k[0] || r == k[1] || slices.Contains(relays[:i], r) {
				f.add("the route from %d to %d over %v passes a node twice", k[0], k[1], relays)
			}
		}
	}
}

// Without is the plan for a round in which some nodes are believed dead: they
// become groups of one, a group whose aggregators are all dead falls apart into
// groups of one, and routes over the dead become direct. If none is dead it is p.
func (p *Plan) Without(dead func(node int) bool) *Plan {
	any := false
	for i := range p.Of {
		any = any || dead(i)
	}
	if !any {
		return p
	}
	out := *p
	out.Groups, out.Order, out.Of, out.Routes, out.Exact = nil, nil, make([]int, len(p.Of)), map[[2]int][]int{}, false
	add := func(g Group) {
		for _, i := range g.Members {
			out.Of[i] = len(out.Groups)
		}
		out.Groups = append(out.Groups, g)
	}
	for _, g := range p.Groups {
		var left Group
		left.Members = slices.DeleteFunc(slices.Clone(g.Members), dead)
		left.Aggregators = slices.DeleteFunc(slices.Clone(g.Aggregators), dead)
		single := len(left.Aggregators) == 0
		for _, i := range g.Members {
			if single || dead(i) {
				add(Group{Members: []int{i}, Aggregators: []int{i}})
			}
		}
		if !single {
			add(left)
		}
	}
	for k, relays := range p.Routes {
		if !slices.ContainsFunc(relays, dead) {
			out.Routes[k] = relays
		}
	}
	return &out
}

// String draws the plan in one line: groups with their aggregators first.
func (p *Plan) String() string {
	var b strings.Builder
	for i, g := range p.Groups {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%v", g.Aggregators)
		for _, m := range g.Members {
			if !slices.Contains(g.Aggregators, m) {
				fmt.Fprintf(&b, "%d,", m)
			}
		}
	}
	return b.String()
}
