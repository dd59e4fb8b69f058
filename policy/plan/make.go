package plan

import (
	"math"
	"slices"
	"time"
)

// improvable are the largest clusters for which local search is affordable.
const improvable = 64

// Make plans rounds for the given facts.
func Make(f *Facts, params Params) (*Plan, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	params = params.withDefaults()
	n := f.N()
	m := newModel(f, params)
	flat := m.round(FlatGroups(n), false, true)
	pool := candidates(m, params)
	var out *Plan
	if n <= params.ExactNodes {
		out = exact(m, params, pool, flat)
	} else {
		out = heuristic(m, params, pool, flat)
	}
	if out == nil { // nothing is as good as the flat round
		out = m.plan(FlatGroups(n), flat, true)
		out.Fastest = out.Makespan
	}
	if params.Groups == 0 && !params.NoShards {
		out = sharded(m, params, out)
	}
	out.Flat, out.Bound = time.Duration(flat.time), Bound(f)
	return out, nil
}

// candidates are assignments to begin with.
func candidates(m *model, p Params) (pool [][]int) {
	f := m.f
	n := f.N()
	add := func(agg []int) {
		pool = append(pool, agg)
	}
	if n <= routed {
		self := make([]int, n)
		for i := range self {
			self[i] = i
		}
		add(self)
	}
	if len(f.Region) > 0 {
		add(byRegion(f))
	}
	lat := f.Latency
	if n <= routed && !p.NoRelays {
		lat = ShortestPaths(lat)
	}
	lo, hi := 1, n
	if n > 16 { // around k*: trying all is too dear, and far from it is too many messages
		k := KStar(n)
		lo, hi = int(k*0.5), int(math.Ceil(k*1.5))
	}
	if p.Groups > 0 {
		lo, hi = p.Groups, p.Groups
	}
	step := max(1, (hi-lo)/16)
	for k := max(lo, 1); k <= min(hi, n); k += step {
		add(KCenter(lat, k))
	}
	return pool
}

// byRegion lets the best connected node of each region aggregate.
func byRegion(f *Facts) []int {
	n := f.N()
	heads := map[int]int{}
	far := func(i int) (d time.Duration) {
		for j := range n {
			if i != j {
				d = max(d, f.Latency[i][j], f.Latency[j][i])
			}
		}
		return d
	}
	reach := make([]time.Duration, n)
	rate := func(i int) float64 {
		if len(f.Uplink) == 0 || f.Uplink[i] == 0 {
			return math.Inf(1)
		}
		return f.Uplink[i]
	}
	for i := range n {
		reach[i] = far(i)
		if h, ok := heads[f.Region[i]]; !ok || rate(i) > rate(h) || rate(i) == rate(h) && reach[i] < reach[h] {
			heads[f.Region[i]] = i
		}
	}
	agg := make([]int, n)
	for i := range n {
		agg[i] = heads[f.Region[i]]
	}
	return agg
}

func exact(m *model, p Params, pool [][]int, flat verdict) *Plan {
	s := newSearch(m, p)
	// The flat round over direct paths is always at hand, unless the number of groups is given.
	if p.Groups == 0 {
		s.limit = flat.time
	}
	s.floor = float64(Bound(m.f))
	for _, agg := range pool {
		s.offer(agg)
	}
	s.run()
	if s.best == nil {
		return nil
	}
	fastest, steps, cut := s.best, s.steps, s.cut
	limit := s.bestTime * (1 + p.Slack)
	if p.Groups == 0 {
		limit = min(limit, flat.time)
	}
	t := newSearch(m, p)
	t.saving, t.limit = true, limit
	t.offer(fastest)
	for _, agg := range pool {
		t.offer(agg)
	}
	t.run()
	groups := GroupsOf(t.best)
	out := m.plan(groups, m.round(groups, false, p.NoRelays), p.NoRelays)
	out.Exact = !cut && !t.cut
	out.Fastest = time.Duration(s.bestTime)
	out.Steps = steps + t.steps
	return out
}

// heuristic improves the candidates by local search, first for time, then for cost.
func heuristic(m *model, p Params, pool [][]int, flat verdict) *Plan {
	top := math.Inf(1)
	if p.Groups == 0 {
		top = flat.time
	}
	best, bestTime := []int(nil), math.Inf(1)
	times := make([]verdict, len(pool))
	for i, agg := range pool {
		times[i] = m.round(GroupsOf(agg), false, p.NoRelays)
		if times[i].time < bestTime {
			best, bestTime = agg, times[i].time
		}
	}
	faster := func(a, b verdict) bool { return a.time < b.time }
	if m.f.N() <= improvable {
		best, bestTime = improve(m, p, best, faster)
	}
	if bestTime > top {
		return nil
	}
	limit := min(bestTime*(1+p.Slack), top)
	if p.Groups > 0 {
		limit = bestTime * (1 + p.Slack)
	}
	cheaper := func(a, b verdict) bool {
		if (a.time <= limit) != (b.time <= limit) {
			return a.time <= limit
		}
		return a.time <= limit && a.cost.Less(b.cost)
	}
	pick, v := best, m.round(GroupsOf(best), false, p.NoRelays)
	for i, agg := range pool {
		if cheaper(times[i], v) {
			pick, v = agg, times[i]
		}
	}
	if m.f.N() <= improvable {
		pick, _ = improve(m, p, pick, cheaper)
	}
	groups := GroupsOf(pick)
	out := m.plan(groups, m.round(groups, false, p.NoRelays), p.NoRelays)
	out.Fastest = time.Duration(bestTime)
	return out
}

// improve moves single nodes to other groups, changes aggregators and dissolves
// groups while that is better.
func improve(m *model, p Params, agg []int, better func(a, b verdict) bool) ([]int, float64) {
	c := climb{m: m, p: p, agg: slices.Clone(agg), undo: slices.Clone(agg), left: p.MaxSteps, better: better}
	c.now = c.eval()
	for range 20 {
		moved := false
		for i := range c.agg {
			if c.agg[i] == i {
				moved = c.joinGroups(i) || moved
			} else {
				moved = c.moveNode(i) || moved
			}
		}
		if !moved {
			break
		}
	}
	return c.agg, c.now.time
}

// climb is a local search over assignments of nodes to aggregators. A node that is its own
// aggregator heads a group.
type climb struct {
	m         *model
	p         Params
	agg, undo []int
	now       verdict // of agg
	left      int     // attempts
	better    func(a, b verdict) bool
}

func (c *climb) eval() verdict { return c.m.round(GroupsOf(c.agg), false, c.p.NoRelays) }

// try makes a change, and takes it back unless it is better.
func (c *climb) try(change func()) bool {
	if c.left--; c.left < 0 {
		return false
	}
	copy(c.undo, c.agg)
	change()
	if v := c.eval(); c.better(v, c.now) {
		c.now = v
		return true
	}
	copy(c.agg, c.undo)
	return false
}

// reassign gives all nodes of one aggregator to another.
func (c *climb) reassign(from, to int) {
	for j := range c.agg {
		if c.agg[j] == from {
			c.agg[j] = to
		}
	}
}

// moveNode tries another group for a member, a group of its own, and to make it the head of its
// group.
func (c *climb) moveNode(i int) (moved bool) {
	for to := range c.agg {
		if c.agg[to] == to && to != c.agg[i] {
			moved = c.try(func() { c.agg[i] = to }) || moved
		}
	}
	if c.p.Groups == 0 {
		moved = c.try(func() { c.agg[i] = i }) || moved
	}
	if c.agg[i] != i {
		moved = c.try(func() { c.reassign(c.agg[i], i) }) || moved
	}
	return moved
}

// joinGroups tries to have the whole group of an aggregator join another, unless the number of
// groups is given.
func (c *climb) joinGroups(i int) (moved bool) {
	if c.p.Groups > 0 {
		return false
	}
	for to := range c.agg {
		if c.agg[i] == i && c.agg[to] == to && to != i {
			moved = c.try(func() { c.reassign(i, to) }) || moved
		}
	}
	return moved
}

// sharded gives every group of several nodes in one region as many aggregators
// as it has there, if that is faster. Another candidate is one group a region.
func sharded(m *model, p Params, now *Plan) *Plan {
	f := m.f
	if len(f.Region) == 0 {
		return now
	}
	n := f.N()
	best, bestTime := []Group(nil), float64(now.Makespan)
	var bestCost verdict
	for _, groups := range [][]Group{now.Groups, GroupsOf(byRegion(f))} {
		out := make([]Group, len(groups))
		wide := false
		for g, gr := range groups {
			out[g] = gr
			if len(gr.Members) == 1 {
				continue
			}
			var here []int
			for _, i := range gr.Members {
				if f.local(i, gr.Aggregators[0]) {
					here = append(here, i)
				}
			}
			out[g].Aggregators = here
			wide = wide || len(here) > 1
		}
		if !wide {
			continue
		}
		if v := m.round(out, false, p.NoRelays); v.time < bestTime && v.worst <= 2*(n-1) {
			best, bestTime, bestCost = out, v.time, v
		}
	}
	if best == nil {
		return now
	}
	s := m.plan(best, bestCost, p.NoRelays)
	s.Exact, s.Fastest, s.Steps = now.Exact, now.Fastest, now.Steps
	return s
}
