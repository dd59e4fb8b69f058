package plan

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"
)

// Paper minimises the paper's T = max l_j + max L (equations 1 to 3): the longest
// way between a member and its aggregator, plus the longest between two
// aggregators, with the given number of groups (0: any number). It is exact and takes at
// most 64 nodes; the distance of two nodes is the longer of both directions.
//
// For each possible radius, smallest first, a depth-first search looks for
// aggregators that cover all nodes and lie near each other, branching on the
// uncovered node with the fewest candidates.
func Paper(lat [][]time.Duration, groups int) (aggregator []int, t time.Duration) {
	n := len(lat)
	s := &cover{n: n, d: make([]time.Duration, n*n), groups: n, best: math.MaxInt64}
	if groups > 0 {
		s.groups, s.exactly = min(groups, n), true
	}
	for _, r := range s.distances(lat) {
		if r >= s.best {
			break
		}
		s.within = s.reach(r)
		s.radius = r
		s.search(1<<n-1, 0, 1<<n-1, 0)
	}
	return s.nearest(), s.best
}

// distances fills in the distances, and lists the different ones, smallest first.
func (s *cover) distances(lat [][]time.Duration) []time.Duration {
	var all []time.Duration
	for i := range s.n {
		for j := range s.n {
			if i != j {
				s.d[i*s.n+j] = max(lat[i][j], lat[j][i])
			}
			all = append(all, s.d[i*s.n+j])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// reach is which nodes each one has within a radius.
func (s *cover) reach(radius time.Duration) []uint64 {
	within := make([]uint64, s.n)
	for i := range s.n {
		for c := range s.n {
			if s.d[i*s.n+c] <= radius {
				within[i] |= 1 << c
			}
		}
	}
	return within
}

// nearest is each node's aggregator: the nearest of the set, and itself for those.
func (s *cover) nearest() []int {
	aggregator := make([]int, s.n)
	for i := range s.n {
		if s.set>>i&1 == 1 {
			aggregator[i] = i
			continue
		}
		c := -1
		for rest := s.set; rest != 0; rest &= rest - 1 {
			if a := lowest(rest); c < 0 || s.d[i*s.n+a] < s.d[i*s.n+c] {
				c = a
			}
		}
		aggregator[i] = c
	}
	return aggregator
}

type cover struct {
	n, groups int
	exactly   bool
	d         []time.Duration
	within    []uint64 // candidates of each node at this radius
	radius    time.Duration
	best      time.Duration
	set       uint64
}

// search extends the aggregators in set; open are the nodes not covered yet, can
// the nodes that may still become aggregators, wide the largest distance in set.
func (s *cover) search(open, set, can uint64, wide time.Duration) {
	if s.radius+wide >= s.best || s.exactly && count(set|can) < s.groups {
		return
	}
	if open == 0 && (!s.exactly || count(set) == s.groups) {
		s.best, s.set = s.radius+wide, set
		return
	}
	if count(set) == s.groups {
		return
	}
	for _, ch := range s.choices(s.branch(open, can), set, wide) {
		if s.radius+ch.wide >= s.best {
			return
		}
		s.search(open&^s.covers(ch.c, open), set|1<<ch.c, s.near(ch.c, can), ch.wide)
		can &^= 1 << ch.c // sets with it have all been seen
	}
}

// branch is the candidates of the uncovered node that has the fewest: none if a node has none. If
// all nodes are covered, any candidate will do: more aggregators are asked for than that takes.
func (s *cover) branch(open, can uint64) uint64 {
	if open == 0 {
		return can
	}
	fewest := can
	for rest := open; rest != 0; rest &= rest - 1 {
		c := s.within[lowest(rest)] & can
		if c == 0 || rest == open || count(c) < count(fewest) {
			fewest = c
		}
		if c == 0 {
			break
		}
	}
	return fewest
}

// choice is a candidate, and the largest distance among the aggregators with it.
type choice struct {
	c    int
	wide time.Duration
}

// choices lists candidates, those first that widen the set the least.
func (s *cover) choices(candidates, set uint64, wide time.Duration) (order []choice) {
	for rest := candidates; rest != 0; rest &= rest - 1 {
		ch := choice{lowest(rest), wide}
		for in := set; in != 0; in &= in - 1 {
			ch.wide = max(ch.wide, s.d[ch.c*s.n+lowest(in)])
		}
		order = append(order, ch)
	}
	slices.SortFunc(order, func(a, b choice) int { return cmp.Compare(a.wide, b.wide) })
	return order
}

// covers are the nodes of open that lie within the radius of c.
func (s *cover) covers(c int, open uint64) (covered uint64) {
	for rest := open; rest != 0; rest &= rest - 1 {
		if i := lowest(rest); s.within[i]>>c&1 == 1 {
			covered |= 1 << i
		}
	}
	return covered
}

// near are the candidates that may still be better beside aggregator c.
func (s *cover) near(c int, can uint64) uint64 {
	near := can &^ (1 << c)
	for rest := near; rest != 0; rest &= rest - 1 {
		if o := lowest(rest); s.radius+s.d[o*s.n+c] >= s.best {
			near &^= 1 << o
		}
	}
	return near
}

func count(s uint64) int  { return bits.OnesCount64(s) }
func lowest(s uint64) int { return bits.TrailingZeros64(s) }
