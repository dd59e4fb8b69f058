package plan

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/policy/matrix"
)

// latencies of some nodes of a matrix.
func latencies(m *matrix.Matrix, nodes []int) [][]time.Duration {
	out := make([][]time.Duration, len(nodes))
	for i, a := range nodes {
		out[i] = make([]time.Duration, len(nodes))
		for j, b := range nodes {
			if i != j {
				out[i][j] = m.OneWay(a, b)
			}
		}
	}
	return out
}

// networks are n nodes of every matrix of the data that has so many, drawn with a seed.
func networks(t testing.TB, n, draws int) map[string][][]time.Duration {
	t.Helper()
	all := map[string]*matrix.Matrix{}
	for _, name := range matrix.Builtin() {
		m, err := matrix.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		all[name] = m
	}
	series, err := matrix.Seattle()
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(series); i += 172 {
		all[fmt.Sprintf("seattle/%d", i)] = series[i]
	}
	out := map[string][][]time.Duration{}
	for name, m := range all {
		for d := range draws {
			if m.Len() < n {
				continue
			}
			rnd := rand.New(rand.NewPCG(uint64(d), uint64(n)))
			out[fmt.Sprintf("%s/%d", name, d)] = latencies(m, rnd.Perm(m.Len())[:n])
		}
	}
	return out
}

// facts draws batches, uplinks, regions and shares for a network.
func facts(rnd *rand.Rand, lat [][]time.Duration) *Facts {
	n := len(lat)
	f := &Facts{Latency: lat}
	if rnd.IntN(4) == 0 {
		return f
	}
	for range n {
		f.Batch = append(f.Batch, rnd.IntN(100_000))
		f.Uplink = append(f.Uplink, []float64{20e6, 100e6, 100e6, 0}[rnd.IntN(4)])
	}
	if rnd.IntN(2) == 0 {
		f.Keep = 0.3 + 0.7*rnd.Float64()
	}
	if rnd.IntN(3) == 0 {
		for range n {
			f.Region = append(f.Region, rnd.IntN(n/2+1))
		}
	}
	return f
}

// everyGrouping calls f with every assignment of aggregators.
func everyGrouping(n int, f func(agg []int)) {
	agg := make([]int, n)
	var heads func(i int, set []int)
	var members func(i int, set []int)
	members = func(i int, set []int) {
		if i == n {
			f(agg)
			return
		}
		if slices.Contains(set, i) {
			agg[i] = i
			members(i+1, set)
			return
		}
		for _, c := range set {
			agg[i] = c
			members(i+1, set)
		}
	}
	heads = func(i int, set []int) {
		if i == n {
			if len(set) > 0 {
				members(0, set)
			}
			return
		}
		heads(i+1, set)
		heads(i+1, append(slices.Clone(set), i))
	}
	heads(0, nil)
}

// Exhaustive search over all groupings, each evaluated by the naive twin, finds
// nothing faster, and nothing cheaper within the slack (PLAN-1, PLAN-3).
func TestOptimalAgainstExhaustiveSearch(t *testing.T) {
	draws := map[int]int{2: 2, 3: 2, 4: 2, 5: 2, 6: 1}
	if testing.Short() {
		draws[6] = 0
	}
	for n, d := range draws {
		for name, lat := range networks(t, n, d) {
			for seed := range uint64(3) {
				rnd := rand.New(rand.NewPCG(seed, uint64(n)))
				f := facts(rnd, lat)
				p := Params{NoShards: true, Slack: []float64{-1, 0, 0.2}[rnd.IntN(3)], MaxSteps: 1e6}
				got, err := Make(f, p)
				if err != nil {
					t.Fatal(err)
				}
				if err := got.Check(n); err != nil {
					t.Fatal(err)
				}
				pd := p.withDefaults()
				tw := newTwin(f, pd)
				flat := tw.round(FlatGroups(n), true)
				best := math.Inf(1)
				everyGrouping(n, func(agg []int) { best = min(best, tw.round(GroupsOf(agg), false).time) })
				best = min(best, flat.time)
				at := fmt.Sprintf("%s n=%d seed=%d", name, n, seed)
				near := func(a time.Duration, b float64) bool { return math.Abs(float64(a)-b) < 10+1e-9*b }
				if !got.Exact && got.Makespan != got.Flat {
					t.Fatalf("%s: not exact", at)
				}
				if !near(got.Fastest, best) {
					t.Fatalf("%s: fastest %v, exhaustive search finds %v", at, got.Fastest, time.Duration(best))
				}
				if !near(got.Flat, flat.time) || got.Makespan > got.Flat+10 {
					t.Fatalf("%s: makespan %v, flat %v or %v", at, got.Makespan, got.Flat, time.Duration(flat.time))
				}
				limit := min(best*(1+pd.Slack), flat.time)
				cheapest := Cost{math.Inf(1), math.MaxInt}
				everyGrouping(n, func(agg []int) {
					// Twin and model round differently; stay clear of the limit.
					if v := tw.round(GroupsOf(agg), false); v.time < limit-10 && v.cost.Less(cheapest) {
						cheapest = v.cost
					}
				})
				if cheapest.Less(got.Cost) && !near(got.Makespan, limit) {
					t.Fatalf("%s: cost %+v, exhaustive search finds %+v", at, got.Cost, cheapest)
				}
				if got.Makespan+10 < got.Bound {
					t.Fatalf("%s: makespan %v below the bound %v", at, got.Makespan, got.Bound)
				}
			}
		}
	}
}

// PLAN-1 and PLAN-2 on all matrices and at all sizes, sharded too.
func TestNeverWorseThanFlat(t *testing.T) {
	for _, n := range []int{1, 2, 5, 10, 15, 24, 40} {
		for name, lat := range networks(t, n, 2) {
			rnd := rand.New(rand.NewPCG(9, uint64(n)))
			f := facts(rnd, lat)
			got, err := Make(f, Params{MaxSteps: 300})
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Check(n); err != nil {
				t.Fatal(err)
			}
			if got.Makespan > got.Flat {
				t.Errorf("%s n=%d: %v, flat %v", name, n, got.Makespan, got.Flat)
			}
			if got.Makespan+time.Microsecond < got.Bound {
				t.Errorf("%s n=%d: %v, below the bound %v", name, n, got.Makespan, got.Bound)
			}
			p := Params{}.withDefaults()
			if v := newModel(f, p).round(got.Groups, false, false); v.worst > 2*(n-1) {
				t.Errorf("%s n=%d: a node has %d messages, flat %d", name, n, v.worst, 2*(n-1))
			}
		}
	}
}

// With several nodes in a region each aggregates a slice; that beats one
// aggregator when uplinks are the bottleneck.
func TestShardedAggregation(t *testing.T) {
	m, err := matrix.Default(5)
	if err != nil {
		t.Fatal(err)
	}
	f := &Facts{Keep: 0.7}
	for i := range 15 {
		row := make([]time.Duration, 15)
		for j := range row {
			if row[j] = m.OneWay(i/3, j/3); i/3 == j/3 && i != j {
				row[j] = 250 * time.Microsecond
			} else if i == j {
				row[j] = 0
			}
		}
		f.Latency = append(f.Latency, row)
		f.Region = append(f.Region, i/3)
		f.Batch = append(f.Batch, 100_000)
		f.Uplink = append(f.Uplink, 100e6)
	}
	one, err := Make(f, Params{NoShards: true})
	if err != nil {
		t.Fatal(err)
	}
	many, err := Make(f, Params{})
	if err != nil {
		t.Fatal(err)
	}
	if len(many.Groups) != 5 || len(many.Groups[0].Aggregators) != 3 {
		t.Fatal(many)
	}
	if many.Makespan >= one.Makespan || float64(many.Makespan) > 1.04*float64(many.Bound) {
		t.Errorf("sharded %v, one aggregator %v, flat %v, bound %v", many.Makespan, one.Makespan, many.Flat, many.Bound)
	}
	if flat := Evaluate(f, Params{NoRelays: true}, FlatGroups(15)); many.Cost.WANBytes > 0.3*flat.Cost.WANBytes {
		t.Errorf("%v WAN bytes, flat %v", many.Cost.WANBytes, flat.Cost.WANBytes)
	}
}

func TestKCenterIsWithinTwiceTheOptimum(t *testing.T) {
	for name, lat := range networks(t, 10, 2) {
		lat = ShortestPaths(lat) // the guarantee needs a metric
		for i := range lat {
			for j := range lat {
				lat[i][j] = max(lat[i][j], lat[j][i])
				lat[j][i] = lat[i][j]
			}
		}
		for k := 1; k <= 10; k++ {
			best := time.Duration(math.MaxInt64)
			for set := uint64(1); set < 1<<10; set++ {
				if count(set) != k {
					continue
				}
				var r time.Duration
				for i := range lat {
					near := time.Duration(math.MaxInt64)
					for c := range lat {
						if set>>c&1 == 1 {
							near = min(near, lat[i][c])
						}
					}
					r = max(r, near)
				}
				best = min(best, r)
			}
			agg := KCenter(lat, k)
			if got := Radius(lat, agg); got > 2*best {
				t.Errorf("%s k=%d: radius %v, optimum %v", name, k, got, best)
			}
			if got := len(GroupsOf(agg)); got != k {
				t.Errorf("%s: %d centers instead of %d", name, got, k)
			}
		}
	}
}

func TestKStar(t *testing.T) {
	// Equation 5 is where the derivative of 2N²/k + 2k² is zero: equation 4 without its term -2k.
	for _, n := range []float64{5, 10, 15, 25, 50, 1000} {
		if k := KStar(int(n)); math.Abs(4*k-2*n*n/(k*k)) > 1e-6*n {
			t.Errorf("n=%v: k* %v", n, k)
		}
	}
	if k := KStar(10); math.Round(k) != 4 {
		t.Error(k)
	}
	if k := KStar(15); math.Round(k) != 5 {
		t.Error(k)
	}
}

// The paper's formula by enumerating all sets of aggregators.
func TestPaperFormulaIsExact(t *testing.T) {
	for name, lat := range networks(t, 10, 2) {
		for _, k := range []int{0, 2, 4} {
			best := time.Duration(math.MaxInt64)
			for set := uint64(1); set < 1<<10; set++ {
				if k > 0 && count(set) != k {
					continue
				}
				var r, d time.Duration
				for i := range lat {
					near := time.Duration(math.MaxInt64)
					for c := range lat {
						if set>>c&1 == 1 {
							w := max(lat[i][c], lat[c][i])
							near = min(near, w)
							if set>>i&1 == 1 {
								d = max(d, w)
							}
						}
					}
					if set>>i&1 == 0 {
						r = max(r, near)
					}
				}
				best = min(best, r+d)
			}
			agg, got := Paper(lat, k)
			if got != best {
				t.Errorf("%s k=%d: %v, enumeration finds %v", name, k, got, best)
			}
			var d time.Duration
			for i, a := range agg {
				for j, b := range agg {
					if a == i && b == j {
						d = max(d, lat[i][j])
					}
				}
			}
			if r := Radius(lat, agg); r+d > got {
				t.Errorf("%s k=%d: the plan has %v+%v, not %v", name, k, r, d, got)
			}
		}
	}
}

func TestRoutesPassNoNodeTwice(t *testing.T) {
	lat := [][]time.Duration{{0, 100, 1}, {100, 0, 1}, {1, 1, 0}}
	for i := range lat {
		for j := range lat {
			lat[i][j] *= time.Millisecond
		}
	}
	p := Evaluate(&Facts{Latency: lat}, Params{}, FlatGroups(3))
	if got := p.Routes[[2]int{0, 1}]; !slices.Equal(got, []int{2}) || p.Makespan != 2*time.Millisecond {
		t.Fatal(p.Routes, p.Makespan)
	}
	// A relay must pay for storing and forwarding: 1 MB at 100 Mbit/s takes 80 ms more.
	f := &Facts{Latency: lat, Batch: []int{1e6, 1e6, 1e6}, Uplink: []float64{100e6, 100e6, 100e6}}
	if p := Evaluate(f, Params{}, FlatGroups(3)); len(p.Routes) != 2 {
		t.Error(p.Routes)
	}
	f.Batch = []int{2e6, 2e6, 2e6}
	if p := Evaluate(f, Params{}, FlatGroups(3)); len(p.Routes) != 0 {
		t.Error(p.Routes)
	}
	for _, relays := range [][]int{{0}, {1}, {2, 2}, {3}, {-1}} {
		p.Routes[[2]int{0, 1}] = relays
		if p.Check(3) == nil {
			t.Errorf("route over %v was accepted", relays)
		}
	}
}

func TestPlanWithoutDeadNodes(t *testing.T) {
	p := &Plan{
		Groups: []Group{{Members: []int{0, 1, 2}, Aggregators: []int{1}}, {Members: []int{3, 4, 5}, Aggregators: []int{3, 4}}},
		Of:     []int{0, 0, 0, 1, 1, 1},
		Routes: map[[2]int][]int{{1, 3}: {5}, {3, 1}: {4}},
	}
	dead := func(i int) bool { return i == 1 || i == 4 }
	q := p.Without(dead)
	if err := q.Check(6); err != nil {
		t.Fatal(err)
	}
	if got := q.String(); got != "[0] [1] [2] [4] [3]5," {
		t.Error(got)
	}
	if len(q.Routes) != 1 || q.Routes[[2]int{1, 3}] == nil {
		t.Error(q.Routes)
	}
	if p.Without(func(int) bool { return false }) != p {
		t.Error("copied without need")
	}
}

func TestFactsAreChecked(t *testing.T) {
	bad := &Facts{Latency: [][]time.Duration{{0, -1}, {0}}, Region: []int{1}, Keep: 2, Batch: []int{-1, 0}}
	if _, err := Make(bad, Params{}); err == nil {
		t.Fatal("accepted")
	}
	if _, err := Make(&Facts{}, Params{}); err == nil {
		t.Fatal("accepted")
	}
}

func TestRerunKeepsThePlan(t *testing.T) {
	for name, lat := range networks(t, 10, 1) {
		f := facts(rand.New(rand.NewPCG(3, 3)), lat)
		p, err := Make(f, Params{})
		if err != nil {
			t.Fatal(err)
		}
		if got := Rerun(f, p); got != p.Makespan {
			t.Errorf("%s: %v, planned %v", name, got, p.Makespan)
		}
		slower := *f
		slower.Latency = nil
		for _, row := range lat {
			r := slices.Clone(row)
			for j := range r {
				r[j] *= 2
			}
			slower.Latency = append(slower.Latency, r)
		}
		if got := Rerun(&slower, p); got <= p.Makespan || got > 2*p.Makespan {
			t.Errorf("%s: %v with latencies twice those of %v", name, got, p.Makespan)
		}
	}
}

func TestDamper(t *testing.T) {
	base := &Facts{Latency: [][]time.Duration{{0, 100 * time.Millisecond}, {100 * time.Millisecond, 0}}, Batch: []int{1000, 1000}}
	with := func(ms int, batch int) *Facts {
		return &Facts{Latency: [][]time.Duration{{0, time.Duration(ms) * time.Millisecond},
			{100 * time.Millisecond, 0}}, Batch: []int{batch, 1000}}
	}
	d := Damper{Window: 10 * time.Second}
	if !d.Observe(0, base) {
		t.Error("no plan yet")
	}
	d.Planned(base)
	for _, s := range []struct {
		at    int
		f     *Facts
		again bool
	}{
		{0, with(119, 1000), false},
		{1, with(130, 1000), false}, // begins
		{6, with(130, 1000), false},
		{8, with(110, 1000), false}, // a peak: forgotten
		{9, with(75, 1000), false},
		{18, with(75, 1000), false},
		{19, with(79, 1000), true},
		{20, with(100, 1300), false},
		{30, with(100, 1300), true},
	} {
		if got := d.Observe(time.Duration(s.at)*time.Second, s.f); got != s.again {
			t.Errorf("at %d s: %v", s.at, got)
		}
	}
	if !d.Observe(31*time.Second, &Facts{Latency: [][]time.Duration{{0}}}) {
		t.Error("a node left")
	}
	// Small absolute changes are noise.
	lan := &Facts{Latency: [][]time.Duration{{0, time.Millisecond}, {time.Millisecond, 0}}}
	d.Planned(lan)
	noisy := &Facts{Latency: [][]time.Duration{{0, 1900 * time.Microsecond}, {time.Millisecond, 0}}}
	if d.Observe(0, noisy) || d.Observe(time.Minute, noisy) {
		t.Error("0.9 ms made a new plan")
	}
}

// The keeper follows the network, is not lured by single measurements, and never
// holds a plan that is slower than flat on what it knows.
func TestKeeper(t *testing.T) {
	series, err := matrix.Seattle()
	if err != nil {
		t.Fatal(err)
	}
	var k Keeper
	nodes := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	planned := 0
	for i, m := range series[:200] {
		f := &Facts{Latency: latencies(m, nodes)}
		p, err := k.Observe(time.Duration(i)*10*time.Second, f)
		if err != nil {
			t.Fatal(err)
		}
		if got, flat := Rerun(f, p), Rerun(f, Flat(10)); got > flat {
			t.Errorf("slot %d: %v in force, flat %v", i, got, flat)
		} else if got < flat {
			planned++
		}
	}
	if planned < 100 || k.Plans > 150 {
		t.Errorf("%d of 200 rounds were faster than flat, with %d plans", planned, k.Plans)
	}
	quiet := Keeper{}
	f := &Facts{Latency: latencies(series[0], nodes)}
	first, _ := quiet.Observe(0, f)
	for i := range 10 {
		if p, _ := quiet.Observe(time.Duration(i)*time.Minute, f); p != first {
			t.Error("it changes plans although nothing changes")
		}
	}
	if p, err := quiet.Observe(time.Hour, &Facts{Latency: latencies(series[0], nodes[:5])}); err != nil || p.Check(5) != nil {
		t.Error("nodes left", err)
	}
}

func TestHealth(t *testing.T) {
	var h Health
	p := &Plan{Routes: map[[2]int][]int{{0, 1}: {2, 3}}}
	s := time.Second
	if got := h.Route(p, 0, 1, 0); !slices.Equal(got, []int{2, 3}) {
		t.Fatal(got)
	}
	h.Failed(3, 0)
	h.Failed(3, s/2) // the same outage
	if h.Route(p, 0, 1, s/2) != nil {
		t.Error("a relay that failed is used")
	}
	if h.Route(p, 0, 1, s) == nil {
		t.Error("it is not tried again")
	}
	h.Failed(3, s)
	if h.Usable(3, 3*s-1) || !h.Usable(3, 3*s) {
		t.Error("the rest does not double")
	}
	h.Passed(3)
	h.Failed(3, 4*s)
	if !h.Usable(3, 5*s) {
		t.Error("success does not forgive")
	}
}

func BenchmarkMake(b *testing.B) {
	for _, c := range []struct {
		n  int
		bw bool
	}{{5, false}, {10, false}, {15, false}, {5, true}, {10, true}, {15, true}, {25, true}, {50, true}, {490, false}} {
		b.Run(fmt.Sprintf("n=%d,bandwidth=%v", c.n, c.bw), func(b *testing.B) {
			lat := networks(b, c.n, 1)[matrix.PlanetLab+"/0"]
			f := &Facts{Latency: lat}
			if c.bw {
				for range lat {
					f.Batch, f.Uplink = append(f.Batch, 10_000), append(f.Uplink, 100e6)
				}
			}
			for b.Loop() {
				if _, err := Make(f, Params{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkPaper(b *testing.B) {
	for _, n := range []int{10, 15, 25} {
		b.Run(fmt.Sprintf("n=%d", n), func(b *testing.B) {
			lat := networks(b, n, 1)[matrix.AWS+"/0"]
			for b.Loop() {
				Paper(lat, 0)
			}
		})
	}
}

// TestHealthComesBack: a node through which nothing came for an hour is tried again within eight
// seconds of when the network was mended.
func TestHealthComesBack(t *testing.T) {
	var h Health
	last := time.Duration(0)
	for now := time.Duration(0); now < time.Hour; now += 100 * time.Millisecond {
		if !h.Usable(1, now) {
			continue
		}
		if rest := now - last; rest > 8*time.Second {
			t.Fatalf("it rested for %v", rest)
		}
		h.Failed(1, now)
		last = now
	}
}
