package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/matrix"
)

// CRDB regenerates the figures of Relay on timestamp ordering.
func CRDB() rig.Bench {
	return rig.Bench{
		Name: "crdbrelay",
		Title: "timestamp ordering with a timestamp manager in each region (CRDB-Relay) " +
			"beside timestamp ordering alone (CockroachDB's)",
		Figures: []string{"crdbrelay/10", "crdbrelay/11"},
		Run:     runCRDBRelay,
	}
}

// orderPair is the same load in two clusters: by timestamps, and with timestamp managers.
type orderPair struct{ plain, relay *orderResult }

func runCRDBRelay(ctx context.Context, p rig.Params) error {
	m, err := matrix.Default(5)
	if err != nil {
		return err
	}
	ycsb := orderLoad{next: (*orderWorld).ycsbT, warm: time.Second, length: rig.Pick(p, 4*time.Second, 8*time.Second)}
	tpcc := ycsb
	tpcc.next = (*orderWorld).tpcC
	sweep := rig.Pick(p, []int{6}, []int{3, 6, 12})
	var ys, ts []orderPair
	begin, cpu := time.Now(), rig.CPUTime()
	err = rig.Virtual(func() error {
		for _, how := range []base.Concurrency{base.ByTimestamp, base.ByTimestampRelay} {
			// The caller's context is of real time, so nothing in here may wait for it.
			w, err := openOrdered(context.Background(), m, how)
			if err != nil {
				return err
			}
			for i, n := range sweep {
				for j, l := range []orderLoad{ycsb, tpcc} {
					pairs := []*[]orderPair{&ys, &ts}[j]
					if err = errors.Join(err, ctx.Err()); err != nil {
						continue
					}
					l.clients = n
					var r *orderResult
					if r, err = w.run(l); err != nil {
						continue
					}
					fmt.Fprintf(p.Log, "%s, %s, %d clients a region: %.0f txn/s, %.2f %% of attempts aborted, "+
						"mean %.1f ms, p50 %.1f, p99 %.1f; %d moved up, %d pushed, %d ends reported\n",
						how, []string{"YCSB-T", "TPC-C"}[j], n, r.rate(), r.aborted(), r.mean(), r.ms(.5), r.ms(.99),
						r.movedUp, r.pushed, r.orders)
					if how == base.ByTimestamp {
						*pairs = append(*pairs, orderPair{plain: r})
					} else {
						(*pairs)[i].relay = r
					}
				}
			}
			if err = errors.Join(err, w.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(p.Log, "crdbrelay: %.1f s, %.1f s of CPU\n", time.Since(begin).Seconds(), (rig.CPUTime() - cpu).Seconds())
	return errors.Join(emitOrdered(p, "crdbrelay/10", sweep, ys, .902), emitOrdered(p, "crdbrelay/11", sweep, ts, .97))
}

// emitOrdered emits the points of a sweep. paper is the paper's ratio of peak throughputs.
func emitOrdered(p rig.Params, figure string, sweep []int, pairs []orderPair, paper float64) error {
	line := func(x any, metric, unit, better string, of func(*orderResult) float64, pair orderPair, paper *float64) error {
		return p.Emit(rig.Line{Figure: figure, Series: "CRDB-Relay/CRDB", X: x, Metric: metric, Unit: unit, Better: better,
			Value: of(pair.relay), Baseline: rig.Float(of(pair.plain)), Paper: paper})
	}
	var peak orderPair
	for i, pair := range pairs {
		x := sweep[i]
		if err := errors.Join(line(x, "throughput", "txn/s", rig.Higher, (*orderResult).rate, pair, nil),
			line(x, "mean latency", "ms", rig.Lower, func(r *orderResult) float64 { return r.mean() }, pair, nil),
			line(x, "p99 latency", "ms", rig.Lower, func(r *orderResult) float64 { return r.ms(.99) }, pair, nil),
			line(x, "aborted attempts", "%", rig.Lower, func(r *orderResult) float64 { return r.aborted() }, pair,
				nil)); err != nil {
			return err
		}
		if peak.plain == nil || pair.plain.rate() > peak.plain.rate() {
			peak.plain = pair.plain
		}
		if peak.relay == nil || pair.relay.rate() > peak.relay.rate() {
			peak.relay = pair.relay
		}
	}
	return line("peak", "throughput", "txn/s", rig.Higher, (*orderResult).rate, peak, &paper)
}
