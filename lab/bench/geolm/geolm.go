package geolm

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/leader"
	"github.com/godwitdb/godwit/policy/matrix"
)

// Bench regenerates the figures of GeoLM.
func Bench() rig.Bench {
	return rig.Bench{
		Name:  "geolm",
		Title: "leaders where requests take least, beside fixed leaders, a leader near its quorum, and GeoLM without its parts",
		Figures: []string{"geolm/11", "geolm/12a", "geolm/12b", "geolm/14a", "geolm/14b", "geolm/16", "geolm/17",
			"geolm/selection", "geolm/commit", "geolm/table1", "geolm/measurement"},
		Run: runGeoLM,
	}
}

const (
	leadBeat = 200 * time.Millisecond // the paper's heartbeat
	// of each message in the ten regions, one way; uniform, so 5 ms on average
	leadJitter = 10 * time.Millisecond
)

// leadClients is the paper's number of clients. Each request arrives at a node that is drawn by
// popularity. A client that is bound to a node would send more requests the nearer the leader is,
// and so make the leader's node look popular.
const leadClients = 20

// clientsOf is fewer clients where round trips are short, as each then sends more requests.
func clientsOf(nodes int) int {
	if nodes < 10 {
		return 6
	}
	return leadClients
}

// leadLoads are the shares of writes of the workloads; inserts are writes.
var leadLoads = []struct {
	name      string
	writes    float64
	mean, p99 float64 // the paper's ratios to Raft
}{
	{name: "A", writes: .5, mean: 1 - .2974, p99: 1 - .2959},
	{name: "B", writes: .05, mean: 1 - .3077, p99: 1 - .4975},
	{name: "C", writes: 0, mean: 1 - .1564, p99: 1 - .3405},
	{name: "D", writes: .05, mean: 1 - .2546, p99: 1 - .2321},
}

type geolm struct {
	rig.Params
}

func runGeoLM(ctx context.Context, p rig.Params) error {
	b := &geolm{p}
	if err := b.handover(); err != nil {
		return err
	}
	if err := b.measurement(); err != nil {
		return err
	}
	if err := b.trace(ctx); err != nil {
		return err
	}
	return b.cities(ctx)
}

func (b *geolm) emit(lines ...rig.Line) error {
	for _, l := range lines {
		l.Figure = "geolm/" + l.Figure
		if err := b.Emit(l); err != nil {
			return err
		}
	}
	return nil
}

// at is the same share of writes at every node.
func at(writes float64) func(int) float64 { return func(int) float64 { return writes } }

// cell holds the groups of one variant.
type cell []*leadGroup

// from selects the groups with certain first leaders, so that variants are compared from the same
// start.
func (c cell) from(firsts []int) (out cell) {
	for _, g := range c {
		if slices.Contains(firsts, g.first) {
			out = append(out, g)
		}
	}
	return out
}

// fixedAt makes groups whose leader stays, one for each first leader.
func fixedAt(nodes int, firsts []int, writes func(int) float64) (c cell) {
	for _, n := range firsts {
		c = append(c, &leadGroup{first: n, fixed: true, writes: writes, clients: clientsOf(nodes), popularity: even(nodes)})
	}
	return c
}

// moving makes groups whose leader follows a policy, one for each first leader.
func moving(nodes int, firsts []int, p leader.Params, writes func(int) float64) (c cell) {
	for _, n := range firsts {
		c = append(c, &leadGroup{first: n, params: p, writes: writes, clients: clientsOf(nodes), popularity: even(nodes)})
	}
	return c
}

// compare puts a variant's mean and tail latency and its throughput beside a baseline's.
func compare(figure, series string, x any, got, base leadResult, paperMean, paperP99, paperRate *float64) []rig.Line {
	return []rig.Line{
		{Figure: figure, Series: series, X: x, Metric: "mean latency", Unit: "ms", Value: got.mean,
			Baseline: rig.Float(base.mean), Paper: paperMean, Better: rig.Lower},
		{Figure: figure, Series: series, X: x, Metric: "p99 latency", Unit: "ms", Value: got.p99,
			Baseline: rig.Float(base.p99), Paper: paperP99, Better: rig.Lower},
		{Figure: figure, Series: series, X: x, Metric: "throughput", Unit: "req/s", Value: got.rate,
			Baseline: rig.Float(base.rate), Paper: paperRate, Better: rig.Higher},
	}
}

// trace plays ten regions whose round trips change: figures 11 and 12, the optimality of the
// selection, and the estimate of the commit.
func (b *geolm) trace(ctx context.Context) error {
	const nodes = 10
	slice, n := 30*time.Second, 6
	if b.Quick {
		slice, n = 16*time.Second, 3
	}
	length := slice * time.Duration(n)
	points, err := matrix.Seattle()
	if err != nil {
		return err
	}
	tr, err := matrix.Interpolate(points, slice)
	if err != nil {
		return err
	}
	every, one := firstsOf(nodes), []int{3}
	starts := every
	if b.Quick {
		starts = []int{0, 3, 6, 9}
	}
	all := []*leadGroup{}
	add := func(c cell) cell { all = append(all, c...); return c }
	raft, plus, full := make([]cell, len(leadLoads)), make([]cell, len(leadLoads)), make([]cell, len(leadLoads))
	for i, w := range leadLoads {
		// The mean over first leaders stands for a leader that an election has put anywhere. To
		// judge the selection, every node leads once.
		fixed := starts
		if i == 0 {
			fixed = every
		}
		raft[i] = add(fixedAt(nodes, fixed, at(w.writes)))
		plus[i] = add(moving(nodes, one, leader.Params{Load: leader.Ignored}, at(w.writes)))
		full[i] = add(moving(nodes, starts, leader.Params{}, at(w.writes)))
	}
	undamped := add(moving(nodes, one, leader.Params{}.Undamped(), at(leadLoads[0].writes)))
	windows := []int{10, 20, 80, 160}
	sweep := map[int]cell{40: full[0].from(one)}
	for _, n := range windows {
		sweep[n] = add(moving(nodes, one, leader.Params{Window: n}, at(leadLoads[0].writes)))
	}
	if err := b.play(ctx, "ten regions", nodes, length, leadJitter,
		func(d time.Duration) [][]time.Duration { return tr.At(d).OneWays() }, all); err != nil {
		return err
	}
	for i, y := range leadLoads {
		r, p, f := summary(raft[i].from(starts), 0, length), summary(plus[i], 0, length), summary(full[i], 0, length)
		lines := append(compare("11", "geolm/raft", y.name, f, r, rig.Float(y.mean), rig.Float(y.p99), nil),
			compare("11", "geolm/raft-plus", y.name, summary(full[i].from(one), 0, length), p, nil, nil, nil)...)
		if len(raft[i]) == nodes {
			best := r
			for _, g := range raft[i] {
				if one := summary(cell{g}, 0, length); one.mean < best.mean {
					best = one
				}
			}
			lines = append(lines, compare("11", "geolm/best fixed leader", y.name, f, best, nil, nil, nil)...)
		}
		if err := b.emit(lines...); err != nil {
			return err
		}
		fmt.Fprintf(b.Log, "workload %s: %.1f moves of geolm, %.1f of raft-plus\n", y.name, f.moves, p.moves)
	}
	f, u, r := summary(sweep[40], 0, length), summary(undamped, 0, length), summary(raft[0].from(starts), 0, length)
	if err := b.emit(append(compare("12a", "damping/none", "A", f, u, nil, nil, rig.Float(1.2034)),
		rig.Line{Figure: "12a", Series: "damping/none", X: "A", Metric: "moves", Unit: "moves", Value: f.moves,
			Baseline: rig.Float(u.moves), Better: rig.Lower})...); err != nil {
		return err
	}
	for _, n := range []int{10, 20, 40, 80, 160} {
		s := summary(sweep[n], 0, length)
		if err := b.emit(append(compare("12b", "geolm/raft", n, s, r, nil, nil, nil),
			rig.Line{Figure: "12b", Series: "geolm", X: n, Metric: "moves", Unit: "moves", Value: s.moves,
				Better: rig.Lower})...); err != nil {
			return err
		}
	}
	right, wrong, missed := precisionRecall(full[0], raft[0], slice, length)
	share := func(a, z int) float64 { return 100 * float64(a) / float64(max(1, a+z)) }
	if err := b.emit(
		rig.Line{Figure: "selection", Series: "geolm", X: fmt.Sprintf("%d of %d moves", right, right+wrong),
			Metric: "precision", Unit: "%", Value: share(right, wrong), Baseline: rig.Float(100), Paper: rig.Float(1),
			Better: rig.Higher},
		rig.Line{Figure: "selection", Series: "geolm", X: fmt.Sprintf("%d not chosen", missed), Metric: "recall",
			Unit: "%", Value: share(right, missed), Baseline: rig.Float(100), Paper: rig.Float(.7692),
			Better: rig.Higher},
	); err != nil {
		return err
	}
	return nil
}
