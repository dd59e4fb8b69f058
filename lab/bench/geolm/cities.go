package geolm

import (
	"context"
	"fmt"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/leader"
	"github.com/godwitdb/godwit/policy/matrix"
)

// cities turns round trips in ms into one-way delays. lower is the lower half of a symmetric
// matrix, row by row.
func cities(n int, lower ...float64) func(time.Duration) [][]time.Duration {
	m := make([][]time.Duration, n)
	for i := range m {
		m[i] = make([]time.Duration, n)
	}
	k := 0
	for i := range n {
		for j := range i {
			d := time.Duration(lower[k] / 2 * float64(time.Millisecond))
			m[i][j], m[j][i] = d, d
			k++
		}
	}
	return func(time.Duration) [][]time.Duration { return m }
}

// cities measures the paper's small clusters: the three nodes of figure 14, and the two deployments
// of figures 16 and 17. The paper does not give the latter's round trips: those between cities are
// GaussDB-Global's triangle, those within a city are 1 ms.
func (b *geolm) cities(ctx context.Context) error {
	length, short := 2*time.Minute, 2*time.Minute
	if b.Quick {
		length, short = 48*time.Second, 30*time.Second
	}
	m, err := matrix.Open(matrix.ThreeCity)
	if err != nil {
		return err
	}
	ab, ac, bc := ms64(m.RoundTrip(0, 1)), ms64(m.RoundTrip(0, 2)), ms64(m.RoundTrip(1, 2))
	var commit []rig.Line
	for _, run := range []func() ([]rig.Line, error){
		func() ([]rig.Line, error) { return b.writeRatio(ctx, cities(3, ab, ac, bc), short) },
		func() ([]rig.Line, error) { return b.popularity(ctx, length) },
		func() ([]rig.Line, error) { // two centres in city A, one in C
			return b.deployment(ctx, "16", 3, cities(3, 1, ac, ac), short, rig.Float(1-.1189), rig.Float(1-.1841),
				rig.Float(1.1343))
		},
		func() ([]rig.Line, error) { // one centre in city A, two in B, two in C
			return b.deployment(ctx, "17", 5, cities(5, ab, ab, 1, ac, bc, bc, ac, bc, bc, 1), short,
				rig.Float(1-.1902), rig.Float(1-.2652), rig.Float(1.2327))
		},
	} {
		lines, err := run()
		if err != nil {
			return err
		}
		last := len(lines) - 1
		if lines[last].Figure == "commit" { // a figure of its own, after the others
			commit, lines = append(commit, lines[last]), lines[:last]
		}
		if err := b.emit(lines...); err != nil {
			return err
		}
	}
	return b.emit(commit...)
}

func ms64(d time.Duration) float64 { return d.Seconds() * 1e3 }

// firstsOf lists all nodes: each leads first in one group.
func firstsOf(n int) (out []int) {
	for i := range n {
		out = append(out, i)
	}
	return out
}

func (b *geolm) deployment(ctx context.Context, figure string, nodes int,
	oneWay func(time.Duration) [][]time.Duration, length time.Duration, mean, p99, rate *float64) ([]rig.Line, error) {
	raft, full := fixedAt(nodes, firstsOf(nodes), at(.5)), moving(nodes, firstsOf(nodes), leader.Params{}, at(.5))
	if err := b.play(ctx, "figure "+figure, nodes, length, 0, oneWay, raft, full); err != nil {
		return nil, err
	}
	q, med := predicted(raft, leader.Quorum, 10*time.Second), predicted(raft, leader.Median, 10*time.Second)
	return append(compare(figure, "geolm/raft", fmt.Sprintf("%d centres", nodes), summary(full, 0, length),
		summary(raft, 0, length), mean, p99, rate),
		rig.Line{Figure: "commit", Series: "quorum/median", X: fmt.Sprintf("%d centres", nodes),
			Metric: "error of the predicted latency", Unit: "%", Value: q, Baseline: rig.Float(med),
			Better: rig.Lower}), nil
}

// writeRatio measures figure 14(a): equal popularity, and half, 5 % and none of the requests write.
func (b *geolm) writeRatio(ctx context.Context, oneWay func(time.Duration) [][]time.Duration,
	length time.Duration) ([]rig.Line, error) {
	writes := func(node int) float64 { return []float64{.5, .05, 0}[node] }
	raft, full := fixedAt(3, firstsOf(3), writes), moving(3, firstsOf(3), leader.Params{}, writes)
	if err := b.play(ctx, "figure 14a", 3, length, 0, oneWay, raft, full); err != nil {
		return nil, err
	}
	return compare("14a", "geolm/raft", "50:50 95:5 100:0", summary(full, 0, length), summary(raft, 0, length),
		rig.Float(1-.1076), nil, nil), nil
}

// popularity measures figure 14(b): equal distances of 20 ms; the nodes get 50, 30 and 20 % of the
// requests. Here the shares are reversed in the middle, so that the lead must move again. The
// baseline is Raft with equal shares, as in the paper. The last node leads it, as it leads the
// others at first.
func (b *geolm) popularity(ctx context.Context, length time.Duration) ([]rig.Line, error) {
	const epochs = 6
	skewed := func(at time.Duration) []float64 {
		if at < length/2 {
			return []float64{.5, .3, .2}
		}
		return []float64{.2, .3, .5}
	}
	one := func(p leader.Params, fixed bool, popularity func(time.Duration) []float64) cell {
		return cell{{first: 2, fixed: fixed, params: p, writes: at(.5), clients: clientsOf(3), popularity: popularity}}
	}
	same, raft := one(leader.Params{}, true, even(3)), one(leader.Params{}, true, skewed)
	poor, full := one(leader.Params{Load: leader.Uniform}, false, skewed), one(leader.Params{}, false, skewed)
	if err := b.play(ctx, "figure 14b", 3, length, 0, cities(3, 20, 20, 20), same, raft, poor, full); err != nil {
		return nil, err
	}
	var lines []rig.Line
	for e := range epochs {
		from, to := length*time.Duration(e)/epochs, length*time.Duration(e+1)/epochs
		base := summary(same, from, to)
		for _, v := range []struct {
			name string
			c    cell
		}{{"geolm", full}, {"geolm-poor", poor}, {"raft", raft}} {
			shares := "5:3:2"
			if e >= epochs/2 {
				shares = "2:3:5"
			}
			lines = append(lines, rig.Line{Figure: "14b", Series: v.name + "/raft 1:1:1",
				X: fmt.Sprintf("epoch %d, %s", e+1, shares), Metric: "throughput", Unit: "req/s",
				Value: summary(v.c, from, to).rate, Baseline: rig.Float(base.rate), Better: rig.Higher})
		}
	}
	return lines, nil
}
