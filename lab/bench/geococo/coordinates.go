package geococo

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/coord"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
)

// mapped is the network in which section 6.4 measures the cost of monitoring: 1,024 nodes at the
// 490 places of PlanetLab, two or three at each, half a millisecond apart.
type mapped struct{ m *matrix.Matrix }

const mappedNodes = 1024

// rtt is the true round trip between two nodes.
func (n mapped) rtt(i, j int) time.Duration {
	if x, y := i%n.m.Len(), j%n.m.Len(); x != y {
		return max(n.m.RTT[x][y], 100*time.Microsecond)
	}
	return 500 * time.Microsecond
}

// oneWays are the true delays.
func (n mapped) oneWays() [][]time.Duration {
	out := make([][]time.Duration, mappedNodes)
	for i := range out {
		out[i] = make([]time.Duration, mappedNodes)
		for j := range out[i] {
			if i != j {
				out[i][j] = n.rtt(i, j) / 2
			}
		}
	}
	return out
}

// coordinates measures section 6.4: nodes probe a few others, and estimate the distance to all.
func (b *geococo) coordinates(ctx context.Context) (out []rig.Line, err error) {
	const n = mappedNodes
	ms, err := openMatrices(matrix.PlanetLab)
	if err != nil {
		return nil, err
	}
	net := mapped{ms[0]}
	c, err := coord.New(n, coord.Options{Seed: 1})
	if err != nil {
		return nil, err
	}
	periods := b.runs(20, 60)
	begin := rig.CPUTime()
	probes, err := net.probe(ctx, c, periods)
	if err != nil {
		return nil, err
	}
	used := rig.CPUTime() - begin
	median, sum, within := net.errors(c)
	// Plans from estimates are compared with plans from the true distances.
	const tries = 5
	real, k := net.oneWays(), int(plan.KStar(n))
	guess := distances(real, nearest(c, real, plan.KCenter(c.OneWays(), k), tries))
	sure := distances(real, plan.KCenter(real, k))
	probes += n * tries
	line := func(series, metric, unit string, v float64, base, paper *float64, better string) rig.Line {
		return rig.Line{Figure: "coordinates", Series: series, X: n, Metric: metric, Unit: unit, Value: v,
			Baseline: base, Paper: paper, Better: better}
	}
	return []rig.Line{
		line("coordinates/all pairs", "probes a node and period", "probes", float64(probes)/n/float64(periods),
			rig.Float(n-1), rig.Float(1-0.964), rig.Lower),
		line("coordinates", "median error", "%", 100*median, nil, nil, rig.Lower),
		line("coordinates", "error of the sum", "%", 100*sum, nil, nil, rig.Lower),
		line("coordinates", "pairs within 18 %", "%", 100*within, nil, nil, rig.Higher),
		line("coordinates", "CPU of a node and period", "us", float64(used.Microseconds())/n/float64(periods), nil,
			nil, rig.Lower),
		line("estimated/measured", "way to the center, p95", "ms", millis(guess[n*95/100]),
			rig.Float(millis(sure[n*95/100])), nil, rig.Lower),
		line("estimated/measured", "way to the center, largest", "ms", millis(guess[n-1]),
			rig.Float(millis(sure[n-1])), nil, rig.Lower),
	}, nil
}

// probe has every node measure what its coordinates ask for, period by period, and returns the
// number of probes. The coordinates settle after a third of the periods.
func (n mapped) probe(ctx context.Context, c *coord.Map, periods int) (probes int, err error) {
	for t := range periods {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if t == periods/3 {
			c.Settle()
		}
		for i := range mappedNodes {
			near, samples := c.Probes(i)
			for _, j := range near {
				if err := c.Observe(i, j, n.rtt(i, j)); err != nil {
					return 0, err
				}
			}
			for _, j := range samples {
				c.Verify(i, j, n.rtt(i, j))
			}
			probes += len(near) + len(samples)
		}
	}
	return probes, nil
}

// errors compares the estimates with the truth: the median relative error of a pair, the error of
// all pairs as a share of the sum of their round trips, and the share of the pairs whose error is
// at most 18 %.
func (n mapped) errors(c *coord.Map) (median, sum, within float64) {
	var errs []float64
	var off, all float64
	for i := range mappedNodes {
		for j := range i {
			d, e := n.rtt(i, j), c.RTT(i, j)
			gap := float64(max(d-e, e-d))
			errs = append(errs, gap/float64(d))
			off, all = off+gap, all+float64(d)
			if gap <= 0.18*float64(d) {
				within++
			}
		}
	}
	slices.Sort(errs)
	return errs[len(errs)/2], off / all, within / float64(len(errs))
}

// nearest has each node measure the few centers that seem nearest to it, and choose the nearest of
// them. of[i] is the center of node i; a center is its own.
func nearest(c *coord.Map, real [][]time.Duration, of []int, tries int) []int {
	var centers []int
	for i, a := range of {
		if a == i {
			centers = append(centers, i)
		}
	}
	for i := range of {
		if of[i] == i {
			continue
		}
		slices.SortFunc(centers, func(a, b int) int { return cmp.Compare(c.RTT(i, a), c.RTT(i, b)) })
		for _, a := range centers[:tries] {
			if real[i][a] < real[i][of[i]] {
				of[i] = a
			}
		}
	}
	return of
}

// distances are those of all nodes to their centers, sorted.
func distances(real [][]time.Duration, of []int) (d []time.Duration) {
	for i, a := range of {
		d = append(d, real[i][a])
	}
	slices.Sort(d)
	return d
}
