package home

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// world is a cluster of one node a region, each with its policy, that makes
// every move it is told to make.
type world struct {
	t        testing.TB
	nodes    []*Policy
	rows     map[int]*rowState
	byKey    map[string]int
	now      base.Timestamp
	txn      uint64
	accesses int
	remote   int // accesses of a row that lives elsewhere
	moves    int
	went     int // rows moved along
	hits     int // of them, next used by the region they went to
}

type rowState struct {
	home    base.RegionID
	changes uint16
	last    base.Timestamp // of the last move
	gap     base.Timestamp // the shortest time between two moves
	waiting bool           // it has gone along and nobody has used it since
}

func newWorld(t testing.TB, regions int, p Params) *world {
	w := &world{t: t, rows: map[int]*rowState{}, byKey: map[string]int{}, now: start}
	for i := range regions {
		n, err := New(p, uint64(i+1))
		if err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, n)
	}
	return w
}

func (w *world) row(n int, home base.RegionID) *rowState {
	if w.rows[n] == nil {
		w.rows[n] = &rowState{home: home, gap: math.MaxInt64}
		w.byKey[string(key(n))] = n
	}
	return w.rows[n]
}

func (w *world) move(n int, to base.RegionID) {
	r, k := w.rows[n], key(n)
	sum, _ := w.nodes[r.home-1].Export(k, w.now)
	w.nodes[r.home-1].Moved(k, to, w.now)
	if r.changes > 0 {
		r.gap = min(r.gap, w.now-r.last)
	}
	r.home, r.last = to, w.now
	r.changes = (r.changes + 1) & 1023
	w.nodes[to-1].Import(k, to, r.changes, w.now, sum)
	w.moves++
}

// begin starts a transaction d later.
func (w *world) begin(d time.Duration) {
	w.now = w.now.Add(d)
	w.txn++
}

// access makes one access in the current transaction; it reports whether the row was remote.
func (w *world) access(n int, from base.RegionID, write bool) bool {
	r := w.row(n, from)
	remote := r.home != from
	w.accesses++
	if remote {
		w.remote++
	}
	if r.waiting {
		r.waiting = false
		if !remote {
			w.hits++
		}
	}
	d := w.nodes[r.home-1].Record(Access{Key: key(n), Home: r.home, From: from, Write: write, Txn: txnID(w.txn),
		Changes: r.changes, At: w.now})
	if d.Move {
		if d.To != from || !d.Reason.Rule.Moves() {
			w.t.Fatalf("row %d asked for by r%d: %+v", n, from, d)
		}
		home := r.home
		w.move(n, d.To)
		for _, k := range d.With {
			m, ok := w.byKey[string(k)]
			if !ok || m == n {
				w.t.Fatalf("row %d takes unknown key %v along", n, k)
			}
			if x := w.rows[m]; x.home == home {
				w.move(m, d.To)
				w.went++
				x.waiting = true
			}
		}
	}
	return remote
}

// (a) PolyBase Figure 12, the stay group.
func TestReplayStay(t *testing.T) {
	w := newWorld(t, 3, Params{})
	rng := rand.New(rand.NewPCG(1, 1))
	for range 50_000 {
		n := rng.IntN(3000)
		w.begin(time.Millisecond)
		w.access(n, base.RegionID(1+n%3), rng.IntN(5) == 0)
	}
	if w.moves != 0 || w.remote != 0 {
		t.Errorf("%d moves, %d remote accesses; nobody went anywhere", w.moves, w.remote)
	}
}

// (b) PolyBase Figure 12, the travel group: R2 to R3 to R1 and home again.
func TestReplayTravel(t *testing.T) {
	for _, c := range []struct {
		name   string
		before int           // transactions at home, 50 ms apart
		flight time.Duration // and a pause, before the first one elsewhere
		within int           // remote transactions until the row has followed
	}{
		{"new", 1, 0, 4},
		{"cool", 200, time.Hour, 3},
		{"warm", 10, 0, 6},
		{"hot", 1000, 0, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 3, Params{})
			w.row(1, 2)
			for leg, at := range []base.RegionID{2, 3, 1, 2} {
				w.now = w.now.Add(c.flight)
				remote := w.remote
				for range max(c.before, 100*min(leg, 1)) {
					w.begin(50 * time.Millisecond)
					w.access(1, at, true)
				}
				if n := w.remote - remote; leg > 0 && n > c.within && (c.flight > 0 || leg == 1) {
					t.Errorf("leg %d: %d remote transactions, want at most %d", leg, n, c.within)
				}
				// Hurried legs of 5 s each may wait for min_stay, but the row gets there.
				if c.before >= 1000 && w.rows[1].home != at {
					t.Errorf("leg %d: the row is still at r%d", leg, w.rows[1].home)
				}
			}
		})
	}
}

// (c) Two regions on one row: never more than one move in a stay, which doubles.
func TestReplayAlternating(t *testing.T) {
	for _, c := range []struct {
		name string
		next func(i int, rng *rand.Rand) base.RegionID
		most int // moves in 10 minutes
	}{
		{"turns", func(i int, _ *rand.Rand) base.RegionID { return base.RegionID(1 + i%2) }, 0},
		{"coin", func(_ int, rng *rand.Rand) base.RegionID { return base.RegionID(1 + rng.IntN(2)) }, 16},
		{"bursts", func(i int, _ *rand.Rand) base.RegionID { return base.RegionID(1 + i/20%2) }, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 2, Params{})
			rng := rand.New(rand.NewPCG(3, 3))
			w.row(1, 1)
			for i := range 12_000 {
				w.begin(50 * time.Millisecond)
				w.access(1, c.next(i, rng), true)
			}
			t.Logf("%d moves in 10 minutes, at least %v apart", w.moves, time.Duration(w.rows[1].gap))
			if w.moves > c.most {
				t.Errorf("%d moves, want at most %d", w.moves, c.most)
			}
			if g := time.Duration(w.rows[1].gap); w.moves > 1 && g < 3*time.Second-2*time.Millisecond {
				t.Errorf("two moves %v apart, min_stay is 3 s", g)
			}
		})
	}
}

// (d) PolyBase section 6.5: transactions of 5 queries, 40 % of which have a
// foreign one among other regions' rows, so that about 10 % of the queries are
// foreign. Hotness-aware recolouring does 90 % less of it than recolouring at every access.
func TestReplayRandomForeign(t *testing.T) {
	run := func(mode Mode) *world {
		w := newWorld(t, 3, Params{Mode: mode})
		rng := rand.New(rand.NewPCG(4, 4))
		const rows = 3000
		for n := range rows {
			w.row(n, base.RegionID(1+n%3))
		}
		for range 60_000 {
			w.begin(time.Millisecond)
			from := rng.IntN(3)
			foreign := rng.IntN(10) < 4
			for q := range 5 {
				n := rng.IntN(rows/3)*3 + from
				if foreign && q == 4 {
					n = rng.IntN(rows/3)*3 + (from+1+rng.IntN(2))%3
				}
				w.access(n, base.RegionID(from+1), true)
			}
		}
		return w
	}
	hot, always, never := run(Hotness), run(Always), run(Never)
	saved := 1 - float64(hot.moves)/float64(always.moves)
	share := func(w *world) float64 { return 100 * float64(w.remote) / float64(w.accesses) }
	t.Logf("moves: hotness %d (%d of them along), always %d: %.1f %% fewer (paper: 90 %%); remote accesses: %.2f %%, "+
		"always %.2f %%, never %.2f %%",
		hot.moves, hot.went, always.moves, 100*saved, share(hot), share(always), share(never))
	if saved < 0.9 {
		t.Errorf("only %.1f %% fewer moves than mode always", 100*saved)
	}
	if share(hot) > share(never)*1.1 || share(hot) > share(always)*0.75 {
		t.Errorf("remote accesses: hotness %.2f %%, always %.2f %%, never %.2f %%", share(hot), share(always), share(never))
	}
}

// zipf draws from 0..n-1 with exponent s below 1, as YCSB does.
func zipf(n int, s float64) func(*rand.Rand) int {
	cum := make([]float64, n)
	sum := 0.0
	for i := range cum {
		sum += 1 / math.Pow(float64(i+1), s)
		cum[i] = sum
	}
	return func(r *rand.Rand) int {
		x, lo, hi := r.Float64()*sum, 0, n-1
		for lo < hi {
			if m := (lo + hi) / 2; cum[m] < x {
				lo = m + 1
			} else {
				hi = m
			}
		}
		return lo
	}
}

// (e) PolyBase section 6.5: pairs used by transactions of two queries, Zipf
// 0.99, two regions. The users of the pairs go from one region to the other.
func TestReplayPairs(t *testing.T) {
	run := func(prefetch int) *world {
		w := newWorld(t, 2, Params{Prefetch: prefetch, MinStay: Duration(time.Second)})
		rng := rand.New(rand.NewPCG(5, 5))
		draw := zipf(2000, 0.99)
		for n := range 4000 {
			w.row(n, 1)
		}
		for phase := range 4 {
			for range 60_000 {
				w.begin(2 * time.Millisecond)
				pair := draw(rng)
				from := base.RegionID(1)
				if (phase+pair%2)%2 == 1 { // odd pairs first, then even ones, are away
					from = 2
				}
				w.access(2*pair, from, true)
				w.access(2*pair+1, from, true)
			}
		}
		return w
	}
	with, without := run(8), run(-1)
	var pairsFound uint64
	for _, n := range with.nodes {
		pairsFound += n.Stats().Pairs
	}
	hit := float64(with.hits) / float64(max(with.went, 1))
	t.Logf("%d rows went along (of %d moves), %.1f %% hits, %d pairs mined; remote accesses %d, without prefetch %d: "+
		"%.1f %% fewer",
		with.went, with.moves, 100*hit, pairsFound, with.remote, without.remote,
		100*(1-float64(with.remote)/float64(without.remote)))
	if hit < 0.9 || with.went < 500 {
		t.Errorf("%d rows went along, %.1f %% of them used there next", with.went, 100*hit)
	}
	if with.remote >= without.remote {
		t.Errorf("prefetching costs trips: %d remote accesses, %d without", with.remote, without.remote)
	}
}

// (f) PolyBase Figure 11: a third of a region's users is diverted to each of
// two others, later all come back. Their rows follow; others stay.
func TestReplayBurst(t *testing.T) {
	w := newWorld(t, 3, Params{})
	rng := rand.New(rand.NewPCG(6, 6))
	const rows = 900
	for n := range rows {
		w.row(n, 2)
	}
	late := func(diverted bool) (share float64) {
		remote, total := 0, 0
		for i := range 90_000 {
			w.begin(time.Millisecond)
			n := rng.IntN(rows)
			from := base.RegionID(2)
			if diverted {
				from = base.RegionID(1 + n%3)
			}
			if w.access(n, from, rng.IntN(5) == 0) && i > 45_000 {
				remote++
			}
			if i > 45_000 {
				total++
			}
		}
		return float64(remote) / float64(total)
	}
	for phase, diverted := range []bool{false, true, false} {
		if s := late(diverted); s > 0.01 {
			t.Errorf("phase %d: %.1f %% of the accesses are still remote after 45 s", phase, 100*s)
		}
	}
	if w.moves < 2*rows*2/3 || w.moves > 2*rows*2/3+rows/10 {
		t.Errorf("%d moves, want about %d: two thirds of the rows, there and back", w.moves, 2*rows*2/3)
	}
}

// A region without history of its own decides as its predecessor would: the
// heat travels. Without Import, the label alone protects the row.
func TestReplayLostHistory(t *testing.T) {
	p, err := New(Params{}, 1)
	if err != nil {
		t.Fatal(err)
	}
	moved := func(changes uint16, d time.Duration) (at int) {
		k := key(int(changes) + 10)
		for i := range 20 {
			a := Access{Key: k, Home: 2, From: 1, Changes: changes, At: start.Add(time.Duration(i) * d)}
			if p.Record(a).Move {
				return i + 1
			}
		}
		return 0
	}
	for _, c := range []struct {
		changes uint16
		gap     time.Duration
		want    int
	}{{0, time.Millisecond, 3}, {1, time.Millisecond, 0}, {2, time.Second, 4}} {
		if got := moved(c.changes, c.gap); got != c.want {
			t.Errorf("label with %d changes, accesses %v apart: moved at access %d, want %d", c.changes, c.gap, got, c.want)
		}
	}
}

func ExampleReason() {
	p, _ := New(Params{}, 1)
	k := key(1)
	for i := range 3 {
		d := p.Record(Access{Key: k, Home: 1, From: 2, Write: true, At: start + base.Timestamp(i)*second})
		if d.Move {
			fmt.Println(d.Reason)
		}
	}
	// Output: r1 to r2 (run): r2 alone used it 3 times in a row (3 needed); heat r2=3.1
}
