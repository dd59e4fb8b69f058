package polybase

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
)

// YCSB+T of section 6.4: ten interactive updates a transaction, in a range of the client's own. A
// transaction that crosses regions makes two of them in a range that all clients share.
const (
	ycsbTable   = 2
	ycsbUpdates = 10
	ycsbShared  = 2
	ycsbOwn     = 24  // rows of each client's own range
	sharedRows  = 100 // in each region
)

// The warm-up updates each range as a whole so many times, so that the policy sees it used.
const warmRounds = 6

func ycsb(c, cross int) func(r *rand.Rand) rig.Job {
	return func(r *rand.Rand) rig.Job {
		var j rig.Job
		own := r.Perm(ycsbOwn)
		crosses := r.IntN(100) < cross
		for i := range ycsbUpdates {
			k := rig.Key(ycsbTable, 1+c, own[i])
			if crosses && i < ycsbShared {
				k = rig.Key(ycsbTable, 0, r.IntN(3*sharedRows))
			}
			j = append(j, rig.Op{Kind: rig.OpUpdate, Keys: []base.Key{k}})
		}
		return j
	}
}

// asStatement makes all updates of a transaction in one statement.
func asStatement(next func(r *rand.Rand) rig.Job) func(r *rand.Rand) rig.Job {
	return func(r *rand.Rand) rig.Job {
		all := rig.Op{Kind: rig.OpUpdate}
		for _, o := range next(r) {
			all.Keys = append(all.Keys, o.Keys...)
		}
		slices.SortFunc(all.Keys, base.Key.Compare)
		all.Keys = slices.CompactFunc(all.Keys, func(a, b base.Key) bool { return a.Compare(b) == 0 })
		return rig.Job{all}
	}
}

// TPC-C's New-Order on keys, the bulk of the paper's workload: ten districts a warehouse, five
// lines an order.
const (
	tpccTable     = 3 // the first of several tables
	tpccWare      = 2 // warehouses a region
	tpccDistricts = 10
	tpccCustomers = 10 // a district
	tpccStock     = 60 // a warehouse
	tpccLines     = 5

	stockTable = tpccTable + 1
	orderTable = tpccTable + 2
)

func newOrder(region, cross int, orders *atomic.Int64) func(r *rand.Rand) rig.Job {
	return func(r *rand.Rand) rig.Job {
		w := region*tpccWare + r.IntN(tpccWare)
		d, c := r.IntN(tpccDistricts), r.IntN(tpccCustomers)
		j := rig.Job{
			{Kind: rig.OpRead, Keys: []base.Key{rig.Key(tpccTable, w, 0), rig.Key(tpccTable, w, 100+d*tpccCustomers+c)}},
			{Kind: rig.OpUpdate, Keys: rig.Keys(tpccTable, w, 1+d, 1)},
		}
		remote := -1
		if r.IntN(100) < cross {
			remote = r.IntN(tpccLines)
		}
		for i, item := range r.Perm(tpccStock)[:tpccLines] {
			from := w
			if i == remote {
				from = (region+1+r.IntN(2))%3*tpccWare + r.IntN(tpccWare)
			}
			j = append(j, rig.Op{Kind: rig.OpUpdate, Keys: []base.Key{rig.Key(stockTable, from, item)}})
		}
		n := int(orders.Add(1))
		order := rig.Op{Kind: rig.OpInsert}
		for i := range 2 + tpccLines { // order, new order, lines
			order.Keys = append(order.Keys, rig.Key(orderTable, w, n*16+i))
		}
		return append(j, order)
	}
}

// loadMarks loads both workloads. A third of the ranges are made in the region that uses them.
func (g *sited) loadMarks(ctx context.Context, per int) error {
	var errs []error
	for r := range 3 {
		errs = append(errs, g.load(ctx, r, rig.Keys(ycsbTable, 0, r*sharedRows, sharedRows)))
	}
	for c := range 3 * per {
		errs = append(errs, g.load(ctx, c%3, rig.Keys(ycsbTable, 1+c, 0, ycsbOwn)))
	}
	for w := range 3 * tpccWare {
		errs = append(errs, g.load(ctx, w%3, rig.Keys(tpccTable, w, 0, 100+tpccDistricts*tpccCustomers)),
			g.load(ctx, w%3, rig.Keys(stockTable, w, 0, tpccStock)),
			g.load(ctx, w%3, rig.Keys(orderTable, w, 0, 1)))
	}
	return errors.Join(errs...)
}

// warmMarks updates every range from the region that uses it.
func (g *sited) warmMarks(ctx context.Context, per int) error {
	use := func(region int, ks []base.Key) error {
		for range warmRounds {
			if err := g.Run(ctx, region, rig.Job{{Kind: rig.OpUpdate, Keys: ks}}, nil); err != nil {
				return err
			}
		}
		return nil
	}
	n := 3 * per
	return rig.Each(n+3*3*tpccWare, func(i int) error {
		if i < n {
			return use(i/per, rig.Keys(ycsbTable, 1+i, 0, ycsbOwn))
		}
		w := (i - n) / 3
		switch (i - n) % 3 {
		case 0:
			return use(w/tpccWare, rig.Keys(tpccTable, w, 0, 100+tpccDistricts*tpccCustomers))
		case 1:
			return use(w/tpccWare, rig.Keys(stockTable, w, 0, tpccStock))
		}
		return use(w/tpccWare, rig.Keys(orderTable, w, 0, 1))
	})
}

// remote measures Figures 14, 15 and 16: transactions that cross regions at random.
func (b *polybase) remote(ctx context.Context) (lines []rig.Line, err error) {
	gs, shut, err := b.open(ctx, intercontinental, policy, fixed, dynamas)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	const per = 3
	if err := rig.Each(len(gs), func(i int) error {
		if err := gs[i].loadMarks(ctx, per); err != nil {
			return err
		}
		if i == 1 {
			return nil // homes are fixed
		}
		return gs[i].warmMarks(ctx, per)
	}); err != nil {
		return nil, err
	}
	m := &marks{polybase: b, gs: gs, per: per, settle: rig.Pick(b.Params, 500*time.Millisecond, 3*time.Second),
		run: rig.Pick(b.Params, 2500*time.Millisecond, 10*time.Second)}
	if b.Wants("polybase/14") || b.Wants("polybase/15") {
		if lines, err = m.updates(ctx); err != nil {
			return nil, err
		}
	}
	if b.Wants("polybase/16") {
		more, err := m.orders(ctx)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// marks measures both workloads on the systems policy, fixed and dynamas.
type marks struct {
	*polybase
	gs          []*sited
	per         int // clients of a region
	settle, run time.Duration
}

// crossing holds the shares of transactions that cross regions, in percent.
var crossing = []int{0, 10, 50}

// measure has the clients work on some of the systems at once.
func (m *marks) measure(ctx context.Context, gs []*sited,
	next func(c, region int) func(*rand.Rand) rig.Job) ([]rig.Outcomes, error) {
	s := start(ctx, gs, func(int) (cs []*rig.Client) {
		for c := range 3 * m.per {
			cs = append(cs, rig.NewClient(c/m.per, 0, next(c, c/m.per)))
		}
		return cs
	})
	wait := rig.Pause(ctx, m.settle+m.run)
	all, err := s.end()
	for i := range all {
		all[i] = all[i].Between(m.settle, m.settle+m.run)
	}
	return all, errors.Join(wait, err)
}

// beside compares a system with the others in throughput and tail latency. paper holds the paper's
// ratios to DynaMast.
func (m *marks) beside(figure, x string, all []rig.Outcomes, paper [2]*float64) (lines []rig.Line) {
	for i, v := range []system{fixed, dynamas} {
		var p [2]*float64
		if i == 1 {
			p = paper
		}
		lines = append(lines,
			line(figure, "godwit/"+v.Name, x, "throughput", "txn/s", rig.Higher, all[0].Rate(m.run),
				rig.Float(all[i+1].Rate(m.run)), p[0]),
			line(figure, "godwit/"+v.Name, x, "p95 latency", "ms", rig.Lower, all[0].MS(.95), rig.Float(all[i+1].MS(.95)), p[1]))
	}
	return lines
}

// updates measures Figures 14 and 15, on YCSB+T.
func (m *marks) updates(ctx context.Context) (lines []rig.Line, err error) {
	var late []rig.Line
	// The paper gives ranges over all its settings, 1.2 to 1.7x in throughput and 1.1 to 2.0x in
	// latency, and says that the distance to DynaMast shrinks as more transactions cross.
	p50 := [2]*float64{rig.Float(1.2), rig.Float(1 / 1.1)}
	paper := map[int][2]*float64{0: {rig.Float(1.7), rig.Float(1 / 2.0)}, 50: p50}
	for _, cross := range crossing {
		all, err := m.measure(ctx, m.gs, func(c, _ int) func(*rand.Rand) rig.Job { return ycsb(c, cross) })
		if err != nil {
			return nil, err
		}
		x := fmt.Sprintf("%d %%", cross)
		lines = append(lines, m.beside("14", x, all, paper[cross])...)
		if cross == 10 {
			late = trips(all[0], all[2])
		}
		if cross == 50 {
			// DynaMast has to know a transaction's writes before it begins. Those of a single
			// statement are known.
			known, err := m.measure(ctx, m.gs[:1], func(c, _ int) func(*rand.Rand) rig.Job { return asStatement(ycsb(c, cross)) })
			if err != nil {
				return nil, err
			}
			lines = append(lines,
				line("14", "godwit, one statement/dynamast", x, "throughput", "txn/s", rig.Higher,
					known[0].Rate(m.run), rig.Float(all[2].Rate(m.run)), p50[0]),
				line("14", "godwit, one statement/dynamast", x, "p95 latency", "ms", rig.Lower, known[0].MS(.95),
					rig.Float(all[2].MS(.95)), p50[1]))
		}
	}
	return append(lines, late...), nil
}

// orders measures Figure 16, on New-Order.
func (m *marks) orders(ctx context.Context) (lines []rig.Line, err error) {
	var orders atomic.Int64
	papers := map[int]*float64{0: rig.Float(1.61), 10: rig.Float(1.64), 50: rig.Float(1.28)}
	for _, cross := range crossing {
		all, err := m.measure(ctx, m.gs, func(_, region int) func(*rand.Rand) rig.Job { return newOrder(region, cross, &orders) })
		if err != nil {
			return nil, err
		}
		lines = append(lines, m.beside("16", fmt.Sprintf("%d %%", cross), all, [2]*float64{papers[cross]})...)
	}
	return lines, nil
}

// trips counts Figure 15: how many transactions pay how many round trips besides that of the log.
func trips(godwit, dynamast rig.Outcomes) (lines []rig.Line) {
	for _, x := range []struct {
		name   string
		lo, hi float64
		better string
	}{{"0", -10, 0.25, rig.Higher}, {"1", 0.25, 1.25, rig.Lower}, {"2", 1.25, 2.25, rig.Lower}, {"3 and more", 2.25,
		1e9, rig.Lower}} {
		in := func(o *rig.Outcome) bool { return o.Coordination >= x.lo && o.Coordination < x.hi }
		a, d := 100*godwit.Share(in), 100*dynamast.Share(in)
		var paper *float64
		if x.name == "0" {
			paper = rig.Float(3) // 90 % to 30 %: it says that DynaMast's are two thirds of the others
		}
		lines = append(lines, line("15", "godwit/dynamast", x.name,
			"share of transactions with so many coordination round trips", "%", x.better, a, rig.Float(d), paper))
	}
	return lines
}

const (
	scanTable = 7
	scanRows  = 5000
)

// scans measures what rows of other regions, and writes to them, add to long scans.
func (b *polybase) scans(ctx context.Context) (lines []rig.Line, err error) {
	gs, shut, err := b.open(ctx, european, policy)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	g := gs[0]
	// Range 0 is at home in R1; of range 1 three rows of ten are in R2 or R3.
	if err := g.load(ctx, 0, rig.Keys(scanTable, 0, 0, scanRows)); err != nil {
		return nil, err
	}
	if err := g.load(ctx, 0, rig.Keys(scanTable, 1, 0, scanRows)); err != nil {
		return nil, err
	}
	var foreign [3][]base.Key
	for n := range scanRows {
		if m := n % 10; m >= 7 {
			foreign[1+n/10%2] = append(foreign[1+n/10%2], rig.Key(scanTable, 1, n))
		}
	}
	for r := 1; r < 3; r++ {
		if err := g.take(ctx, r, foreign[r]); err != nil {
			return nil, err
		}
	}
	run := rig.Pick(b.Params, 2*time.Second, 8*time.Second)
	scan := func(a int, ago time.Duration, writers bool) (rig.Outcomes, error) {
		cs := []*rig.Client{rig.NewClient(0, 0, func(*rand.Rand) rig.Job {
			return rig.Job{{Kind: rig.OpScan, Keys: []base.Key{rig.Key(scanTable, a, 0),
				rig.Key(scanTable, a, scanRows)}, Ago: ago}}
		})}
		for i := range 4 {
			if r := 1 + i%2; writers {
				cs = append(cs, rig.NewClient(r, 1, func(rnd *rand.Rand) rig.Job {
					return rig.Job{{Kind: rig.OpUpdate, Keys: []base.Key{foreign[r][rnd.IntN(len(foreign[r]))]}}}
				}))
			}
		}
		s := g.Work(ctx, cs)
		wait := rig.Pause(ctx, run)
		all, err := s.End()
		return all.Tagged(0), errors.Join(wait, err)
	}
	local, err := scan(0, 0, false)
	if err != nil {
		return nil, err
	}
	// The paper's scans read a snapshot for which every replica is complete. They wait until the
	// logs of other regions are applied, not for commits that happen there now.
	const ago = time.Second
	for _, x := range []struct {
		name  string
		ago   time.Duration
		paper *float64
	}{{"newest", 0, rig.Float(1.13)}, {"as of 1 s ago", ago, rig.Float(1.13)}} {
		mixed, err := scan(1, x.ago, true)
		if err != nil {
			return nil, err
		}
		lines = append(lines,
			line("scan", "mixed homes, with writes/local", x.name, "mean latency of 5000 rows", "ms", rig.Lower,
				mixed.Mean(), rig.Float(local.Mean()), x.paper),
			line("scan", "mixed homes, with writes", x.name, "mean round trips", "RTT", rig.Lower, mixed.MeanTrips(), nil, nil))
	}
	return lines, nil
}
