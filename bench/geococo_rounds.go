package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/collective"
	"github.com/godwitdb/godwit/coord"
	"github.com/godwitdb/godwit/filter"
	"github.com/godwitdb/godwit/matrix"
	"github.com/godwitdb/godwit/plan"
	"github.com/godwitdb/godwit/wan"
	"github.com/godwitdb/godwit/wire"
)

// ring is a set of nodes that run rounds on an emulated network in this process.
type ring struct {
	net   *wan.Network
	comms []*collective.Comm
	sent  [][]atomic.Int64 // messages from one node to another
	round uint64
}

// counting counts messages between nodes.
type counting struct {
	wan.Transport
	to []atomic.Int64
}

func (c *counting) Send(to base.NodeID, kind wire.Kind, m wan.Msg) error {
	c.to[to-1].Add(1)
	return c.Transport.Send(to, kind, m)
}

func newRing(n int, p *plan.Plan, opt wan.NetOptions) (*ring, error) {
	r := &ring{net: wan.NewNetwork(opt), sent: make([][]atomic.Int64, n)}
	var nodes []base.NodeID
	for i := range n {
		nodes = append(nodes, base.NodeID(i+1))
	}
	for i := range n {
		r.sent[i] = make([]atomic.Int64, n)
		tr := &counting{r.net.Join(nodes[i], base.RegionID(i+1)), r.sent[i]}
		c, err := collective.New(tr).Join(1, nodes, collective.Options{})
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.comms = append(r.comms, c)
		for j, id := range nodes {
			tr.SetPeer(id, "", base.RegionID(j+1))
		}
		if err := errors.Join(tr.Start(), c.SetPlan(p, 0)); err != nil {
			return nil, errors.Join(err, r.close())
		}
	}
	return r, nil
}

func (r *ring) close() error {
	for _, c := range r.comms {
		c.Close()
	}
	return r.net.Close()
}

// all runs one round on all nodes and returns when the last one has everything.
func (r *ring) all(ctx context.Context, data []byte) (time.Duration, error) {
	r.round++
	begin := time.Now()
	err := each(len(r.comms), func(i int) error {
		_, err := r.comms[i].AllGather(ctx, r.round, data)
		return err
	})
	return time.Since(begin), err
}

// messages is Figure 10: 400 rounds of seven nodes, counted.
func (b *geococo) messages(ctx context.Context) (out []Line, err error) {
	const n, rounds = 7, 400
	m, err := matrix.Default(n)
	if err != nil {
		return nil, err
	}
	p, err := plan.Make(&plan.Facts{Latency: m.OneWays()}, plan.Params{})
	if err != nil {
		return nil, err
	}
	var counts [2][]float64    // messages sent and received by each node
	var pairs [2][n][n]float64 // the heat map: from, to
	for v, pl := range []*plan.Plan{plan.Flat(n), p} {
		r, err := newRing(n, pl, wan.NetOptions{}) // counts do not depend on delays
		if err != nil {
			return nil, err
		}
		for range rounds {
			if _, err = r.all(ctx, make([]byte, 100)); err != nil {
				break
			}
		}
		if err = errors.Join(err, r.close()); err != nil {
			return nil, err
		}
		counts[v] = make([]float64, n)
		for i := range n {
			for j := range n {
				k := float64(r.sent[i][j].Load()) / rounds
				pairs[v][i][j] = k
				counts[v][i] += k
				counts[v][j] += k
			}
		}
	}
	for i := range n {
		for j := range n {
			if i != j {
				out = append(out, Line{Figure: "10", Series: "planned/flat", X: m.Names[i] + " > " + m.Names[j], Metric: "messages on a path and round", Unit: "messages", Value: pairs[1][i][j], Baseline: Float(pairs[0][i][j]), Better: Lower})
			}
		}
	}
	var sums [2]float64
	for i := range n {
		role := "member"
		if p.Groups[p.Of[i]].Aggregators[0] == i {
			role = "aggregator"
		}
		out = append(out, Line{Figure: "10", Series: "planned/flat", X: m.Names[i] + ", " + role, Metric: "messages a round", Unit: "messages", Value: counts[1][i], Baseline: Float(counts[0][i]), Better: Lower})
		sums[0], sums[1] = sums[0]+counts[0][i]/2, sums[1]+counts[1][i]/2
	}
	busiest := Line{Figure: "10", Series: "planned/flat", X: "busiest node", Metric: "messages a round", Unit: "messages", Value: slices.Max(counts[1]), Baseline: Float(slices.Max(counts[0])), Better: Lower}
	all := Line{Figure: "10", Series: "planned/flat", X: "all nodes", Metric: "messages a round", Unit: "messages", Value: sums[1], Baseline: Float(sums[0]), Better: Lower}
	return append(out, busiest, all), nil
}

// loss is Figure 17: rounds one after the other over paths that lose and delay
// packets. A lost packet comes a retransmission timeout later, as on TCP.
func (b *geococo) loss(ctx context.Context) (out []Line, err error) {
	const n = 10
	m, err := matrix.Open(matrix.AWS2022)
	if err != nil {
		return nil, err
	}
	if m, err = m.First(n); err != nil {
		return nil, err
	}
	p, err := plan.Make(&plan.Facts{Latency: m.OneWays()}, plan.Params{})
	if err != nil {
		return nil, err
	}
	type path struct {
		name       string
		loss       float64
		jitter     time.Duration
		throughput *float64 // the paper's ratios
		p99        *float64
	}
	paths := []path{
		{"clean", 0, 0, nil, nil},
		{"loss 1 %", 0.01, 0, Float(1.093), nil},
		{"loss 5 %", 0.05, 0, Float(1.158), Float(0.78)},
		{"+30 ms", 0, 30 * time.Millisecond, Float(1.093), nil},
		{"+50 ms", 0, 50 * time.Millisecond, Float(1.096), nil},
	}
	length := pick(b.Params, 40*time.Second, 300*time.Second) // of virtual time
	took := make([][2][]time.Duration, len(paths))
	one := func(i int) error {
		pa := paths[i/2]
		pl := []*plan.Plan{plan.Flat(n), p}[i%2]
		if i%2 == 0 {
			pl.Makespan = p.Flat // its patience is that of a plan that knows the network
		}
		r, err := newRing(n, pl, wan.NetOptions{Seed: uint64(i / 2)})
		if err != nil {
			return err
		}
		for a := range n {
			for c := range n {
				if a != c {
					r.net.SetPath(base.RegionID(a+1), base.RegionID(c+1), wan.LinkSpec{Delay: m.OneWay(a, c), Loss: pa.loss, Jitter: pa.jitter})
				}
			}
		}
		for begin := time.Now(); time.Since(begin) < length && err == nil && ctx.Err() == nil; {
			var d time.Duration
			d, err = r.all(context.Background(), make([]byte, 1000))
			took[i/2][i%2] = append(took[i/2][i%2], d)
		}
		return errors.Join(err, r.close())
	}
	for i := range 2 * len(paths) {
		if err := errors.Join(virtual(func() error { return one(i) }), ctx.Err()); err != nil {
			return nil, err
		}
	}
	for i, pa := range paths {
		var rate, mid, tail [2]float64
		for v := range 2 {
			s := took[i][v]
			var sum time.Duration
			for _, d := range s {
				sum += d
			}
			rate[v] = float64(len(s)) / sum.Seconds()
			slices.Sort(s)
			mid[v] = millis(s[len(s)/2])
			tail[v] = millis(s[len(s)*99/100])
		}
		out = append(out,
			Line{Figure: "17", Series: "planned/flat", X: pa.name, Metric: "throughput", Unit: "rounds/s", Value: rate[1], Baseline: &rate[0], Paper: pa.throughput, Better: Higher},
			Line{Figure: "17", Series: "planned/flat", X: pa.name, Metric: "median of a round", Unit: "ms", Value: mid[1], Baseline: &mid[0], Better: Lower},
			Line{Figure: "17", Series: "planned/flat", X: pa.name, Metric: "p99 of a round", Unit: "ms", Value: tail[1], Baseline: &tail[0], Paper: pa.p99, Better: Lower})
	}
	return out, nil
}

// skew is Figure 18: YCSB on 15 nodes in five regions whose uplinks carry 20
// Mbit/s. Epochs follow each other; each exchanges the batches as they are encoded,
// and commits what rule F1 lets commit. The time of an exchange is computed.
func (b *geococo) skew(ctx context.Context) (out []Line, err error) {
	const nodes, per, txns, ops, uplink = 15, 3, 100, 10, 20e6
	m, err := matrix.Default(nodes / per)
	if err != nil {
		return nil, err
	}
	facts := func() *plan.Facts {
		f := &plan.Facts{}
		for i := range nodes {
			row := make([]time.Duration, nodes)
			for j := range row {
				switch {
				case i/per != j/per:
					row[j] = m.OneWay(i/per, j/per)
				case i != j:
					row[j] = 250 * time.Microsecond
				}
			}
			f.Latency, f.Region, f.Uplink = append(f.Latency, row), append(f.Region, i/per), append(f.Uplink, uplink)
		}
		return f
	}
	paper := map[float64][]float64{0.95: {1.127, 1.105, 1.109, 1.079, 27.3 / 26.3}, 0.5: {1.176, 1.10, 1.087, 1.072, 14.2 / 13.9}}
	for _, reads := range []float64{0.95, 0.5} {
		for k, theta := range []float64{0.5, 0.6, 0.7, 0.8, 0.9} {
			rnd := rand.New(rand.NewPCG(uint64(k), 18))
			z := newZipf(100_000, theta)
			var committed, flatTime, ourTime, sentFlat, sentOurs float64
			epochs := b.runs(4, 30)
			var p *plan.Plan
			for e := range epochs {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				batches := make([]filter.Batch, nodes)
				for i := range batches {
					batches[i].Origin = i
					for t := range txns {
						x := filter.Txn{ID: base.MakeTxnID(base.Timestamp(e+1), base.NodeID(i+1), uint32(t)), Priority: rnd.Uint64()}
						for range ops {
							key := fmt.Sprintf("user%012d", z(rnd))
							if rnd.Float64() < reads {
								x.Reads = append(x.Reads, key)
							} else if !slices.ContainsFunc(x.Writes, func(w filter.Write) bool { return w.Key == key }) {
								value := make([]byte, 100)
								for v := range value {
									value[v] = byte(rnd.Uint32())
								}
								x.Writes = append(x.Writes, filter.Write{Key: key, Value: value})
							}
						}
						batches[i].Txns = append(batches[i].Txns, x)
					}
				}
				// Updates are what is exchanged; reads are validated at home, under snapshot isolation.
				for i := range batches {
					for t := range batches[i].Txns {
						batches[i].Txns[t].Reads = nil
					}
				}
				f := facts()
				for i := range batches {
					f.Batch = append(f.Batch, len(filter.Encode(&batches[i])))
				}
				flat := plan.Evaluate(f, plan.Params{NoRelays: true}, plan.FlatGroups(nodes))
				kept := slices.Clone(batches)
				if p != nil { // the plan in force is the one of the epoch before
					var before, after float64
					for _, g := range p.Groups {
						var group []filter.Batch
						for _, i := range g.Members {
							before += float64(f.Batch[i])
							group = append(group, kept[i])
						}
						if len(g.Members) > 1 {
							filter.Group(filter.Rule{}, group)
						}
						for at, i := range g.Members {
							kept[i] = group[at]
							after += float64(len(filter.Encode(&kept[i])))
						}
					}
					f.Keep = min(1, after/before)
				}
				want := filter.Outcome(filter.Rule{}, batches)
				if got := filter.Outcome(filter.Rule{}, kept); !slices.Equal(got.Committed, want.Committed) {
					return nil, fmt.Errorf("theta %v: the filter has changed an outcome", theta)
				}
				if p != nil {
					ours := plan.Rerun(f, p)
					committed += float64(len(want.Committed))
					flatTime += max(flat.Makespan, 10*time.Millisecond).Seconds()
					ourTime += max(ours, 10*time.Millisecond).Seconds()
					sentFlat += flat.Cost.WANBytes
					sentOurs += plan.Evaluate(f, plan.Params{NoRelays: true}, p.Groups).Cost.WANBytes
				}
				if p == nil || e%10 == 0 {
					if p, err = plan.Make(f, plan.Params{MaxSteps: 3000}); err != nil {
						return nil, err
					}
				}
			}
			mix := fmt.Sprintf("%g/%g", 100*reads, 100-100*reads)
			out = append(out,
				Line{Figure: "18", Series: mix + " planned/flat", X: theta, Metric: "throughput", Unit: "txn/s", Value: committed / ourTime, Baseline: Float(committed / flatTime), Paper: Float(paper[reads][k]), Better: Higher},
				Line{Figure: "18", Series: mix + " planned/flat", X: theta, Metric: "WAN bytes an epoch", Unit: "bytes", Value: sentOurs / float64(epochs-1), Baseline: Float(sentFlat / float64(epochs-1)), Better: Lower})
		}
	}
	return out, nil
}

// coordinates is section 6.4's cost of monitoring: 1,024 nodes at the 490 places of
// PlanetLab, two or three at each, half a millisecond apart.
func (b *geococo) coordinates(ctx context.Context) (out []Line, err error) {
	const n = 1024
	ms, err := openMatrices(matrix.PlanetLab)
	if err != nil {
		return nil, err
	}
	m := ms[0]
	truth := func(i, j int) time.Duration {
		if x, y := i%m.Len(), j%m.Len(); x != y {
			return max(m.RTT[x][y], 100*time.Microsecond)
		}
		return 500 * time.Microsecond
	}
	c, err := coord.New(n, coord.Options{Seed: 1})
	if err != nil {
		return nil, err
	}
	periods := b.runs(20, 60)
	probes := 0
	begin := cpuTime()
	for t := range periods {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if t == periods/3 {
			c.Settle()
		}
		for i := range n {
			near, samples := c.Probes(i)
			for _, j := range near {
				if err := c.Observe(i, j, truth(i, j)); err != nil {
					return nil, err
				}
			}
			for _, j := range samples {
				c.Verify(i, j, truth(i, j))
			}
			probes += len(near) + len(samples)
		}
	}
	used := cpuTime() - begin
	var errs []float64
	var off, all float64
	within := 0
	for i := range n {
		for j := range i {
			d, e := truth(i, j), c.RTT(i, j)
			gap := float64(max(d-e, e-d))
			errs = append(errs, gap/float64(d))
			off, all = off+gap, all+float64(d)
			if gap <= 0.18*float64(d) {
				within++
			}
		}
	}
	slices.Sort(errs)
	share := func(v float64) float64 { return 100 * v }
	line := func(series, metric, unit string, v float64, base, paper *float64, better string) Line {
		return Line{Figure: "coordinates", Series: series, X: n, Metric: metric, Unit: unit, Value: v, Baseline: base, Paper: paper, Better: better}
	}
	// What is planned from estimates, beside what is planned from the truth.
	real := make([][]time.Duration, n)
	for i := range real {
		real[i] = make([]time.Duration, n)
		for j := range real[i] {
			if i != j {
				real[i][j] = truth(i, j) / 2
			}
		}
	}
	// Each node then measures the few centers that seem nearest to it.
	k := int(plan.KStar(n))
	const tries = 5
	agg := plan.KCenter(c.OneWays(), k)
	var centers []int
	for i, a := range agg {
		if a == i {
			centers = append(centers, i)
		}
	}
	distance := func(agg []int) []time.Duration {
		var d []time.Duration
		for i, a := range agg {
			d = append(d, real[i][a])
		}
		slices.Sort(d)
		return d
	}
	for i := range agg {
		if agg[i] == i {
			continue
		}
		slices.SortFunc(centers, func(a, b int) int { return cmp.Compare(c.RTT(i, a), c.RTT(i, b)) })
		for _, a := range centers[:tries] {
			if real[i][a] < real[i][agg[i]] {
				agg[i] = a
			}
		}
	}
	guess, sure := distance(agg), distance(plan.KCenter(real, k))
	probes += n * tries
	return []Line{
		line("coordinates/all pairs", "probes a node and period", "probes", float64(probes)/n/float64(periods), Float(n-1), Float(1-0.964), Lower),
		line("coordinates", "median error", "%", share(errs[len(errs)/2]), nil, nil, Lower),
		line("coordinates", "error of the sum", "%", share(off/all), nil, nil, Lower),
		line("coordinates", "pairs within 18 %", "%", share(float64(within)/float64(len(errs))), nil, nil, Higher),
		line("coordinates", "CPU of a node and period", "us", float64(used.Microseconds())/n/float64(periods), nil, nil, Lower),
		line("estimated/measured", "way to the center, p95", "ms", millis(guess[n*95/100]), Float(millis(sure[n*95/100])), nil, Lower),
		line("estimated/measured", "way to the center, largest", "ms", millis(guess[n-1]), Float(millis(sure[n-1])), nil, Lower),
	}, nil
}
