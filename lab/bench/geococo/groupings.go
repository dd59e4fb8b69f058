package geococo

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/godwitdb/godwit/policy/plan"
)

// strategy groups nodes and returns the makespan of the executed round.
type strategy struct {
	name  string
	paper map[int]float64 // by number of nodes: the paper's makespan beside no grouping
	run   func(f *plan.Facts, rnd *rand.Rand) (time.Duration, error)
}

// strategies are the ways of grouping of Figure 12. The baselines use direct paths, as in the
// paper.
var strategies = []strategy{
	{"godwit", map[int]float64{12: 1 - 0.1646, 15: 1 - 0.1763}, func(f *plan.Facts, _ *rand.Rand) (time.Duration, error) {
		return made(f, plan.Params{})
	}},
	{"godwit, fastest", map[int]float64{12: 1 - 0.1646, 15: 1 - 0.1763},
		func(f *plan.Facts, _ *rand.Rand) (time.Duration, error) {
			return made(f, plan.Params{Slack: -1, RelayGain: -1})
		}},
	{"godwit without relays", nil, func(f *plan.Facts, _ *rand.Rand) (time.Duration, error) {
		return made(f, plan.Params{NoRelays: true})
	}},
	{"equation 1, its own value", map[int]float64{12: 1 - 0.1646, 15: 1 - 0.1763},
		func(f *plan.Facts, _ *rand.Rand) (time.Duration, error) {
			_, t := plan.Paper(f.Latency, stars(f))
			return t, nil
		}},
	{"equation 1, executed", nil, func(f *plan.Facts, _ *rand.Rand) (time.Duration, error) {
		agg, _ := plan.Paper(f.Latency, stars(f))
		return executed(f, agg), nil
	}},
	{"hierarchical", map[int]float64{15: 1 - 0.11}, func(f *plan.Facts, _ *rand.Rand) (time.Duration, error) {
		return executed(f, agglomerative(f, stars(f))), nil
	}},
	{"k-means 2", nil, func(f *plan.Facts, rnd *rand.Rand) (time.Duration, error) { return executed(f, kMeans(f, rnd, 2)), nil }},
	{"k-means 3", nil, func(f *plan.Facts, rnd *rand.Rand) (time.Duration, error) { return executed(f, kMeans(f, rnd, 3)), nil }},
	{"random", nil, func(f *plan.Facts, rnd *rand.Rand) (time.Duration, error) {
		label := make([]int, f.N())
		for i := range label {
			label[i] = rnd.IntN(stars(f))
		}
		return executed(f, medoids(f, label)), nil
	}},
}

// stars is the paper's best number of groups k*, rounded.
func stars(f *plan.Facts) int { return int(math.Round(plan.KStar(f.N()))) }

func made(f *plan.Facts, p plan.Params) (time.Duration, error) {
	out, err := plan.Make(f, p)
	if err != nil {
		return 0, err
	}
	return out.Makespan, nil
}

func executed(f *plan.Facts, aggregator []int) time.Duration {
	return plan.Evaluate(f, plan.Params{NoRelays: true}, plan.GroupsOf(aggregator)).Makespan
}

func apart(f *plan.Facts, i, j int) float64 {
	return float64(max(f.Latency[i][j], f.Latency[j][i]))
}

// medoids makes the member of each group that is nearest to its farthest other member the
// aggregator.
func medoids(f *plan.Facts, label []int) []int {
	agg := make([]int, len(label))
	for i := range label {
		best := math.Inf(1)
		for c := range label {
			if label[c] != label[i] {
				continue
			}
			far := 0.0
			for j := range label {
				if label[j] == label[i] && j != c {
					far = max(far, apart(f, c, j))
				}
			}
			if far < best {
				best, agg[i] = far, c
			}
		}
	}
	return agg
}

// agglomerative merges the two groups with the smallest mean distance until k groups are left.
func agglomerative(f *plan.Facts, k int) []int {
	n := f.N()
	label := make([]int, n)
	for i := range label {
		label[i] = i
	}
	for groups := n; groups > k; groups-- {
		best, from, into := math.Inf(1), 0, 0
		for a := range n {
			for b := range a {
				sum, pairs := 0.0, 0.0
				for i := range n {
					for j := range n {
						if label[i] == a && label[j] == b {
							sum, pairs = sum+apart(f, i, j), pairs+1
						}
					}
				}
				if pairs > 0 && sum/pairs < best {
					best, from, into = sum/pairs, a, b
				}
			}
		}
		for i := range label {
			if label[i] == from {
				label[i] = into
			}
		}
	}
	return medoids(f, label)
}

// kMeans clusters the rows of the latency matrix (Lloyd, seeded by k-means++).
func kMeans(f *plan.Facts, rnd *rand.Rand, k int) []int {
	rows := make([][]float64, f.N())
	for i := range rows {
		rows[i] = make([]float64, f.N())
		for j := range rows {
			if i != j {
				rows[i][j] = apart(f, i, j)
			}
		}
	}
	centers := seedCenters(rows, rnd, k)
	label := make([]int, len(rows))
	for range 100 {
		old := slices.Clone(label)
		for i, r := range rows {
			for c := range centers {
				if square(r, centers[c]) < square(r, centers[label[i]]) {
					label[i] = c
				}
			}
		}
		if slices.Equal(old, label) {
			break
		}
		for c := range centers {
			if mean := meanRow(rows, label, c); mean != nil {
				centers[c] = mean
			}
		}
	}
	return medoids(f, label)
}

// square is the squared distance of two rows.
func square(a, b []float64) (s float64) {
	for i := range a {
		s += (a[i] - b[i]) * (a[i] - b[i])
	}
	return s
}

// seedCenters draws the first centers as k-means++ does: each row by its squared distance from the
// centers drawn before.
func seedCenters(rows [][]float64, rnd *rand.Rand, k int) [][]float64 {
	centers := [][]float64{rows[rnd.IntN(len(rows))]}
	for len(centers) < k {
		weight, total := make([]float64, len(rows)), 0.0
		for i, r := range rows {
			weight[i] = math.Inf(1)
			for _, c := range centers {
				weight[i] = min(weight[i], square(r, c))
			}
			total += weight[i]
		}
		pick, at := rnd.Float64()*total, 0
		for at < len(rows)-1 && pick > weight[at] {
			pick -= weight[at]
			at++
		}
		centers = append(centers, rows[at])
	}
	return centers
}

// meanRow is the mean of the rows of a cluster; nil if it has none.
func meanRow(rows [][]float64, label []int, cluster int) []float64 {
	mean, members := make([]float64, len(rows)), 0.0
	for i, r := range rows {
		if label[i] != cluster {
			continue
		}
		members++
		for j, v := range r {
			mean[j] += v
		}
	}
	if members == 0 {
		return nil
	}
	for j := range mean {
		mean[j] /= members
	}
	return mean
}
