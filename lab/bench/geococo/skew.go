package geococo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/filter"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/policy/plan"
)

// Figure 18: YCSB on 15 nodes in five regions whose uplinks carry 20 Mbit/s.
const (
	skewNodes  = 15
	skewPer    = 3   // nodes of a region
	skewTxns   = 100 // of a node and epoch
	skewOps    = 10  // of a transaction
	skewRows   = 100_000
	skewUplink = 20e6 // bit/s
	// An epoch lasts at least this long.
	skewEpoch = 10 * time.Millisecond
	// A new plan is made after so many epochs.
	skewPlan = 10
)

// skewPaper has the paper's ratios of throughput, by the share of reads and then by the skew.
var skewPaper = map[float64][]float64{0.95: {1.127, 1.105, 1.109, 1.079, 27.3 / 26.3},
	0.5: {1.176, 1.10, 1.087, 1.072, 14.2 / 13.9}}

// skew computes Figure 18. Each epoch exchanges the encoded batches, and commits what rule EPO-1
// lets commit. The time of an exchange is computed, not measured.
func (b *geococo) skew(ctx context.Context) (out []rig.Line, err error) {
	m, err := matrix.Default(skewNodes / skewPer)
	if err != nil {
		return nil, err
	}
	for _, reads := range []float64{0.95, 0.5} {
		for k, theta := range []float64{0.5, 0.6, 0.7, 0.8, 0.9} {
			c := &skewRun{m: m, reads: reads, rnd: rand.New(rand.NewPCG(uint64(k), 18)), zipf: rig.Zipf(skewRows, theta)}
			epochs := b.runs(4, 30)
			for e := range epochs {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				if err := c.epoch(e); err != nil {
					return nil, fmt.Errorf("theta %v: %w", theta, err)
				}
			}
			mix := fmt.Sprintf("%g/%g", 100*reads, 100-100*reads)
			counted := float64(epochs - 1)
			out = append(out,
				rig.Line{Figure: "18", Series: mix + " planned/flat", X: theta, Metric: "throughput", Unit: "txn/s",
					Value: c.committed / c.ourTime, Baseline: rig.Float(c.committed / c.flatTime),
					Paper: rig.Float(skewPaper[reads][k]), Better: rig.Higher},
				rig.Line{Figure: "18", Series: mix + " planned/flat", X: theta, Metric: "WAN bytes an epoch",
					Unit: "bytes", Value: c.sentOurs / counted, Baseline: rig.Float(c.sentFlat / counted),
					Better: rig.Lower})
		}
	}
	return out, nil
}

// skewRun is one point of the figure: a mix and a skew.
type skewRun struct {
	m     *matrix.Matrix
	reads float64 // share of the operations that read
	rnd   *rand.Rand
	zipf  func(*rand.Rand) int
	plan  *plan.Plan // in force; nil in the first epoch, which counts for nothing

	// Sums over the epochs that count: transactions, seconds, and bytes between regions.
	committed, flatTime, ourTime, sentFlat, sentOurs float64
}

// facts are the inputs of a planner that has measured everything.
func (c *skewRun) facts() *plan.Facts {
	f := &plan.Facts{}
	for i := range skewNodes {
		row := make([]time.Duration, skewNodes)
		for j := range row {
			switch {
			case i/skewPer != j/skewPer:
				row[j] = c.m.OneWay(i/skewPer, j/skewPer)
			case i != j:
				row[j] = insideRegion
			}
		}
		f.Latency, f.Region, f.Uplink = append(f.Latency, row), append(f.Region, i/skewPer), append(f.Uplink, skewUplink)
	}
	return f
}

// epoch exchanges the batches of one epoch twice: flat, and as planned.
func (c *skewRun) epoch(e int) (err error) {
	batches := c.draw(e)
	f := c.facts()
	for i := range batches {
		f.Batch = append(f.Batch, len(filter.Encode(&batches[i])))
	}
	kept := slices.Clone(batches)
	if c.plan != nil { // the plan in force was made from the previous epoch
		f.Keep = filterGroups(c.plan, f.Batch, kept)
	}
	want := filter.Outcome(filter.Rule{}, batches)
	if got := filter.Outcome(filter.Rule{}, kept); !slices.Equal(got.Committed, want.Committed) {
		return errors.New("the filter has changed an outcome")
	}
	if c.plan != nil {
		flat := plan.Evaluate(f, plan.Params{NoRelays: true}, plan.FlatGroups(skewNodes))
		c.committed += float64(len(want.Committed))
		c.flatTime += max(flat.Makespan, skewEpoch).Seconds()
		c.ourTime += max(plan.Rerun(f, c.plan), skewEpoch).Seconds()
		c.sentFlat += flat.Cost.WANBytes
		c.sentOurs += plan.Evaluate(f, plan.Params{NoRelays: true}, c.plan.Groups).Cost.WANBytes
	}
	if c.plan == nil || e%skewPlan == 0 {
		c.plan, err = plan.Make(f, plan.Params{MaxSteps: 3000})
	}
	return err
}

// draw makes the batches of all nodes. They hold updates only: under snapshot isolation the reading
// node validates its own reads.
func (c *skewRun) draw(e int) []filter.Batch {
	batches := make([]filter.Batch, skewNodes)
	for i := range batches {
		batches[i].Origin = i
		for t := range skewTxns {
			x := filter.Txn{ID: base.MakeTxnID(base.Timestamp(e+1), base.NodeID(i+1), uint32(t)), Priority: c.rnd.Uint64()}
			for range skewOps {
				key := fmt.Sprintf("user%012d", c.zipf(c.rnd))
				if c.rnd.Float64() < c.reads || slices.ContainsFunc(x.Writes, func(w filter.Write) bool { return w.Key == key }) {
					continue
				}
				value := make([]byte, 100)
				for v := range value {
					value[v] = byte(c.rnd.Uint32())
				}
				x.Writes = append(x.Writes, filter.Write{Key: key, Value: value})
			}
			batches[i].Txns = append(batches[i].Txns, x)
		}
	}
	return batches
}

// filterGroups has the aggregator of each group filter the batches of its members. It returns the
// share of the bytes that is left.
func filterGroups(p *plan.Plan, size []int, batches []filter.Batch) float64 {
	var before, after float64
	for _, g := range p.Groups {
		var group []filter.Batch
		for _, i := range g.Members {
			before += float64(size[i])
			group = append(group, batches[i])
		}
		if len(g.Members) > 1 {
			filter.Group(filter.Rule{}, group)
		}
		for at, i := range g.Members {
			batches[i] = group[at]
			after += float64(len(filter.Encode(&batches[i])))
		}
	}
	return min(1, after/before)
}
