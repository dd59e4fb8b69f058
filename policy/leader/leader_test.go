package leader

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

const ms = time.Millisecond

// square makes a symmetric matrix in ms of its lower half: square(30, 90, 60) are three nodes.
func square(lower ...int) [][]time.Duration {
	n := 1
	for n*(n-1)/2 < len(lower) {
		n++
	}
	m := make([][]time.Duration, n)
	for i := range m {
		m[i] = make([]time.Duration, n)
	}
	k := 0
	for i := range n {
		for j := range i {
			d := time.Duration(lower[k]) * ms
			if lower[k] < 0 {
				d = Unknown
			}
			m[i][j], m[j][i] = d, d
			k++
		}
	}
	return m
}

// equal is n nodes the same distance apart.
func equal(n, rtt int) [][]time.Duration {
	lower := make([]int, n*(n-1)/2)
	for i := range lower {
		lower[i] = rtt
	}
	return square(lower...)
}

// facts are able voters 1, 2, ..., each in a region of its own, with the requests and write ratios
// given.
func facts(leader base.NodeID, rtt [][]time.Duration, requests, writes []float64) *Facts {
	f := &Facts{Leader: leader, RTT: rtt}
	for i := range rtt {
		f.Nodes = append(f.Nodes, Node{ID: base.NodeID(i + 1), Region: base.RegionID(i + 1), Voter: true, Able: true,
			Requests: requests[i], Writes: requests[i] * writes[i]})
	}
	return f
}

func assess(t *testing.T, f *Facts, p Params) Assessment {
	t.Helper()
	a, err := Assess(f, p)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func utilities(a Assessment) (out []time.Duration) {
	for _, s := range a.Standings {
		out = append(out, s.Utility)
	}
	return out
}

// naive is equation 4 as it is printed.
func naive(f *Facts, n int, commit func(n int) float64) float64 {
	leader := int(f.Leader) - 1
	var total, u float64
	for _, x := range f.Nodes {
		total += x.Requests
	}
	for i, x := range f.Nodes {
		if x.Requests == 0 {
			continue
		}
		p, w := x.Requests/total, x.Writes/x.Requests
		u += p * (float64(f.RTT[i][leader]-f.RTT[i][n]) + w*(commit(leader)-commit(n)))
	}
	return u
}

func TestEquation4(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		n := 2 + r.IntN(7)
		lower := make([]int, n*(n-1)/2)
		for i := range lower {
			lower[i] = 1 + r.IntN(300)
		}
		req, wr := make([]float64, n), make([]float64, n)
		for i := range req {
			req[i], wr[i] = float64(r.IntN(4)), r.Float64()
		}
		req[0]++
		f := facts(base.NodeID(1+r.IntN(n)), square(lower...), req, wr)
		sorted := func(i int) []time.Duration {
			row := slices.Delete(slices.Clone(f.RTT[i]), i, i+1)
			slices.Sort(row)
			return row
		}
		for commit, ref := range map[Commit]func(int) float64{
			Median: func(i int) float64 {
				row := sorted(i)
				return float64(row[(len(row)-1)/2]+row[len(row)/2]) / 2
			},
			Quorum: func(i int) float64 { // the leader and so many others are a majority
				for k, d := range sorted(i) {
					if 2*(1+k+1) > n {
						return float64(d)
					}
				}
				return 0
			},
		} {
			a := assess(t, f, Params{Commit: commit})
			for i, u := range utilities(a) {
				if want := naive(f, i, ref); math.Abs(float64(u)-want) > 10 {
					t.Fatalf("%s: utility of %d is %v, want %v in %+v", commit, i+1, u, time.Duration(want), f)
				}
			}
		}
	}
}

// Observations 2 and 3 of the paper: figures 3 and 4.
func TestPopularityAndWriteRatioDecide(t *testing.T) {
	a := assess(t, facts(3, equal(3, 20), []float64{50, 30, 20}, []float64{.5, .5, .5}), Params{})
	if u := utilities(a); u[0] != 6*ms || u[1] != 2*ms || u[2] != 0 || a.Best() != 1 {
		t.Errorf("popularity 5:3:2: %v, best %d", u, a.Best())
	}
	// Reads belong where most requests come from; writes also want a leader with a near quorum.
	m := square(30, 90, 60)
	reads := assess(t, facts(1, m, []float64{20, 20, 60}, []float64{0, 0, 0}), Params{})
	writes := assess(t, facts(1, m, []float64{20, 20, 60}, []float64{1, 1, 1}), Params{})
	if reads.Best() != 3 || writes.Best() != 2 {
		t.Errorf("reads %v, writes %v", utilities(reads), utilities(writes))
	}
	poor := assess(t, facts(3, equal(3, 20), []float64{50, 30, 20}, []float64{.5, .5, .5}), Params{Load: Uniform})
	if u := utilities(poor); u[0] != 0 || u[1] != 0 {
		t.Errorf("without popularity equal distances are equal: %v", u)
	}
	plus := assess(t, facts(3, m, []float64{0, 0, 9}, []float64{0, 0, 0}), Params{Load: Ignored})
	if u := utilities(plus); u[0] != 30*ms || u[1] != 30*ms {
		t.Errorf("nearest quorum: %v", u)
	}
}

func TestWhatIsNotMeasured(t *testing.T) {
	all := []float64{1, 1, 1}
	for name, c := range map[string]struct {
		rtt      [][]time.Duration
		requests []float64
		known    []bool
	}{
		"all":                          {square(30, 90, 60), all, []bool{true, true, true}},
		"one pair, both have requests": {square(30, -1, 60), all, []bool{false, true, false}},
		"one pair without requests":    {square(30, -1, 60), []float64{0, 1, 0}, []bool{true, true, true}},
		"a node that nobody can reach": {square(30, -1, -1), []float64{1, 1, 0}, []bool{true, true, false}},
		"no quorum is measured":        {square(-1, -1, -1), []float64{1, 0, 0}, []bool{false, false, false}},
		"one end has measured": {[][]time.Duration{{0, Unknown, 9 * ms}, {30 * ms, 0, Unknown},
			{Unknown, 9 * ms, 0}}, all, []bool{true, true, true}},
		"nobody asks: quorums are known": {square(30, 90, 60), []float64{0, 0, 0}, []bool{true, true, true}},
	} {
		a := assess(t, facts(1, c.rtt, c.requests, []float64{0, 0, 0}), Params{})
		for i, s := range a.Standings {
			if s.Known != c.known[i] {
				t.Errorf("%s: node %d known %v", name, i+1, s.Known)
			}
			if !a.Standings[0].Known && s.Utility != 0 {
				t.Errorf("%s: node %d has utility %v beside a leader of whom nothing is known", name, i+1, s.Utility)
			}
		}
	}
	bad := facts(1, square(30), []float64{1, 1}, []float64{0, 0})
	bad.RTT = bad.RTT[:1]
	twice := facts(1, square(30), []float64{1, 1}, []float64{0, 0})
	twice.Nodes[1].ID = 1
	greedy := facts(1, square(30), []float64{1, 1}, []float64{0, 2})
	for _, f := range []*Facts{bad, twice, greedy} {
		if _, err := Assess(f, Params{}); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("%v", err)
		}
	}
}

// run feeds a policy and carries out what it decides; load says what the requests are at a
// heartbeat. It returns "beat:node" for each move.
func run(t *testing.T, p *Policy, leader base.NodeID, beats int, at func(k int, f *Facts)) (moves []string, last base.NodeID) {
	t.Helper()
	f := facts(leader, equal(3, 20), []float64{1, 1, 1}, []float64{0, 0, 0})
	for k := range beats {
		at(k, f)
		d, err := p.Observe(f)
		if err != nil {
			t.Fatal(err)
		}
		if d.Move() {
			s, ok := d.Of(d.To)
			if !ok || !s.Candidate {
				t.Fatalf("heartbeat %d: a move to node %d, which may not lead", k, d.To)
			}
			moves = append(moves, fmt.Sprintf("%d:%d", k, d.To))
			f.Leader = d.To
		}
	}
	return moves, f.Leader
}

func newPolicy(t *testing.T, p Params) *Policy {
	t.Helper()
	x, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// Figure 7 of the paper: utilities of three nodes, window of 2, a move to node 3 at the end of the
// first, which doubles the window; nobody is better throughout the second, which halves it.
func TestFigure7(t *testing.T) {
	p := newPolicy(t, Params{Window: 2, HoldDown: -1, MinGain: -1, MinGainShare: -1})
	vectors := [][]int{{0, 0, 1}, {0, 1, 1}, {0, 1, 0}, {1, 0, 0}, {0, 1, 0}, {1, 0, 0}}
	windows := []int{2, 4, 4, 4, 4, 2}
	moves, _ := run(t, p, 1, len(vectors), func(k int, f *Facts) {
		for i := range f.Nodes {
			f.Nodes[i].Requests = 1
			if vectors[k][i] == 1 {
				// with equal distances that is a positive utility, unless the leader has the same
				f.Nodes[i].Requests = 2
			}
		}
		if k > 0 {
			if w := p.State().Window; w != windows[k-1] {
				t.Errorf("before heartbeat %d the window is %d, want %d", k, w, windows[k-1])
			}
		}
	})
	if got := strings.Join(moves, " "); got != "1:3" || p.State().Window != 2 {
		t.Errorf("moves %s, window %d", got, p.State().Window)
	}
}

// The paper's min in the halving rule would leave no floor.
func TestWindowNeverBelowItsFloor(t *testing.T) {
	p := newPolicy(t, Params{Window: 4, MaxWindow: 32, HoldDown: -1, MinGain: -1, MinGainShare: -1})
	hot := func(f *Facts, n int) {
		for i := range f.Nodes {
			f.Nodes[i].Requests = 1
		}
		f.Nodes[n].Requests = 3
	}
	var windows []int
	note := func() {
		if w := p.State().Window; len(windows) == 0 || windows[len(windows)-1] != w {
			windows = append(windows, w)
		}
	}
	// always somebody else
	_, last := run(t, p, 1, 200, func(_ int, f *Facts) { note(); hot(f, (int(f.Leader))%3) })
	// never
	run(t, p, last, 200, func(_ int, f *Facts) { note(); hot(f, int(f.Leader)-1) })
	note()
	if got := fmt.Sprint(windows); got != "[4 8 16 32 16 8 4]" {
		t.Errorf("windows %s", got)
	}
}

func TestNoiseMovesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	noisy := func(k int, f *Facts) {
		for i := range f.Nodes {
			f.Nodes[i].Requests = 100 + 10*r.NormFloat64()
			for j := range i {
				d := time.Duration((20 + 2*r.NormFloat64()) * float64(ms))
				f.RTT[i][j], f.RTT[j][i] = d, d
			}
		}
	}
	if moves, _ := run(t, newPolicy(t, Params{}), 1, 20_000, noisy); len(moves) != 0 {
		t.Errorf("noise moved the lead: %v", moves)
	}
	if moves, _ := run(t, newPolicy(t, Params{}.Undamped()), 1, 20_000, noisy); len(moves) < 1000 {
		t.Errorf("without damping noise moved the lead %d times only: the test shows nothing", len(moves))
	}
	// A node that is always better, but by less than the gain, does not get the lead either.
	little := func(_ int, f *Facts) { f.Nodes[1].Requests = 1.08 }
	if moves, _ := run(t, newPolicy(t, Params{}), 1, 2000, little); len(moves) != 0 {
		t.Errorf("a gain of 0.5 ms moved the lead: %v", moves)
	}
	if moves, _ := run(t, newPolicy(t, Params{MinGain: -1, MinGainShare: -1}), 1, 2000, little); fmt.Sprint(moves) != "[49:2]" {
		t.Errorf("without a least gain it should move once: %v", moves)
	}
}

// One bad heartbeat in a window keeps the lead where it is; a change that lasts moves it once.
func TestDampingNeedsTheWholeWindow(t *testing.T) {
	p := Params{Window: 10, HoldDown: 5}
	from := func(beat, blip int) func(int, *Facts) {
		return func(k int, f *Facts) {
			f.Nodes[0].Requests, f.Nodes[1].Requests = 5, 1
			if k >= beat && k != blip {
				f.Nodes[0].Requests, f.Nodes[1].Requests = 1, 5
			}
		}
	}
	// Hold-down 0-4, windows 5-14, 15-24, 25-34, ...
	for name, c := range map[string]struct{ beat, blip, want int }{
		"from the first heartbeat": {0, -1, 14}, "in the hold-down": {3, -1, 14}, "within a window": {7, -1, 24},
		"one heartbeat fails": {0, 9, 24},
		"the last one fails":  {0, 14, 24},
	} {
		if moves, _ := run(t, newPolicy(t, p), 1, 200, from(c.beat, c.blip)); fmt.Sprint(moves) != fmt.Sprintf("[%d:2]", c.want) {
			t.Errorf("%s: %v", name, moves)
		}
	}
	// A hand-over that never happens is asked for again ever more seldom.
	x := newPolicy(t, p)
	f := facts(1, equal(3, 20), []float64{1, 5, 1}, []float64{0, 0, 0})
	var at []int
	for k := range 160 {
		if d, err := x.Observe(f); err != nil {
			t.Fatal(err)
		} else if d.Move() {
			at = append(at, k)
		}
	}
	if fmt.Sprint(at) != "[14 34 74 154]" {
		t.Errorf("asked at %v", at)
	}
	// After an election that was not ordered, measurements settle first.
	x = newPolicy(t, p)
	moves, _ := run(t, x, 1, 60, func(k int, f *Facts) {
		f.Nodes[1].Requests = 5
		if k == 9 {
			f.Leader = 3
		}
	})
	if fmt.Sprint(moves) != "[23:2]" {
		t.Errorf("after an election at 9: %v", moves)
	}
}

func TestPlacement(t *testing.T) {
	// Nodes 1 and 2 are in region 1, 3 and 4 in region 2, 5 in region 3, where all requests come
	// from.
	scene := func() *Facts {
		f := facts(1, equal(5, 50), []float64{1, 15, 1, 15, 90}, []float64{.5, .5, .5, .5, .5})
		for i, r := range []base.RegionID{1, 1, 2, 2, 3} {
			f.Nodes[i].Region = r
		}
		return f
	}
	type change struct {
		at int
		do func(f *Facts)
	}
	lead := func(n base.NodeID) func(*Facts) { return func(f *Facts) { f.Leader = n } }
	able := func(ok bool, nodes ...int) func(*Facts) {
		return func(f *Facts) {
			for _, n := range nodes {
				f.Nodes[n-1].Able = ok
			}
		}
	}
	both := func(a, b func(*Facts)) func(*Facts) { return func(f *Facts) { a(f); b(f) } }
	for name, c := range map[string]struct {
		home    base.RegionID
		may     []base.RegionID
		leader  base.NodeID
		changes []change
		want    string
	}{
		"homed as a whole: follows the load":  {want: "[14:5]", leader: 1},
		"rows: the best node of the home":     {home: 2, leader: 3, want: "[14:4]"},
		"rows: the load of others is nothing": {home: 1, leader: 2, want: "[]"},
		"rows: home at once":                  {home: 1, leader: 5, want: "[5:2]"},
		"the home is down: the stand-in is where the requests are": {home: 1, leader: 3,
			changes: []change{{0, able(false, 1, 2)}}, want: "[14:5]"},
		"the home goes down and comes back": {home: 1, leader: 2,
			changes: []change{{20, both(able(false, 1, 2), lead(4))}, {60, able(true, 1, 2)}}, want: "[34:5 64:2]"},
		"a home that flaps gets nothing": {home: 1, leader: 5,
			changes: []change{{0, able(false, 1, 2)}, {20, able(true, 2)}, {23, able(false, 2)},
				{25, able(true, 2)}, {29, able(false, 2)}}, want: "[]"},
		"regions that may not lead":                       {may: []base.RegionID{1, 2}, leader: 1, want: "[14:2]"},
		"a leader in a region that may not lead":          {may: []base.RegionID{1, 2}, leader: 5, want: "[5:2]"},
		"nobody may lead: better than no leader":          {may: []base.RegionID{7}, leader: 5, want: "[]"},
		"the home may not lead: its stand-in by the load": {home: 1, may: []base.RegionID{2, 3}, leader: 2, want: "[5:5]"},
	} {
		p := newPolicy(t, Params{Window: 10, HoldDown: 5})
		f := scene()
		f.Home, f.MayLead, f.Leader = c.home, c.may, c.leader
		moves, _ := run(t, p, c.leader, 100, func(k int, g *Facts) {
			if k == 0 {
				*g = *f
			}
			for _, ch := range c.changes {
				if ch.at == k {
					ch.do(g)
				}
			}
		})
		if fmt.Sprint(moves) != c.want {
			t.Errorf("%s: %v, want %s", name, moves, c.want)
		}
	}
}

func TestNothingToJudgeBy(t *testing.T) {
	for want, f := range map[Reason]*Facts{
		NoLoad:     facts(1, equal(3, 20), []float64{0, 0, 0}, []float64{0, 0, 0}),
		NoLeader:   facts(0, equal(3, 20), []float64{1, 2, 3}, []float64{0, 0, 0}),
		Unmeasured: facts(1, square(-1, -1, 20), []float64{1, 2, 3}, []float64{0, 0, 0}),
	} {
		p := newPolicy(t, Params{Window: 2, HoldDown: -1})
		for range 10 {
			d, err := p.Observe(f)
			if err != nil || d.Move() || d.Reason != want || !strings.Contains(d.String(), string(want)) {
				t.Errorf("%s: %s, %v", want, &d, err)
			}
		}
	}
	// A node that leaves is forgotten.
	p := newPolicy(t, Params{})
	for n := 9; n >= 3; n-- {
		ones := slices.Repeat([]float64{1}, n)
		if _, err := p.Observe(facts(1, equal(n, 20), ones, ones)); err != nil {
			t.Fatal(err)
		}
	}
	if len(p.nodes) != 3 {
		t.Errorf("%d nodes are remembered", len(p.nodes))
	}
}

func TestParams(t *testing.T) {
	_, err := New(Params{Window: -1, MinGainShare: 2, Commit: "x", Load: "y"})
	for _, want := range []string{"window -1", "min_gain_share 2", `commit "x"`, `load "y"`} {
		if err == nil || base.CodeOf(err) != base.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	p := newPolicy(t, Params{})
	if s := p.State(); s.Window != 40 {
		t.Errorf("first window %d", s.Window)
	}
	if err := p.SetParams(Params{Window: 100}); err != nil || p.State().Window != 100 {
		t.Errorf("%v, window %d", err, p.State().Window)
	}
	if err := p.SetParams(Params{Window: 5, MaxWindow: 20}); err != nil || p.State().Window != 20 {
		t.Errorf("%v, window %d", err, p.State().Window)
	}
}

func TestMeter(t *testing.T) {
	var m Meter
	for range 500 {
		m.Add(10, 5, 1)
	}
	if r, w := m.Load(); math.Abs(r-10) > .01 || math.Abs(w-5) > .01 {
		t.Errorf("%v requests, %v writes", r, w)
	}
	for range 25 { // popularity is halved, the ratio hardly changes
		m.Add(0, 0, 1)
	}
	if r, w := m.Load(); math.Abs(r-5) > .01 || math.Abs(w/r-.5) > .01 {
		t.Errorf("%v requests, %v writes", r, w)
	}
	m.Add(250, 0, 25) // 25 heartbeats at once are as if one after the other
	if r, _ := m.Load(); math.Abs(r-7.5) > .01 {
		t.Errorf("%v requests", r)
	}
	m.Add(1, 2, 1) // nonsense: the counter began anew
	if r, _ := m.Load(); math.Abs(r-7.5) > .01 {
		t.Errorf("%v requests", r)
	}
	m.Add(0, 0, 1000)
	if r, w := m.Load(); r != 0 || w != 0 {
		t.Errorf("a node without requests has %v, %v", r, w)
	}
}

func BenchmarkObserve(b *testing.B) {
	for _, n := range []int{5, 50} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			ones := slices.Repeat([]float64{1}, n)
			f := facts(1, equal(n, 20), ones, ones)
			p, err := New(Params{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Observe(f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
