package geococo

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/collective"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
	"github.com/godwitdb/godwit/wire"
)

// ring is a set of nodes that run rounds on an emulated network.
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

// all runs one round on all nodes. It returns the time until the last node has everything.
func (r *ring) all(ctx context.Context, data []byte) (time.Duration, error) {
	r.round++
	begin := time.Now()
	err := rig.Each(len(r.comms), func(i int) error {
		_, err := r.comms[i].AllGather(ctx, r.round, data)
		return err
	})
	return time.Since(begin), err
}

// messages counts Figure 10: 400 rounds of seven nodes.
func (b *geococo) messages(ctx context.Context) (out []rig.Line, err error) {
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
				out = append(out, rig.Line{Figure: "10", Series: "planned/flat", X: m.Names[i] + " > " + m.Names[j],
					Metric: "messages on a path and round", Unit: "messages", Value: pairs[1][i][j],
					Baseline: rig.Float(pairs[0][i][j]), Better: rig.Lower})
			}
		}
	}
	var sums [2]float64
	for i := range n {
		role := "member"
		if p.Groups[p.Of[i]].Aggregators[0] == i {
			role = "aggregator"
		}
		out = append(out, rig.Line{Figure: "10", Series: "planned/flat", X: m.Names[i] + ", " + role,
			Metric: "messages a round", Unit: "messages", Value: counts[1][i], Baseline: rig.Float(counts[0][i]),
			Better: rig.Lower})
		sums[0], sums[1] = sums[0]+counts[0][i]/2, sums[1]+counts[1][i]/2
	}
	busiest := rig.Line{Figure: "10", Series: "planned/flat", X: "busiest node", Metric: "messages a round",
		Unit: "messages", Value: slices.Max(counts[1]), Baseline: rig.Float(slices.Max(counts[0])), Better: rig.Lower}
	all := rig.Line{Figure: "10", Series: "planned/flat", X: "all nodes", Metric: "messages a round",
		Unit: "messages", Value: sums[1], Baseline: rig.Float(sums[0]), Better: rig.Lower}
	return append(out, busiest, all), nil
}

// loss measures Figure 17: rounds one after the other over paths that lose and delay packets. A
// lost packet arrives a retransmission timeout later, as with TCP.
func (b *geococo) loss(ctx context.Context) (out []rig.Line, err error) {
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
		{"loss 1 %", 0.01, 0, rig.Float(1.093), nil},
		{"loss 5 %", 0.05, 0, rig.Float(1.158), rig.Float(0.78)},
		{"+30 ms", 0, 30 * time.Millisecond, rig.Float(1.093), nil},
		{"+50 ms", 0, 50 * time.Millisecond, rig.Float(1.096), nil},
	}
	length := rig.Pick(b.Params, 40*time.Second, 300*time.Second) // of virtual time
	took := make([][2][]time.Duration, len(paths))
	one := func(i int) error {
		pa := paths[i/2]
		pl := []*plan.Plan{plan.Flat(n), p}[i%2]
		if i%2 == 0 {
			pl.Makespan = p.Flat // flat rounds wait as long as a plan that knows the network
		}
		r, err := newRing(n, pl, wan.NetOptions{Seed: uint64(i / 2)})
		if err != nil {
			return err
		}
		for a := range n {
			for c := range n {
				if a != c {
					r.net.SetPath(base.RegionID(a+1), base.RegionID(c+1),
						wan.LinkSpec{Delay: m.OneWay(a, c), Loss: pa.loss, Jitter: pa.jitter})
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
		if err := errors.Join(rig.Virtual(func() error { return one(i) }), ctx.Err()); err != nil {
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
			rig.Line{Figure: "17", Series: "planned/flat", X: pa.name, Metric: "throughput", Unit: "rounds/s",
				Value: rate[1], Baseline: &rate[0], Paper: pa.throughput, Better: rig.Higher},
			rig.Line{Figure: "17", Series: "planned/flat", X: pa.name, Metric: "median of a round", Unit: "ms",
				Value: mid[1], Baseline: &mid[0], Better: rig.Lower},
			rig.Line{Figure: "17", Series: "planned/flat", X: pa.name, Metric: "p99 of a round", Unit: "ms",
				Value: tail[1], Baseline: &tail[0], Paper: pa.p99, Better: rig.Lower})
	}
	return out, nil
}
