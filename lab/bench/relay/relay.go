package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/matrix"
)

// Bench regenerates the figures of Relay on locks.
func Bench() rig.Bench {
	return rig.Bench{
		Name:  "relay",
		Title: "local transactions beside those that cross regions: consistency tiers, or one kind of locks for all (Spanner)",
		Figures: []string{"relay/6a", "relay/6b", "relay/7a", "relay/7b", "relay/8a", "relay/9a", "relay/8b",
			"relay/9b", "relay/8c", "relay/9c", "relay/8d", "relay/9d",
			"relay/flat", "relay/wait", "relay/ship", "relay/zero", "relay/seeds", "relay/oneshot", "relay/nobody",
			"relay/auto", "relay/hot"},
		Parts: true,
		Run:   runRelay,
	}
}

// relayPolicy is one of the paper's ways to deal with deadlocks, with the figures that show it.
type relayPolicy struct {
	policy                                 kv.Policy
	name                                   string
	peak, lives, clients, share, zipf, lag string  // figures
	gain                                   float64 // the paper's, in peak throughput
}

var relayPolicies = []relayPolicy{
	{kv.NoWait, "NO_WAIT", "6a", "6b", "8a", "8b", "8c", "8d", 3.21},
	{kv.WaitDie, "WAIT_DIE", "7a", "7b", "9a", "9b", "9c", "9d", 4.15},
}

// relayBench is one run of the benchmark.
type relayBench struct {
	rig.Params
	w    *tierWorld
	done map[tierLoad]relayPair // results by load, as several figures share loads
}

// asks reports whether at least one of the figures is to be run.
func (b *relayBench) asks(figures ...string) bool {
	return slices.ContainsFunc(figures, func(f string) bool { return b.Wants("relay/" + f) })
}

// policies are the ways to deal with deadlocks of which a figure is to be run. A quick run has only
// the first of them.
func (b *relayBench) policies(figures func(*relayPolicy) []string) (out []relayPolicy) {
	for _, p := range relayPolicies {
		if b.asks(figures(&p)...) && (len(out) == 0 || !b.Quick) {
			out = append(out, p)
		}
	}
	return out
}

// relayRows is the number of rows of a region. The paper has 600,000 rows and 35 clients. With so
// many fewer rows two transactions of a region meet five times as often, and with so many fewer
// clients a fifth as often.
const (
	relayRows    = 20_000
	relayClients = 7
	relayTheta   = .75
	relayShare   = .1
)

func runRelay(ctx context.Context, p rig.Params) error {
	m, err := matrix.Open(matrix.Relay)
	if err != nil {
		return err
	}
	var failed error
	begin, cpu := time.Now(), rig.CPUTime()
	err = rig.Virtual(func() error {
		// The context is of real time: nothing in here may wait for it.
		w, err := openTiers(context.Background(), m, relayRows)
		if err != nil {
			return err
		}
		b := &relayBench{p, w, map[tierLoad]relayPair{}}
		for _, f := range []func(context.Context) error{b.concurrency, b.shares, b.zipfs, b.delays, b.waiting, b.zero,
			b.seeds} {
			if failed = errors.Join(ctx.Err(), failed); failed == nil {
				failed = f(ctx)
			}
		}
		return w.Close()
	})
	fmt.Fprintf(p.Log, "relay: %.1f s, %.1f s of CPU\n", time.Since(begin).Seconds(), (rig.CPUTime() - cpu).Seconds())
	return errors.Join(failed, err)
}

// load is the default load of section 4.2.
func (b *relayBench) load(p kv.Policy) tierLoad {
	return tierLoad{policy: p, clients: relayClients, cross: relayShare, theta: relayTheta,
		warm: rig.Pick(b.Params, time.Second, 2*time.Second), length: rig.Pick(b.Params, 1750*time.Millisecond, 6*time.Second)}
}

// relayPair is the results of a load under one kind of locks, and in tiers.
type relayPair struct{ strict, relay *tierResult }

// both runs a load under the paper's delays, unless it has run before.
func (b *relayBench) both(ctx context.Context, l tierLoad) (relayPair, error) {
	if p, ok := b.done[l]; ok {
		return p, nil
	}
	p, err := b.measure(ctx, l)
	if err == nil {
		b.done[l] = p
	}
	return p, err
}

func (b *relayBench) measure(ctx context.Context, l tierLoad) (p relayPair, err error) {
	for _, relay := range []bool{false, true} {
		if err := ctx.Err(); err != nil {
			return p, err
		}
		l.relay = relay
		cpu := rig.CPUTime()
		r, err := b.w.run(l)
		if err != nil {
			return p, err
		}
		fmt.Fprintf(b.Log, "relay %v, policy %v, %d clients a region, %.0f %% cross, zipf %v: %.0f txn/s, "+
			"%.1f %% of attempts aborted (IRT %.1f, CRT %.1f), "+
			"IRT %.0f/%.0f/%.0f ms, CRT %.0f/%.0f/%.0f ms, %.1f s of CPU\n",
			relay, l.policy, l.clients, 100*l.cross, l.theta, r.rate(),
			r.aborted(), r.kinds[0].aborted(), r.kinds[1].aborted(),
			r.kinds[0].ms(.5), r.kinds[0].ms(.9), r.kinds[0].ms(.99),
			r.kinds[1].ms(.5), r.kinds[1].ms(.9), r.kinds[1].ms(.99), (rig.CPUTime() - cpu).Seconds())
		if relay {
			p.relay = r
		} else {
			p.strict = r
		}
	}
	return p, nil
}

func (b *relayBench) emit(lines ...rig.Line) error {
	for _, l := range lines {
		if !b.asks(l.Figure) {
			continue
		}
		l.Figure = "relay/" + l.Figure
		if err := b.Emit(l); err != nil {
			return err
		}
	}
	return nil
}

// throughput is a point of a sweep.
func (p relayPair) throughput(figure string, x any, paper *float64) rig.Line {
	return rig.Line{Figure: figure, Series: "relay/strict", X: x, Metric: "throughput", Unit: "txn/s",
		Better: rig.Higher, Value: p.relay.rate(), Baseline: rig.Float(p.strict.rate()), Paper: paper}
}

// latencies are the points of one kind of transactions.
func (p relayPair) latencies(figure, kind string, x any) (out []rig.Line) {
	i := map[string]int{"IRT": 0, "CRT": 1}[kind]
	for _, q := range []struct {
		name string
		q    float64
	}{{"p50", .5}, {"p90", .9}, {"p99", .99}} {
		out = append(out, rig.Line{Figure: figure, Series: "relay/strict", X: x,
			Metric: kind + " " + q.name + " latency", Unit: "ms", Better: rig.Lower,
			Value: p.relay.kinds[i].ms(q.q), Baseline: rig.Float(p.strict.kinds[i].ms(q.q))})
	}
	return out
}

// concurrency measures figures 8a and 9a, and their peaks 6 and 7.
func (b *relayBench) concurrency(ctx context.Context) error {
	for _, p := range relayPolicies {
		if !b.asks(p.peak, p.lives, p.clients) {
			continue
		}
		var best relayPair
		var sweep []rig.Line
		for _, n := range rig.Pick(b.Params, []int{relayClients, 21}, []int{3, relayClients, 21, 35}) {
			l := b.load(p.policy)
			l.clients = n
			r, err := b.both(ctx, l)
			if err != nil {
				return err
			}
			sweep = append(sweep, r.throughput(p.clients, n, nil))
			if best.strict == nil || r.strict.rate() > best.strict.rate() {
				best.strict = r.strict
			}
			if best.relay == nil || r.relay.rate() > best.relay.rate() {
				best.relay = r.relay
			}
		}
		if err := b.emit(best.throughput(p.peak, p.name+", peak", rig.Float(p.gain))); err != nil {
			return err
		}
		abort := func(x string, of func(*tierResult) float64, paper *float64) rig.Line {
			return rig.Line{Figure: "6b", Series: "relay/strict", X: x, Metric: "aborted attempts", Unit: "%",
				Better: rig.Lower, Value: of(best.relay), Baseline: rig.Float(of(best.strict)), Paper: paper}
		}
		var lines []rig.Line
		if p.policy == kv.NoWait {
			lines = []rig.Line{
				abort("all", (*tierResult).aborted, rig.Float(6.2/55.3)),
				abort("IRT", func(r *tierResult) float64 { return r.kinds[0].aborted() }, rig.Float(2.3/56.5)),
				abort("CRT", func(r *tierResult) float64 { return r.kinds[1].aborted() }, nil),
			}
		} else {
			mean := func(kind string, i int, paper *float64) rig.Line {
				return rig.Line{Figure: "7b", Series: "relay/strict", X: kind, Metric: "mean latency", Unit: "ms",
					Better: rig.Lower,
					Value:  best.relay.kinds[i].mean(), Baseline: rig.Float(best.strict.kinds[i].mean()), Paper: paper}
			}
			lines = []rig.Line{mean("IRT", 0, nil), mean("CRT", 1, rig.Float(1)),
				{Figure: "7b", Series: "relay/strict", X: "IRT", Metric: "p90 latency", Unit: "ms", Better: rig.Lower,
					Value: best.relay.kinds[0].ms(.9), Baseline: rig.Float(best.strict.kinds[0].ms(.9)),
					Paper: rig.Float(.4 / 1.4)}}
		}
		if err := b.emit(append(lines, sweep...)...); err != nil {
			return err
		}
	}
	return nil
}

// shares measures figures 8b and 9b: more and more transactions cross. relay/flat compares the tail
// latency of local transactions with the one when none crosses.
func (b *relayBench) shares(ctx context.Context) error {
	for _, p := range b.policies(func(p *relayPolicy) []string { return []string{p.share, "flat"} }) {
		var none *tierResult
		var flat []rig.Line
		for _, share := range rig.Pick(b.Params, []float64{0, relayShare, .5}, []float64{0, .05, relayShare, .2, .5, 1}) {
			l := b.load(p.policy)
			if l.cross = share; share == 0 { // so many commit that a shorter run is enough
				l.warm, l.length = l.warm/2, l.length/3
			}
			r, err := b.both(ctx, l)
			if err != nil {
				return err
			}
			x := fmt.Sprintf("%.0f %%", 100*share)
			lines := []rig.Line{r.throughput(p.share, x, nil)}
			if share < 1 {
				lines = append(lines, r.latencies(p.share, "IRT", x)...)
			}
			if err := b.emit(lines...); err != nil {
				return err
			}
			if none == nil {
				none = r.relay
			}
			if share == 0 || share == 1 {
				continue
			}
			flat = append(flat, rig.Line{Figure: "flat", Series: "relay " + p.name + "/nobody crosses", X: x,
				Metric: "IRT p99 latency", Unit: "ms", Better: rig.Lower,
				Value: r.relay.kinds[0].ms(.99), Baseline: rig.Float(none.kinds[0].ms(.99))})
		}
		if err := b.emit(flat...); err != nil {
			return err
		}
	}
	return nil
}

// zipfs measures figures 8c and 9c.
func (b *relayBench) zipfs(ctx context.Context) error {
	for _, p := range b.policies(func(p *relayPolicy) []string { return []string{p.zipf} }) {
		for _, theta := range rig.Pick(b.Params, []float64{relayTheta, .9}, []float64{.5, .6, relayTheta, .9}) {
			l := b.load(p.policy)
			l.theta = theta
			r, err := b.both(ctx, l)
			if err != nil {
				return err
			}
			if err := b.emit(r.throughput(p.zipf, theta, nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// delays measures figures 8d and 9d: all regions equally far apart.
func (b *relayBench) delays(ctx context.Context) error {
	defer b.w.Net.SetOneWay(b.w.m.OneWays())
	for _, p := range b.policies(func(p *relayPolicy) []string { return []string{p.lag} }) {
		for _, ms := range rig.Pick(b.Params, []int{20, 100}, []int{20, 60, 100}) {
			b.w.Net.SetOneWay(b.w.equally(time.Duration(ms) * time.Millisecond))
			time.Sleep(10 * time.Second) // the nodes measure the new round trips
			r, err := b.measure(ctx, b.load(p.policy))
			if err != nil {
				return err
			}
			if err := b.emit(r.throughput(p.lag, fmt.Sprintf("%d ms", ms), nil)); err != nil {
				return err
			}
		}
	}
	return nil
}

// equally are the one-way delays if any two regions are a round trip apart.
func (w *tierWorld) equally(round time.Duration) [][]time.Duration {
	oneWay := w.m.OneWays()
	for i := range oneWay {
		for j := range oneWay[i] {
			if i != j {
				oneWay[i][j] = round / 2
			}
		}
	}
	return oneWay
}

// waiting runs the default load under SQL's way to deal with deadlocks, which the paper does not
// have: transactions wait, and the youngest one of a deadlock dies.
func (b *relayBench) waiting(ctx context.Context) error {
	if !b.asks("wait", "ship") {
		return nil
	}
	time.Sleep(10 * time.Second)
	r, err := b.both(ctx, b.load(kv.Detect))
	if err != nil {
		return err
	}
	lines := append([]rig.Line{r.throughput("wait", "DL_DETECT", nil)}, r.latencies("wait", "IRT", "DL_DETECT")...)
	if err := b.emit(append(lines, r.latencies("wait", "CRT", "DL_DETECT")...)...); err != nil {
		return err
	}
	// The gain of shipped updates: the same load without them, so that every row read is validated
	// and locked.
	l := b.load(kv.Detect)
	l.relay, l.plain = true, true
	plain, err := b.w.run(l)
	if err != nil {
		return err
	}
	r.strict = plain
	lines = append([]rig.Line{r.throughput("ship", "DL_DETECT", nil)}, r.latencies("ship", "IRT", "DL_DETECT")...)
	for i := range lines {
		lines[i].Series = "shipped/not"
	}
	return b.emit(lines...)
}

// zero measures what tiers cost when no transaction crosses. In virtual time processors are free,
// so it counts CPU time: the least of several runs, in turns.
func (b *relayBench) zero(ctx context.Context) error {
	if !b.asks("zero") {
		return nil
	}
	l := b.load(kv.NoWait)
	l.cross, l.theta, l.clients, l.warm = 0, .3, 3, 200*time.Millisecond
	l.length = rig.Pick(b.Params, 500*time.Millisecond, 4*time.Second)
	var least [2]float64
	for range rig.Pick(b.Params, 2, 5) {
		for i := range least {
			if err := ctx.Err(); err != nil {
				return err
			}
			l.relay = i == 1
			cpu := rig.CPUTime()
			r, err := b.w.run(l)
			if err != nil {
				return err
			}
			per := (rig.CPUTime() - cpu).Seconds() * 1e6 / float64(max(1, r.committed()))
			if least[i] == 0 || per < least[i] {
				least[i] = per
			}
		}
	}
	return b.emit(rig.Line{Figure: "zero", Series: "relay/strict", X: "0 %", Metric: "CPU of a transaction",
		Unit: "µs", Better: rig.Lower, Value: least[1], Baseline: rig.Float(least[0])})
}
