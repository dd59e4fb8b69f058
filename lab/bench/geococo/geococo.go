package geococo

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
)

// Bench regenerates the figures of GeoCoCo.
func Bench() rig.Bench {
	return rig.Bench{
		Name:  "geococo",
		Title: "all-to-all rounds that are planned, beside flat ones, other groupings and the shortest-path bound",
		Figures: []string{"geococo/5", "geococo/9", "geococo/10", "geococo/11a", "geococo/11b", "geococo/12",
			"geococo/13", "geococo/14", "geococo/table 1", "geococo/15", "geococo/16",
			"geococo/17", "geococo/18", "geococo/19", "geococo/coordinates", "geococo/raft-ways", "geococo/16-raft",
			"geococo/17-raft"},
		Parts: true,
		Run:   runGeoCoCo,
	}
}

type geococo struct{ rig.Params }

func runGeoCoCo(ctx context.Context, p rig.Params) error {
	b := &geococo{p}
	for _, f := range []struct {
		name string
		run  func(context.Context) ([]rig.Line, error)
	}{
		{"5: triangle violations", b.violations}, {"9: makespan", b.makespan}, {"10: messages",
			b.messages}, {"11a: TPC-C", b.tpcc}, {"12: groupings", b.groupings},
		{"13: cost and benefit", b.cost}, {"14, table 1: conflicts", b.whites}, {"15: deterministic schedulers",
			b.schedulers}, {"16: compression", b.compressed},
		{"17: loss and jitter", b.loss}, {"18: skew", b.skew}, {"19: number of groups", b.groups},
		{"coordinates", b.coordinates},
		{"11b: the Raft path", b.raft}, {"raft-ways: one copy a region, compression, batches",
			b.raftWays}, {"16-raft: compression", b.raftPacked}, {"17-raft: loss and jitter", b.raftWeather},
	} {
		figures, _, _ := strings.Cut(f.name, ":")
		if !slices.ContainsFunc(strings.Split(figures, ", "), func(n string) bool { return p.Wants("geococo/" + n) }) {
			continue
		}
		begin := time.Now()
		lines, err := f.run(ctx)
		if err != nil {
			return fmt.Errorf("figure %s: %w", f.name, err)
		}
		fmt.Fprintf(p.Log, "figure %s: %.1f s\n", f.name, time.Since(begin).Seconds())
		for _, l := range lines {
			l.Figure = "geococo/" + l.Figure
			if err := p.Emit(l); err != nil {
				return err
			}
		}
	}
	return nil
}

// runs chooses between a count for quick runs and one for full runs.
func (b *geococo) runs(quick, full int) int {
	if b.Quick {
		return quick
	}
	return full
}

// long reports whether a figure also runs the variants that mostly repeat what others show. A quick
// run of all figures leaves them out.
func (b *geococo) long(figure string) bool {
	return !b.Quick || len(b.Only) > 0 && b.Wants("geococo/"+figure)
}

// clouds are the networks of the figures that draw nodes by lot.
var clouds = []string{matrix.AWS, matrix.AWS2022, matrix.Clouds}

// draw draws n nodes of a matrix by lot.
func draw(m *matrix.Matrix, rnd *rand.Rand, n int) *plan.Facts {
	return sub(m, rnd.Perm(m.Len())[:n])
}

func sub(m *matrix.Matrix, nodes []int) *plan.Facts {
	f := &plan.Facts{Latency: make([][]time.Duration, len(nodes))}
	for i, a := range nodes {
		f.Latency[i] = make([]time.Duration, len(nodes))
		for j, b := range nodes {
			if i != j {
				f.Latency[i][j] = m.OneWay(a, b)
			}
		}
	}
	return f
}

func openMatrices(names ...string) ([]*matrix.Matrix, error) {
	var ms []*matrix.Matrix
	for _, name := range names {
		m, err := matrix.Open(name)
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	return ms, nil
}

func millis(d time.Duration) float64 { return float64(d) / 1e6 }

// violations computes Figure 5: the pairs of nodes with a detour over one other node that is faster
// than the direct path.
func (b *geococo) violations(context.Context) (out []rig.Line, err error) {
	for _, name := range append(slices.Clone(clouds), matrix.PlanetLab) {
		m, err := matrix.Open(name)
		if err != nil {
			return nil, err
		}
		var pairs, faster, much float64
		for i := range m.Len() {
			for j := range m.Len() {
				if i == j {
					continue
				}
				best := m.OneWay(i, j)
				for k := range m.Len() {
					if k != i && k != j {
						best = min(best, m.OneWay(i, k)+m.OneWay(k, j))
					}
				}
				pairs++
				if best < m.OneWay(i, j) {
					faster++
				}
				if float64(best) < 0.9*float64(m.OneWay(i, j)) {
					much++
				}
			}
		}
		out = append(out,
			rig.Line{Figure: "5", Series: name, X: "all", Metric: "pairs with a faster detour", Unit: "%",
				Value: 100 * faster / pairs, Better: rig.Higher},
			rig.Line{Figure: "5", Series: name, X: "by 10 %", Metric: "pairs with a faster detour", Unit: "%",
				Value: 100 * much / pairs, Better: rig.Higher})
	}
	return out, nil
}

// trace is a network of ten nodes that changes: its delays at successive times.
type trace struct {
	name  string
	slots []*plan.Facts
	every time.Duration // between two times
}

func (b *geococo) traces() ([]trace, error) {
	series, err := matrix.Seattle()
	if err != nil {
		return nil, err
	}
	seattle := trace{name: "seattle", every: 10 * time.Second}
	for _, m := range series {
		seattle.slots = append(seattle.slots, sub(m, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}))
	}
	// Like the paper's synthetic traces, distributions are fitted to measured ones of AWS. A pair's
	// latency is log-normal through its median and its 90th percentile, and drifts.
	ms, err := openMatrices(matrix.AWS, matrix.AWSP90)
	if err != nil {
		return nil, err
	}
	mid, high := ms[0], ms[1]
	rnd := rand.New(rand.NewPCG(1, 9))
	aws := trace{name: "aws", every: 10 * time.Second}
	nodes := rnd.Perm(mid.Len())[:10]
	level := make([]float64, 100) // standard normal, correlated in time
	for i := range level {
		level[i] = rnd.NormFloat64()
	}
	for range b.runs(1000, 10_000) {
		f := sub(mid, nodes)
		for i := range 10 {
			for j := range 10 {
				l := &level[10*i+j]
				*l = 0.95**l + math.Sqrt(1-0.95*0.95)*rnd.NormFloat64()
				if i != j {
					m, h := float64(mid.OneWay(nodes[i], nodes[j])), float64(high.OneWay(nodes[i], nodes[j]))
					f.Latency[i][j] = time.Duration(m * math.Exp(max(0, math.Log(h/m))/1.2816**l))
				}
			}
		}
		aws.slots = append(aws.slots, f)
	}
	return []trace{seattle, aws}, nil
}

// makespan computes Figure 9. Each round follows the plan that was in force when it began, so the
// planner's facts are one slot old.
func (b *geococo) makespan(ctx context.Context) (out []rig.Line, err error) {
	traces, err := b.traces()
	if err != nil {
		return nil, err
	}
	for _, t := range traces {
		var flat, ours, fresh, bound []time.Duration
		var keeper plan.Keeper
		var p *plan.Plan
		for i, f := range t.slots {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if i > 0 {
				if p, err = keeper.Observe(time.Duration(i)*t.every, t.slots[i-1]); err != nil {
					return nil, err
				}
			}
			if p == nil {
				continue
			}
			now, err := plan.Make(f, plan.Params{})
			if err != nil {
				return nil, err
			}
			flat, fresh, bound = append(flat, now.Flat), append(fresh, now.Makespan), append(bound, now.Bound)
			ours = append(ours, plan.Rerun(f, p))
		}
		for _, s := range [][]time.Duration{flat, ours, fresh, bound} {
			slices.Sort(s)
		}
		for _, q := range []float64{0.1, 0.5, 0.9, 0.99, 1} {
			at := func(s []time.Duration) float64 { return millis(s[min(len(s)-1, int(q*float64(len(s))))]) }
			add := func(series string, v, base float64) {
				out = append(out, rig.Line{Figure: "9", Series: t.name + " " + series, X: fmt.Sprintf("p%g", 100*q),
					Metric: "makespan", Unit: "ms", Value: v, Baseline: rig.Float(base), Better: rig.Lower})
			}
			add("planned/flat", at(ours), at(flat))
			add("planned at once/flat", at(fresh), at(flat))
			add("planned/bound", at(ours), at(bound))
		}
		out = append(out, rig.Line{Figure: "9", Series: t.name + " plans/slots", X: "all", Metric: "plans made",
			Unit: "plans", Value: float64(keeper.Plans), Baseline: rig.Float(float64(len(t.slots))), Better: rig.Lower})
	}
	return out, nil
}

// groupings computes Figure 12: each way of grouping, executed to full delivery, and the time that
// planning takes.
func (b *geococo) groupings(ctx context.Context) (out []rig.Line, err error) {
	ms, err := openMatrices(clouds...)
	if err != nil {
		return nil, err
	}
	draws := b.runs(15, 100)
	for mi, m := range ms {
		for _, n := range []int{12, 15} {
			sums := make([]float64, len(strategies))
			cpu := make([]time.Duration, len(strategies))
			var flat, bound float64
			for d := range draws {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				rnd := rand.New(rand.NewPCG(uint64(d), uint64(n)))
				f := draw(m, rnd, n)
				direct := plan.Evaluate(f, plan.Params{NoRelays: true}, plan.FlatGroups(n))
				flat += millis(direct.Makespan)
				bound += millis(plan.Bound(f))
				for s := range strategies {
					begin := rig.CPUTime()
					v, err := strategies[s].run(f, rnd)
					if err != nil {
						return nil, err
					}
					cpu[s] += rig.CPUTime() - begin
					sums[s] += millis(v)
				}
			}
			x := fmt.Sprintf("%d %s", n, clouds[mi])
			div := float64(draws)
			for s, st := range strategies {
				l := rig.Line{Figure: "12", Series: st.name + "/flat", X: x, Metric: "makespan", Unit: "ms",
					Value: sums[s] / div, Baseline: rig.Float(flat / div), Better: rig.Lower}
				if v, ok := st.paper[n]; ok {
					l.Paper = rig.Float(v)
				}
				out = append(out, l, rig.Line{Figure: "12", Series: st.name, X: x, Metric: "CPU of a plan",
					Unit: "us", Value: float64(cpu[s].Microseconds()) / div, Better: rig.Lower})
			}
			out = append(out, rig.Line{Figure: "12", Series: "bound/flat", X: x, Metric: "makespan", Unit: "ms",
				Value: bound / div, Baseline: rig.Float(flat / div), Better: rig.Lower})
		}
	}
	return out, nil
}

// cost measures Figure 13: the time that one plan takes, beside the time that it saves in 1,000
// rounds.
func (b *geococo) cost(ctx context.Context) (out []rig.Line, err error) {
	ms, err := openMatrices(clouds...)
	if err != nil {
		return nil, err
	}
	paper := map[int]float64{5: 0.0665, 50: 0.0707}
	for _, n := range []int{5, 10, 15, 20, 30, 50} {
		var saved float64
		var cpu time.Duration
		draws := max(b.runs(60, 300)/n, 1)
		for d := range draws {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			rnd := rand.New(rand.NewPCG(uint64(d), uint64(n)))
			m := ms[2] // the only one of that many regions
			f := draw(m, rnd, n)
			for range n {
				f.Batch, f.Uplink = append(f.Batch, 10_000), append(f.Uplink, 100e6)
			}
			begin := rig.CPUTime()
			p, err := plan.Make(f, plan.Params{})
			if err != nil {
				return nil, err
			}
			cpu += rig.CPUTime() - begin
			saved += 1000 * millis(p.Flat-p.Makespan)
		}
		l := rig.Line{Figure: "13", Series: "plan/1000 rounds", X: n, Metric: "cost beside benefit", Unit: "ms",
			Value: millis(cpu) / float64(draws), Baseline: rig.Float(saved / float64(draws)), Better: rig.Lower}
		if v, ok := paper[n]; ok {
			l.Paper = rig.Float(v)
		}
		out = append(out, l)
	}
	return out, nil
}

// groups computes Figure 19: rounds with a given number of groups. The paper's formula leaves out
// the last leg of a round, so its best number of groups is not the best one to execute.
func (b *geococo) groups(ctx context.Context) (out []rig.Line, err error) {
	ms, err := openMatrices(matrix.AWS, matrix.AWS2022)
	if err != nil {
		return nil, err
	}
	draws := b.runs(5, 40)
	for mi, m := range ms {
		for _, n := range []int{10, 15} {
			bestFormula, bestPlan, fewest := 0, 0, 0
			least, fastest := math.Inf(1), math.Inf(1)
			for k := 1; k <= n; k++ {
				var flat, made, formula, msgs float64
				for d := range draws {
					if err := ctx.Err(); err != nil {
						return nil, err
					}
					f := draw(m, rand.New(rand.NewPCG(uint64(d), uint64(n))), n)
					p, err := plan.Make(f, plan.Params{Groups: k, Slack: -1, MaxSteps: 3000})
					if err != nil {
						return nil, err
					}
					_, t := plan.Paper(f.Latency, k)
					flat += millis(p.Flat)
					made += millis(p.Makespan)
					formula += millis(t)
					msgs += float64(p.Cost.Messages)
				}
				if formula < least-1e-9 {
					least, bestFormula = formula, k
				}
				if made < fastest-1e-9 {
					fastest, bestPlan = made, k
				}
				if made <= flat && fewest == 0 {
					fewest = k
				}
				x := fmt.Sprintf("%d nodes, %d groups", n, k)
				div := float64(draws)
				net := []string{"aws", "aws 2022"}[mi]
				out = append(out,
					rig.Line{Figure: "19", Series: net + " executed/flat", X: x, Metric: "makespan", Unit: "ms",
						Value: made / div, Baseline: rig.Float(flat / div), Better: rig.Lower},
					rig.Line{Figure: "19", Series: net + " formula/flat", X: x, Metric: "T of eq. 1", Unit: "ms",
						Value: formula / div, Baseline: rig.Float(flat / div), Better: rig.Lower},
					rig.Line{Figure: "19", Series: net + " executed/flat", X: x, Metric: "messages", Unit: "messages",
						Value: msgs / div, Baseline: rig.Float(float64(n * (n - 1))), Better: rig.Lower})
			}
			for _, c := range []struct {
				series string
				k      int
			}{{"smallest T of eq. 1", bestFormula}, {"fastest executed",
				bestPlan}, {"fewest messages no slower than flat", fewest}} {
				out = append(out, rig.Line{Figure: "19", Series: []string{"aws ", "aws 2022 "}[mi] + c.series + "/k*",
					X: fmt.Sprintf("%d nodes", n), Metric: "groups", Unit: "groups",
					Value: float64(c.k), Baseline: rig.Float(plan.KStar(n)), Better: rig.Lower})
			}
		}
	}
	return out, nil
}
