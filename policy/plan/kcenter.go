package plan

import "time"

// KCenter chooses k centers (Gonzalez, farthest point first) and gives each node
// the nearest: O(N k), and in a metric no more than twice the smallest possible
// distance to a center. The distance of two nodes is the longer of both directions.
func KCenter(lat [][]time.Duration, k int) (aggregator []int) {
	n := len(lat)
	apart := func(i, j int) time.Duration { return max(lat[i][j], lat[j][i]) }
	// The first center is the node that is nearest to its farthest peer.
	first, least := 0, time.Duration(-1)
	for i := range n {
		far := time.Duration(0)
		for j := range n {
			if i != j {
				far = max(far, apart(i, j))
			}
		}
		if least < 0 || far < least {
			first, least = i, far
		}
	}
	aggregator = make([]int, n)
	near := make([]time.Duration, n)
	for i := range n {
		aggregator[i], near[i] = first, apart(i, first)
	}
	near[first] = 0
	for range min(k, n) - 1 {
		c := -1
		for i := range n {
			if aggregator[i] != i && (c < 0 || near[i] > near[c]) {
				c = i
			}
		}
		aggregator[c], near[c] = c, 0
		for i := range n {
			if aggregator[i] != i && apart(i, c) < near[i] {
				aggregator[i], near[i] = c, apart(i, c)
			}
		}
	}
	return aggregator
}

// Radius is the longest way between a node and its aggregator.
func Radius(lat [][]time.Duration, aggregator []int) time.Duration {
	var r time.Duration
	for i, a := range aggregator {
		if i != a {
			r = max(r, lat[i][a], lat[a][i])
		}
	}
	return r
}
