package plan

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// search is branch and bound over who aggregates for whom, one aggregator a
// group. A state is a part of the nodes with their aggregators. Evaluating only
// those gives a lower bound, since nodes that come later add bytes, messages and
// destinations and take nothing away. What an unassigned node can still choose
// follows from latencies alone (shortest allowed paths), and the node with the
// fewest choices is next.
type search struct {
	m     *model
	p     Params
	n     int
	dist  []float64 // by u*n+v: fastest way without bytes
	limit float64   // a plan above it is of no use
	// floor: no plan is faster; reaching it ends the search for time.
	floor float64
	// bytesFloor: no plan sends less.
	bytesFloor float64

	agg   []int // -1: unassigned
	steps int
	cut   bool

	best     []int
	bestTime float64
	bestCost Cost
	scratch  []Group
	saving   bool // minimise cost within limit instead of time
}

func newSearch(m *model, p Params) *search {
	n := m.f.N()
	s := &search{m: m, p: p, n: n, dist: make([]float64, n*n), agg: make([]int, n), limit: math.Inf(1),
		bestTime: math.Inf(1), scratch: make([]Group, n)}
	for u := range n {
		for v := range n {
			if u != v {
				_, s.dist[u*n+v] = m.ps.best(u, v, 0, p.NoRelays)
			}
		}
	}
	for i := range s.agg {
		s.agg[i] = -1
	}
	regions := map[int]bool{}
	for i := range n {
		if len(m.f.Region) == 0 {
			regions[i] = true
		} else {
			regions[m.f.Region[i]] = true
		}
		s.bytesFloor += m.f.keep() * m.f.batch(i)
	}
	s.bytesFloor *= float64(len(regions) - 1)
	s.bestCost = Cost{math.Inf(1), math.MaxInt}
	return s
}

// offer takes a complete assignment as the one to beat.
func (s *search) offer(agg []int) {
	v := s.m.round(GroupsOf(agg), false, s.p.NoRelays)
	if s.p.Groups > 0 && len(s.m.first) != s.p.Groups || v.time > s.limit {
		return
	}
	if s.saving {
		if v.cost.Less(s.bestCost) || !s.bestCost.Less(v.cost) && v.time < s.bestTime {
			s.best, s.bestTime, s.bestCost = slices.Clone(agg), v.time, v.cost
		}
	} else if v.time < s.bestTime {
		s.best, s.bestTime, s.bestCost = slices.Clone(agg), v.time, v.cost
	}
}

// hopeless reports that no completion of the state can be better than the best.
func (s *search) hopeless(groups []Group) bool {
	v := s.m.round(groups, true, s.p.NoRelays)
	if !s.saving {
		return v.time >= s.bestTime
	}
	if v.time > s.limit {
		return true
	}
	// Messages of n nodes in k groups are 2(n-k) + k(k-1): fewest with as few groups as there are.
	k := max(len(groups), 1)
	if s.p.Groups > 0 {
		k = s.p.Groups
	}
	least := Cost{WANBytes: max(v.cost.WANBytes, s.bytesFloor), Messages: 2*(s.n-k) + k*(k-1)}
	if k == 1 && s.n > 1 {
		least.Messages = 2 * (s.n - 1)
	}
	return !least.Less(s.bestCost)
}

// choices are the aggregators that node j could have, given the assigned ones.
func (s *search) choices(j int, aggs uint32, up []float64) uint32 {
	top := s.limit
	if !s.saving {
		top = min(top, s.bestTime)
	}
	full := s.p.Groups > 0 && bits.OnesCount32(aggs) >= s.p.Groups
	var out uint32
	for c := range s.n {
		if s.agg[c] >= 0 && s.agg[c] != c || full && aggs>>c&1 == 0 {
			continue
		}
		ok := true
		// up[a] is the longest way from a member to aggregator a, and its way back is up[n+a].
		for rest := aggs | 1<<c; rest != 0 && ok; rest &= rest - 1 {
			a := bits.TrailingZeros32(rest)
			if a == c {
				ok = s.dist[j*s.n+c]+up[s.n+c] <= top && up[c]+s.dist[c*s.n+j] <= top
				continue
			}
			ok = up[a]+s.dist[a*s.n+c]+s.dist[c*s.n+j] <= top && s.dist[j*s.n+c]+s.dist[c*s.n+a]+up[s.n+a] <= top
		}
		if ok {
			out |= 1 << c
		}
	}
	return out
}

// run explores; it returns when the tree is done or cut off.
func (s *search) run() {
	if s.steps++; s.steps > s.p.MaxSteps {
		s.cut = true
	}
	if s.cut || !s.saving && s.bestTime <= s.floor {
		return
	}
	aggs, up, free := s.assigned()
	if free == 0 {
		s.offer(s.agg)
		return
	}
	if s.p.Groups > 0 && bits.OnesCount32(aggs)+free < s.p.Groups {
		return
	}
	next, can := s.tightest(aggs, up)
	for _, c := range s.inOrder(next, can, aggs) {
		opens := s.agg[c] < 0 && c != next
		s.agg[next] = c
		if opens {
			s.agg[c] = c
		}
		if !s.hopeless(s.groups()) {
			s.run()
		}
		s.agg[next] = -1
		if opens {
			s.agg[c] = -1
		}
	}
}

// assigned sums up the state: the aggregators so far, the longest ways of their members there and
// back (see choices), and how many nodes have no aggregator yet.
func (s *search) assigned() (aggs uint32, up []float64, free int) {
	up = make([]float64, 2*s.n)
	for i, a := range s.agg {
		if a < 0 {
			free++
			continue
		}
		aggs |= 1 << a
		up[a] = max(up[a], s.dist[i*s.n+a])
		up[s.n+a] = max(up[s.n+a], s.dist[a*s.n+i])
	}
	return aggs, up, free
}

// tightest is the free node with the fewest choices, and these: none if some node has none.
func (s *search) tightest(aggs uint32, up []float64) (next int, can uint32) {
	next = -1
	for j, a := range s.agg {
		if a >= 0 {
			continue
		}
		c := s.choices(j, aggs, up)
		if c == 0 {
			return j, 0
		}
		if next < 0 || bits.OnesCount32(c) < bits.OnesCount32(can) {
			next, can = j, c
		}
	}
	return next, can
}

// inOrder lists choices for a node: groups that exist first, then the nearest.
func (s *search) inOrder(next int, can, aggs uint32) []int {
	order := make([]int, 0, bits.OnesCount32(can))
	for rest := can; rest != 0; rest &= rest - 1 {
		order = append(order, bits.TrailingZeros32(rest))
	}
	slices.SortFunc(order, func(a, b int) int {
		if x, y := aggs>>a&1, aggs>>b&1; x != y {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(s.dist[next*s.n+a], s.dist[next*s.n+b])
	})
	return order
}

// groups of the assigned nodes, until the next call.
func (s *search) groups() []Group {
	gs := s.scratch[:0]
	var at [32]int8
	for i, a := range s.agg {
		if a < 0 {
			continue
		}
		if at[a] == 0 {
			gs = gs[:len(gs)+1]
			g := &gs[len(gs)-1]
			g.Aggregators = append(g.Aggregators[:0], a)
			g.Members = g.Members[:0]
			at[a] = int8(len(gs))
		}
		g := &gs[at[a]-1]
		g.Members = append(g.Members, i)
	}
	return gs
}
