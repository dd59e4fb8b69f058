package gaussdb

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/policy/home"
	"github.com/godwitdb/godwit/policy/matrix"
	"github.com/godwitdb/godwit/txn"
)

// Bench regenerates the figures of GaussDB-Global.
func Bench() rig.Bench {
	return rig.Bench{
		Name: "gaussdb", Title: "local clocks and reads from replicas, beside a central timestamp oracle and reads at the owners",
		Figures: []string{"gaussdb/6a", "gaussdb/6b", "gaussdb/6c", "gaussdb/6d", "gaussdb/staleness", "gaussdb/bytes"},
		Run:     runGaussDB,
	}
}

// gaussdb is one run of the benchmark: two clusters, of which one works at a time. Both get the
// same network, which changes between figures.
type gaussdb struct {
	rig.Params
	matrix      *matrix.Matrix
	gtm, gclock *timed
	rows, async *rig.Mall // of synchronous and of asynchronous shards
	run         time.Duration
	lines       []rig.Line
}

// timed is a cluster in one clock mode.
type timed struct {
	*rig.Cluster
	mu    sync.Mutex
	links []wan.Transport
}

// The oracle is the leader of the meta group, which is in the first region while that is alive. In
// the matrix of the three cities the first has the lowest mean latency to the others, as in the
// paper.
const oracleRegion = 0

// rack is the round trip between the machines of the One-Region cluster.
const rack = 100 * time.Microsecond

// cityBits is the bandwidth between two cities in bit/s. The paper only says that it is
// considerably lower than inside a region.
const cityBits = 100e6

func runGaussDB(ctx context.Context, p rig.Params) (err error) {
	b := &gaussdb{Params: p, run: rig.Pick(p, 600*time.Millisecond, 1200*time.Millisecond)}
	if b.matrix, err = matrix.Open(matrix.ThreeCity); err != nil {
		return err
	}
	few, many := 4, rig.Pick(p, 16, 64)
	b.rows = rig.NewMall(1, many)
	defer func() {
		for _, c := range b.clusters() {
			err = errors.Join(err, c.Close())
		}
	}()
	// The paper's baseline reads at the owners.
	atOwners := func(tc *txn.Config) { tc.Reads.OwnersOnly = true }
	if b.gtm, err = b.open(ctx, "gtm", clock.WantGTM, clock.GTM, atOwners); err != nil {
		return err
	}
	if b.gclock, err = b.open(ctx, "gclock", clock.WantGClock, clock.GClock, func(*txn.Config) {}); err != nil {
		return err
	}
	if err := b.fill(ctx, b.rows); err != nil {
		return err
	}
	type phase struct {
		name string
		run  func(context.Context) error
	}
	phases := []phase{
		{"6c, 6d: reads", func(ctx context.Context) error { return b.reads(ctx, few, many) }},
		{"staleness", func(ctx context.Context) error { return b.staleness(ctx, few) }},
		{"6a: three cities, synchronous", func(ctx context.Context) error { return b.cities(ctx, b.rows, few, many) }},
		// The consistency point covers asynchronous shards too, so they are made after the reads
		// are measured.
		{"asynchronous tables", func(ctx context.Context) error { return b.enableAsync(ctx, many) }},
		{"6b: added delay", func(ctx context.Context) error { return b.delays(ctx, few, many) }},
	}
	if !p.Quick {
		phases = append(phases, phase{"6a: three cities, asynchronous",
			func(ctx context.Context) error { return b.cities(ctx, b.async, few, many) }})
	}
	for _, f := range phases {
		begin, cpu := time.Now(), rig.CPUTime()
		if err := f.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		wall := time.Since(begin)
		fmt.Fprintf(p.Log, "%s: %.1f s, %.2f cores busy\n", f.name, wall.Seconds(), (rig.CPUTime()-cpu).Seconds()/wall.Seconds())
		if err := b.flush(); err != nil {
			return err
		}
	}
	return nil
}

func (b *gaussdb) clusters() (cs []*timed) {
	for _, c := range []*timed{b.gtm, b.gclock} {
		if c != nil {
			cs = append(cs, c)
		}
	}
	return cs
}

// open starts a cluster and waits until it is in its mode.
func (b *gaussdb) open(ctx context.Context, name string, set clock.Setting, want clock.Mode,
	tune func(*txn.Config)) (*timed, error) {
	c := &timed{}
	v := rig.Variant{Name: name, Homes: home.Params{Mode: home.Never},
		Tune: func(ho *group.HostOptions, _ *owner.Config, tc *txn.Config) {
			c.mu.Lock()
			c.links = append(c.links, ho.Transport.(wan.Transport)) // a node has only this one
			c.mu.Unlock()
			tune(tc)
		}}
	g, err := rig.OpenOn(ctx, b.Dir, b.matrix, v)
	if err != nil {
		return nil, err
	}
	c.Cluster = g
	policy := clock.DefaultPolicy()
	policy.Mode = set
	for _, n := range g.Nodes() {
		n.Cluster().SetClockPolicy(policy)
	}
	err = rig.Await(ctx, func() string {
		for _, n := range g.Nodes() {
			if m := n.Cluster().Clock().Mode; m != want.String() {
				return fmt.Sprintf("node %d is in clock mode %s, not %s", n.ID(), m, want)
			}
		}
		return ""
	})
	if err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return c, nil
}

func (b *gaussdb) fill(ctx context.Context, m *rig.Mall) error {
	if err := b.place(ctx, b.near(0), 0); err != nil { // loading waits for quorums
		return err
	}
	for _, c := range b.clusters() {
		if err := m.Load(ctx, c.Cluster); err != nil {
			return err
		}
		// caches fill, stores grow to a working size
		if _, err := b.measure(ctx, c, m.Terminals(m.Per, m.Next)); err != nil {
			return err
		}
	}
	return nil
}

// near is the One-Region cluster with a delay added to each round trip.
func (b *gaussdb) near(added time.Duration) [][]time.Duration {
	out := b.matrix.OneWays()
	for i := range out {
		for j := range out[i] {
			if i != j {
				out[i][j] = (rack + added) / 2
			}
		}
	}
	return out
}

// place gives both clusters a network and waits until their nodes have measured the distances.
func (b *gaussdb) place(ctx context.Context, oneWay [][]time.Duration, bits float64) error {
	for _, c := range b.clusters() {
		for i := range oneWay {
			for j := range oneWay[i] {
				if i != j {
					c.Network().SetPath(base.RegionID(i+1), base.RegionID(j+1),
						wan.LinkSpec{Delay: oneWay[i][j], Bandwidth: bits})
				}
			}
		}
	}
	for _, c := range b.clusters() {
		if err := rig.Await(ctx, func() string {
			for i, n := range c.Nodes() {
				for j, o := range c.Nodes() {
					if i == j {
						continue
					}
					want, got := oneWay[i][j]+oneWay[j][i], n.Cluster().RTT(o.ID())
					if off := (got - want).Abs(); off > time.Millisecond+want/8 {
						return fmt.Sprintf("node %d takes node %d to be %s away, not %s", n.ID(), o.ID(), got, want)
					}
				}
			}
			return ""
		}); err != nil {
			return err
		}
	}
	return nil
}

// compress sets the compression between regions.
func (c *timed) compress(x wan.Compression) {
	for _, t := range c.links {
		t.SetCompression(x)
	}
}

// wire is the number of bytes that have crossed between regions.
func (c *timed) wire() (n uint64) {
	for _, t := range c.links {
		for _, l := range t.Stats() {
			n += l.WireSent
		}
	}
	return n
}

// measured says what a cluster did in a measured time.
type measured struct {
	rig.Outcomes
	run  time.Duration
	all  int // transactions, also those that keep drops
	wire uint64
}

func (s measured) rate() float64 { return s.Outcomes.Rate(s.run) }

// measure has clients work, and returns what they did after the warm-up.
func (b *gaussdb) measure(ctx context.Context, c *timed, clients []*rig.Client) (measured, error) {
	return work(ctx, c, clients, rig.Pick(b.Params, 300*time.Millisecond, 500*time.Millisecond), b.run)
}

// writers is a load of terminals that write.
type writers struct {
	c    *timed
	pack wan.Compression
	rows *rig.Mall
	per  int
	keep func(*rig.Outcome) bool // selects the transactions that count
}

// writes measures each load in turn, several times, and returns the median of each: throughput
// depends on the disk, which other programs may use.
func (b *gaussdb) writes(ctx context.Context, all []writers) ([]measured, error) {
	times := rig.Pick(b.Params, 1, 3)
	got := make([][]measured, len(all))
	for range times {
		for i, w := range all {
			w.c.compress(w.pack)
			s, err := work(ctx, w.c, w.rows.Terminals(w.per, w.rows.Next), 300*time.Millisecond, 600*time.Millisecond)
			w.c.compress(wan.Off)
			if err != nil {
				return nil, err
			}
			s.all = len(s.Outcomes)
			s.Outcomes = s.Where(w.keep)
			got[i] = append(got[i], s)
		}
	}
	out := make([]measured, len(all))
	for i := range got {
		slices.SortFunc(got[i], func(x, y measured) int { return cmp.Compare(x.rate(), y.rate()) })
		out[i] = got[i][times/2]
	}
	return out, nil
}

func work(ctx context.Context, c *timed, clients []*rig.Client, warm, run time.Duration) (measured, error) {
	s := c.Work(ctx, clients)
	wait := rig.Pause(ctx, warm)
	from, bytes := time.Since(s.Began), c.wire()
	wait = errors.Join(wait, rig.Pause(ctx, run))
	to := time.Since(s.Began)
	x := measured{run: to - from, wire: c.wire() - bytes}
	all, err := s.End()
	x.Outcomes = all.Between(from, to)
	return x, errors.Join(wait, err)
}

// emit keeps a line until the figures that are measured together are complete.
func (b *gaussdb) emit(figure, series string, x any, metric, unit, better string, value float64, baseline, paper *float64) {
	b.lines = append(b.lines, rig.Line{Figure: "gaussdb/" + figure, Series: series, X: x, Metric: metric, Unit: unit,
		Better: better, Value: value, Baseline: baseline, Paper: paper})
}

func (b *gaussdb) flush() error {
	slices.SortStableFunc(b.lines, func(x, y rig.Line) int { return strings.Compare(x.Figure, y.Figure) })
	for _, l := range b.lines {
		if err := b.Emit(l); err != nil {
			return err
		}
	}
	b.lines = nil
	return nil
}

// loads lists the numbers of terminals a region, fewer in a quick run.
func (b *gaussdb) loads(few, many int) []int {
	if b.Quick {
		return []int{few}
	}
	return []int{few, many}
}

func terminals(what string, n int) string { return fmt.Sprintf("%s, %d terminals a region", what, n) }

// reads measures Figures 6c and 6d: TPC-C's read-only transactions, half of which read two regions,
// and point reads, two thirds of which are remote.
func (b *gaussdb) reads(ctx context.Context, few, many int) error {
	figures := []struct {
		name  string
		next  func(int) func(*rand.Rand) rig.Job
		paper float64
	}{{"6c", b.rows.ReadOnly, 14}, {"6d", b.rows.Point, 8.9}}
	added := rig.Pick(b.Params, []int{0, 100}, []int{0, 25, 100})
	for _, d := range added {
		if err := b.place(ctx, b.near(time.Duration(d)*time.Millisecond), 0); err != nil {
			return err
		}
		for _, per := range b.loads(few, many) {
			for _, f := range figures {
				owners, err := b.measure(ctx, b.gtm, b.rows.Terminals(per, f.next))
				if err != nil {
					return err
				}
				for _, stale := range []bool{true, false} {
					b.gclock.Stale = stale
					s, err := b.measure(ctx, b.gclock, b.rows.Terminals(per, f.next))
					b.gclock.Stale = false
					if err != nil {
						return err
					}
					series, paper := "strong reads/owners and GTM", (*float64)(nil)
					if stale {
						series = "replicas/owners and GTM"
						if d == added[len(added)-1] {
							paper = rig.Float(f.paper) // the paper says "up to"
						}
					}
					series = terminals(series, per)
					b.emit(f.name, series, d, "throughput", "txn/s", rig.Higher, s.rate(), rig.Float(owners.rate()), paper)
					b.emit(f.name, series, d, "mean latency", "ms", rig.Lower, s.Mean(), rig.Float(owners.Mean()), nil)
					b.emit(f.name, series, d, "mean round trips", "RTT", rig.Lower, s.MeanTrips(),
						rig.Float(owners.MeanTrips()), nil)
				}
			}
		}
	}
	return nil
}

// heartbeat is the pause between closed timestamps sent to nodes that wait for them.
const heartbeat = 10 * time.Millisecond

// staleness measures how old the state is that local reads see while all regions write.
func (b *gaussdb) staleness(ctx context.Context, per int) error {
	type place struct {
		name   string
		oneWay [][]time.Duration
	}
	cities, far := place{"three cities", b.matrix.OneWays()}, place{"100 ms", b.near(100 * time.Millisecond)}
	for _, at := range rig.Pick(b.Params, []place{cities}, []place{cities, far}) {
		if err := b.place(ctx, at.oneWay, 0); err != nil {
			return err
		}
		s := b.gclock.Work(ctx, b.rows.Terminals(per, b.rows.Next))
		// Meanwhile owners learn how long their commits take.
		wait := rig.Pause(ctx, rig.Pick(b.Params, 500*time.Millisecond, 2*time.Second))
		ages := make([]Staleness, rig.MallRegions)
		strong := make([]rig.Outcomes, rig.MallRegions)
		err := rig.Each(rig.MallRegions, func(region int) (err error) {
			ages[region], strong[region], err = b.watch(ctx, region)
			return err
		})
		_, failed := s.End()
		if err := errors.Join(wait, err, failed); err != nil {
			return err
		}
		for region := range rig.MallRegions {
			far := slices.Max(at.oneWay[region])
			x, a, st := fmt.Sprintf("%s, %s", at.name, b.matrix.Names[region]), ages[region], strong[region]
			if a.Reads == 0 || len(st) == 0 {
				return fmt.Errorf("no read in region %d was made at the consistency point", region+1)
			}
			trips := func(d time.Duration) float64 { return float64(d) / float64(far) }
			goal := fmt.Sprintf("staleness (goal %.2f: 1 and a heartbeat)", 1+trips(heartbeat))
			b.emit("staleness", "reads at the consistency point", x, "median "+goal, "one-way delays", rig.Lower,
				trips(a.Median), nil, nil)
			b.emit("staleness", "reads at the consistency point", x, "p99 "+goal, "one-way delays", rig.Lower,
				trips(a.P99), nil, nil)
			b.emit("staleness", "strong reads of all regions", x, "median latency", "one-way delays", rig.Lower,
				st.MS(.5)/1e3/far.Seconds(), nil, nil)
			b.emit("staleness", "strong reads of all regions", x, "mean round trips", "RTT", rig.Lower, st.MeanTrips(), nil, nil)
		}
	}
	return nil
}

// watch repeats two kinds of reads in a region: at its consistency point, and a strong read of a
// row of each region.
func (b *gaussdb) watch(ctx context.Context, region int) (s Staleness, strong rig.Outcomes, err error) {
	r := rand.New(rand.NewPCG(uint64(region), 3))
	stop, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer cancel()
		s = MeasureStaleness(ctx, b.gclock.Nodes()[region].Cluster(), 2*b.run)
	})
	defer wg.Wait()
	for stop.Err() == nil {
		c := rig.NewClient(region, 0, func(r *rand.Rand) rig.Job {
			o := rig.Op{Kind: rig.OpRead}
			for w := range rig.MallRegions {
				o.Keys = append(o.Keys, b.rows.Key(rig.MallStock, w*b.rows.Per, int64(r.IntN(rig.MallItems))))
			}
			return rig.Job{o}
		})
		if err := (&rig.Shift{Cluster: b.gclock.Cluster, Began: time.Now()}).One(ctx, c, r); err != nil {
			return s, nil, err
		}
		strong = append(strong, c.Done...)
	}
	return s, strong, nil
}

// cities measures Figure 6a: the full TPC-C, all of it local, in three cities beside one region.
func (b *gaussdb) cities(ctx context.Context, m *rig.Mall, few, many int) error {
	variants := []struct {
		name  string
		c     *timed
		pack  wan.Compression
		paper *float64
	}{{"gtm", b.gtm, wan.Off, rig.Float(1. / 3)}, {"gclock", b.gclock, wan.Off, nil}, {"gclock, lz4", b.gclock,
		wan.LZ4, rig.Float(.91)}}
	kind := "synchronous"
	if m == b.async {
		kind = "asynchronous"
		for i := range variants {
			variants[i].paper = nil
		}
	}
	loads := b.loads(many, many)[:1]
	if !b.Quick {
		loads = []int{few, many}
	}
	got := map[string][2]measured{}
	for at, oneWay := range [][][]time.Duration{b.near(0), b.matrix.OneWays()} {
		bits := 0.0
		if at == 1 {
			bits = cityBits
		}
		if err := b.place(ctx, oneWay, bits); err != nil {
			return err
		}
		for _, per := range loads {
			var ws []writers
			for _, v := range variants {
				ws = append(ws, writers{v.c, v.pack, m, per, func(*rig.Outcome) bool { return true }})
			}
			done, err := b.writes(ctx, ws)
			if err != nil {
				return err
			}
			for i, v := range variants {
				name := terminals(v.name, per)
				both := got[name]
				both[at] = done[i]
				got[name] = both
			}
		}
	}
	for _, per := range loads {
		for _, v := range variants {
			s := got[terminals(v.name, per)]
			b.emit("6a", terminals(v.name+", "+kind, per), "three cities/one region", "throughput", "txn/s",
				rig.Higher, s[1].rate(), rig.Float(s[0].rate()), v.paper)
			b.emit("6a", terminals(v.name+", "+kind, per), "three cities/one region", "mean latency", "ms", rig.Lower,
				s[1].Mean(), rig.Float(s[0].Mean()), nil)
		}
		base, plain, lz4 := got[terminals("gtm", per)], got[terminals("gclock", per)], got[terminals("gclock, lz4", per)]
		each := func(s measured) float64 { return float64(s.wire) / float64(max(1, s.all)) }
		one := rig.Float(1)
		if m == b.async {
			one = nil
		}
		b.emit("6a", terminals("gclock/gtm, "+kind, per), "one region", "throughput", "txn/s", rig.Higher,
			plain[0].rate(), rig.Float(base[0].rate()), one)
		b.emit("6a", terminals("gclock, lz4/gtm, "+kind, per), "three cities", "throughput", "txn/s", rig.Higher,
			lz4[1].rate(), rig.Float(base[1].rate()), nil)
		b.emit("bytes", terminals("lz4/off, "+kind, per), "three cities", "sent between regions for a transaction",
			"bytes", rig.Lower, each(lz4[1]), rig.Float(each(plain[1])), nil)
	}
	return nil
}

// enableAsync makes asynchronous shards, whose commits wait for no other region, and fills one.
func (b *gaussdb) enableAsync(ctx context.Context, many int) error {
	for _, c := range b.clusters() {
		if err := c.Nodes()[0].Cluster().EnableAsync(ctx); err != nil {
			return err
		}
	}
	b.async = rig.NewMall(base.ShardID(b.gclock.DBs[0].Topology().Shards+1), many)
	return b.fill(ctx, b.async)
}

// delays measures Figure 6b: the regions without the oracle, as delay is added to the network of
// one region. Commits are asynchronous, so that they could wait for timestamps only.
func (b *gaussdb) delays(ctx context.Context, few, many int) error {
	added := rig.Pick(b.Params, []int{0, 100}, []int{0, 10, 25, 50, 100})
	type point struct {
		per  int
		name string
	}
	first := map[point]float64{}
	for _, d := range added {
		if err := b.place(ctx, b.near(time.Duration(d)*time.Millisecond), 0); err != nil {
			return err
		}
		for _, per := range b.loads(few, many) {
			elsewhere := func(x *rig.Outcome) bool { return x.Region != oracleRegion }
			done, err := b.writes(ctx, []writers{{b.gtm, wan.Off, b.async, per, elsewhere},
				{b.gclock, wan.Off, b.async, per, elsewhere}})
			if err != nil {
				return err
			}
			for i, name := range []string{"gtm", "gclock"} {
				s, p := done[i], point{per, name}
				if d == 0 {
					first[p] = s.rate()
					continue
				}
				paper := rig.Float(1)
				if name == "gtm" {
					if paper = nil; d == 100 {
						paper = rig.Float(.1)
					}
				}
				b.emit("6b", terminals(name+", delay added/none", per), d, "throughput without the oracle's region",
					"txn/s", rig.Higher, s.rate(), rig.Float(first[p]), paper)
				b.emit("6b", terminals(name, per), d, "mean latency", "ms", rig.Lower, s.Mean(), nil, nil)
			}
			var paper *float64
			if d == 100 {
				paper = rig.Float(10) // the paper: 90 % less with the oracle, no change with clocks
			}
			b.emit("6b", terminals("gclock/gtm", per), d, "throughput without the oracle's region", "txn/s",
				rig.Higher, done[1].rate(), rig.Float(done[0].rate()), paper)
		}
	}
	return nil
}
