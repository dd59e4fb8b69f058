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
	var radii []time.Duration
	for i := range n {
		for j := range n {
			if i != j {
				s.d[i*n+j] = max(lat[i][j], lat[j][i])
			}
			radii = append(radii, s.d[i*n+j])
		}
	}
	slices.Sort(radii)
	for _, r := range slices.Compact(radii) {
		if r >= s.best {
			break
		}
		s.radius = r
		s.within = make([]uint64, n)
		for i := range n {
			for c := range n {
				if s.d[i*n+c] <= r {
					s.within[i] |= 1 << c
				}
			}
		}
		s.search(1<<n-1, 0, 1<<n-1, 0)
	}
	aggregator = make([]int, n)
	for i := range n {
		c := -1
		for a := range n {
			if s.set>>a&1 == 1 && (c < 0 || s.d[i*n+a] < s.d[i*n+c]) {
				c = a
			}
		}
		aggregator[i] = c
		if s.set>>i&1 == 1 {
			aggregator[i] = i
		}
	}
	return aggregator, s.best
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
	next, fewest := -1, uint64(0)
	if open == 0 {
		fewest = can // more aggregators than are needed to cover all
	}
	for rest := open; rest != 0; rest &= rest - 1 {
		i := lowest(rest)
		c := s.within[i] & can
		if c == 0 {
			return
		}
		if next < 0 || count(c) < count(fewest) {
			next, fewest = i, c
		}
	}
	type choice struct {
		c    int
		wide time.Duration
	}
	var order []choice
	for rest := fewest; rest != 0; rest &= rest - 1 {
		ch := choice{lowest(rest), wide}
		for in := set; in != 0; in &= in - 1 {
			ch.wide = max(ch.wide, s.d[ch.c*s.n+lowest(in)])
		}
		order = append(order, ch)
	}
	slices.SortFunc(order, func(a, b choice) int { return cmp.Compare(a.wide, b.wide) })
	for _, ch := range order {
		if s.radius+ch.wide >= s.best {
			return
		}
		covered := uint64(0)
		for rest := open; rest != 0; rest &= rest - 1 {
			if i := lowest(rest); s.within[i]>>ch.c&1 == 1 {
				covered |= 1 << i
			}
		}
		near := can &^ (1 << ch.c)
		for rest := near; rest != 0; rest &= rest - 1 {
			if c := lowest(rest); s.radius+s.d[c*s.n+ch.c] >= s.best {
				near &^= 1 << c
			}
		}
		s.search(open&^covered, set|1<<ch.c, near, ch.wide)
		can &^= 1 << ch.c // sets with it have all been seen
	}
}

func count(s uint64) int  { return bits.OnesCount64(s) }
func lowest(s uint64) int { return bits.TrailingZeros64(s) }
