package relay

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/bench/rig"
)

// seeds measures loads with several seeds, since single runs of a few seconds differ by half:
// relay/seeds for clients that send statement by statement, relay/oneshot for clients that send a
// whole transaction at once, relay/nobody for the former where nobody crosses, which is what those
// pay who get relay and do not need it. Both kinds of locks see the same clients.
func (b *relayBench) seeds(ctx context.Context) error {
	if err := cmp.Or(b.auto(ctx), b.hot(ctx)); err != nil {
		return err
	}
	for _, f := range []struct {
		figure  string
		oneShot bool
		cross   float64
		seeds   uint64
	}{
		{"seeds", false, relayShare, b.repeats()},
		{"oneshot", true, relayShare, b.repeats()},
		{"nobody", false, 0, 6}, // a few per cent are to be seen
	} {
		figure := f.figure
		if !b.asks(figure) {
			continue
		}
		for _, p := range b.policies(func(*relayPolicy) []string { return []string{figure} }) {
			for _, n := range rig.Pick(b.Params, []int{relayClients}, []int{relayClients, 35}) {
				l := b.load(p.policy)
				l.clients, l.oneShot, l.cross = n, f.oneShot, f.cross
				if err := b.spread(ctx, figure, fmt.Sprintf("%s, %d clients", p.name, n), l, f.seeds); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// repeats is how many seeds a load is measured with: fewer in a quick run of all figures.
func (b *relayBench) repeats() uint64 {
	if b.Quick && len(b.Only) == 0 {
		return 2
	}
	return rig.Pick(b.Params, uint64(4), 8)
}

// auto measures relay/auto: what clients get who have chosen nothing, beside strict, as SQL waits
// for locks (DL_DETECT), with several seeds. Every gateway decides as the product does (package
// crossing). "near" has all regions 20 ms apart, where crossing costs least; "not shipped" has all
// rows that are read validated, as statements do that no patch can tell.
func (b *relayBench) auto(ctx context.Context) error {
	if !b.asks("auto") {
		return nil
	}
	type place struct {
		name  string
		round time.Duration // between any two regions; 0: the paper's
		plain bool
	}
	places := []place{{"", 0, false}, {", not shipped", 0, true}, {", near", 20 * time.Millisecond, false},
		{", near, not shipped", 20 * time.Millisecond, true}}
	shares := []float64{0, .05, relayShare, .5, 1}
	if b.Quick && len(b.Only) == 0 { // the rest takes twenty minutes
		places, shares = places[:1], []float64{relayShare}
	}
	defer b.w.Net.SetOneWay(b.w.m.OneWays())
	for _, place := range places {
		b.w.Net.SetOneWay(b.w.m.OneWays())
		if place.round > 0 {
			b.w.Net.SetOneWay(b.w.equally(place.round))
		}
		time.Sleep(10 * time.Second) // the nodes measure the round trips
		for _, share := range shares {
			l := b.load(kv.Detect)
			l.cross, l.plain, l.auto = share, place.plain, true
			x := fmt.Sprintf("%.0f %%%s", 100*share, place.name)
			if err := b.spread(ctx, "auto", x, l, b.repeats()); err != nil {
				return err
			}
		}
	}
	return nil
}

// hot measures relay/hot: all clients transfer between few rows, with statements that no patch can
// tell. Nothing is gained by crossing there, and auto has to learn which rows these are.
func (b *relayBench) hot(ctx context.Context) error {
	if !b.asks("hot") {
		return nil
	}
	b.w.Net.SetOneWay(b.w.m.OneWays())
	time.Sleep(10 * time.Second) // the nodes measure the round trips
	for i, length := range []time.Duration{30 * time.Second, 2 * time.Minute} {
		l := b.load(kv.Detect)
		l.hot, l.plain, l.auto, l.clients, l.warm, l.length = 1+100*i, true, true, hotRows, 0, length
		if err := b.spread(ctx, "hot", fmt.Sprintf("hot rows, %v", length), l, b.repeats()); err != nil {
			return err
		}
	}
	return nil
}

// spread runs a load with some seeds, and emits the means; the interval goes to the log.
func (b *relayBench) spread(ctx context.Context, figure, x string, l tierLoad, seeds uint64) error {
	var pairs []relayPair
	for seed := range seeds {
		l.seed = 1000 * seed
		if l.hot > 0 {
			l.hot++
		}
		p, err := b.measure(ctx, l)
		if err != nil {
			return err
		}
		pairs = append(pairs, p)
	}
	for _, m := range []struct {
		name, unit, better string
		of                 func(*tierResult) float64
	}{
		{"throughput", "txn/s", rig.Higher, (*tierResult).rate},
		{"IRT p50 latency", "ms", rig.Lower, func(r *tierResult) float64 { return r.kinds[0].ms(.5) }},
		{"IRT p99 latency", "ms", rig.Lower, func(r *tierResult) float64 { return r.kinds[0].ms(.99) }},
		{"CRT p50 latency", "ms", rig.Lower, func(r *tierResult) float64 { return r.kinds[1].ms(.5) }},
		{"CRT p99 latency", "ms", rig.Lower, func(r *tierResult) float64 { return r.kinds[1].ms(.99) }},
		{"aborted attempts", "%", rig.Lower, (*tierResult).aborted},
	} {
		if l.cross == 0 && strings.HasPrefix(m.name, "CRT") {
			continue
		}
		var relay, strict []float64
		for _, p := range pairs {
			relay, strict = append(relay, m.of(p.relay)), append(strict, m.of(p.strict))
		}
		value, around := meanOf(relay)
		base, baseAround := meanOf(strict)
		fmt.Fprintf(b.Log, "%s, %s: relay %.1f ± %.1f, strict %.1f ± %.1f %s, of %d seeds\n", x, m.name, value, around,
			base, baseAround, m.unit, len(pairs))
		if err := b.emit(rig.Line{Figure: figure, Series: "relay/strict", X: x, Metric: m.name, Unit: m.unit,
			Better: m.better, Value: value, Baseline: rig.Float(base)}); err != nil {
			return err
		}
	}
	return nil
}

// student are the quantiles of Student's t of 95 % intervals, by the degrees of freedom, from one.
var student = []float64{12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36}

// meanOf is the mean of some values, and half the width of its 95 % interval; of one value that is
// not known.
func meanOf(xs []float64) (mean, around float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	if len(xs) < 2 {
		return mean, math.Inf(1)
	}
	squares := 0.0
	for _, x := range xs {
		squares += (x - mean) * (x - mean)
	}
	n := len(xs) - 1
	return mean, student[min(n, len(student))-1] * math.Sqrt(squares/float64(n)/float64(n+1))
}
