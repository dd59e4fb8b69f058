package home

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// twin is doc.go written down as plainly as possible: maps, wall times, no
// bounds, no mining. It draws the same random numbers as the real one, since
// Morris counters are part of the contract.
type twin struct {
	p    Params
	hash func([]byte) uint64
	rng  map[uint64]*rand.PCG
	rows map[string]*twinRow
}

type twinRow struct {
	home, asker base.RegionID
	changes     uint16
	run, quick  int
	heat        map[base.RegionID]int // Morris registers
	seen        map[base.RegionID]base.Timestamp
	moved       base.Timestamp // 0: never
	txn         base.TxnID
	wrote       bool
	adopt       bool // told of a move, not of its label's count
}

func value(v int) float64 { return 30 * (math.Pow(31.0/30, float64(v)) - 1) }

func largest(n float64) int {
	v := 255
	for v > 0 && value(v) > n {
		v--
	}
	return v
}

func (w *twin) add(h uint64, v int, weight float64) int {
	n := value(v) + weight
	v = largest(n)
	if v == 255 {
		return v
	}
	share := (n - value(v)) / (value(v+1) - value(v))
	if share <= 1e-9 {
		return v
	}
	if share > 1-1e-9 {
		return v + 1
	}
	if float64(w.rng[h>>59].Uint64())/math.Pow(2, 64) < share {
		v++
	}
	return v
}

func (w *twin) settle(r *twinRow, now base.Timestamp) {
	for f := range r.heat {
		for now > r.seen[f] && now.Sub(r.seen[f]) > time.Duration(w.p.DecayTime) && r.heat[f] > 0 {
			r.heat[f] = largest(value(r.heat[f]) / 2)
			r.seen[f] = r.seen[f].Add(time.Duration(w.p.DecayTime))
		}
	}
}

func (w *twin) stay(r *twinRow, now base.Timestamp) time.Duration {
	if r.moved == 0 {
		return 0
	}
	need := min(time.Duration(w.p.MinStay)<<r.quick, time.Duration(w.p.MaxStay))
	return max(0, need-max(0, now.Sub(r.moved)))
}

func (w *twin) arrive(r *twinRow, to base.RegionID, now base.Timestamp) {
	if r.moved != 0 {
		e := max(0, now.Sub(r.moved))
		r.quick = max(0, r.quick-int(e/time.Duration(w.p.DecayTime)))
		if e < time.Duration(w.p.MaxStay) {
			r.quick = min(r.quick+1, 15)
		}
	}
	r.home, r.asker, r.run, r.moved = to, to, 0, now
	for f, v := range r.heat {
		if f != to && value(v) > value(r.heat[to])/w.p.Margin {
			r.heat[f] = largest(value(r.heat[to]) / w.p.Margin)
		}
	}
}

func (w *twin) record(a Access) bool {
	weight := w.p.ReadWeight
	if a.Write {
		weight = w.p.WriteWeight
	}
	if weight < 0 || a.From < 1 || a.From > 7 || a.Home < 1 || a.Home > 7 {
		return false
	}
	h := w.hash(a.Key)
	r := w.rows[string(a.Key)]
	if r == nil {
		r = &twinRow{home: a.Home, changes: a.Changes, heat: map[base.RegionID]int{}, seen: map[base.RegionID]base.Timestamp{}}
		if a.Changes > 0 {
			r.moved = a.At
		}
		w.rows[string(a.Key)] = r
	}
	w.settle(r, a.At)
	if r.home != a.Home || r.changes != a.Changes && !r.adopt {
		w.arrive(r, a.Home, a.At)
	}
	r.changes, r.adopt = a.Changes, false
	if !a.Txn.IsZero() && r.txn == a.Txn && r.asker == a.From {
		if !a.Write || r.wrote {
			return false
		}
		weight -= max(w.p.ReadWeight, 0)
	} else if r.asker == a.From {
		r.run = min(r.run+1, 255)
	} else {
		r.asker, r.run = a.From, 1
	}
	r.txn, r.wrote = a.Txn, a.Write
	if r.seen[a.From] = max(r.seen[a.From], a.At); r.heat[a.From] == 0 {
		r.seen[a.From] = a.At
	}
	if weight > 0 {
		r.heat[a.From] = w.add(h, r.heat[a.From], weight)
	}
	if value(r.heat[a.From]) >= float64(w.p.MaxHeat) {
		for f, v := range r.heat {
			r.heat[f] = largest(value(v) / 2)
		}
	}
	if a.From == a.Home || a.Pinned || w.p.Mode == Never {
		return false
	}
	if w.p.Mode == Always {
		return true
	}
	if w.stay(r, a.At) > 0 {
		return false
	}
	mine, theirs := value(r.heat[a.From]), value(r.heat[a.Home])
	if r.run >= w.p.MinHeat+int(math.Floor(math.Log2(1+math.Floor(theirs)))) {
		return true
	}
	for _, v := range r.heat {
		if value(v) > max(mine, theirs) {
			return false
		}
	}
	return mine >= float64(w.p.MinHeat) && mine >= w.p.Margin*theirs
}

// TestTwin: the same accesses, moves and answers under many settings. Times are multiples of a
// tick.
func TestTwin(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 77))
		pick := func(ns ...int) int { return ns[rng.IntN(len(ns))] }
		tick := func(n int) Duration { return Duration(n) << tickShift }
		params := Params{
			Mode:      []Mode{Hotness, Hotness, Hotness, Always, Never}[rng.IntN(5)],
			DecayTime: tick(pick(20, 1000, 60000)), MinStay: tick(pick(-1, 100, 3000)), MaxStay: tick(pick(3000, 60000)),
			ReadWeight: []float64{1, 0.3, -1}[rng.IntN(3)], WriteWeight: []float64{1, 2.5, 1}[rng.IntN(3)],
			MinHeat: pick(1, 3, 8), Margin: []float64{1, 2, 3.7}[rng.IntN(3)], MaxHeat: pick(40, 256),
		}.Filled()
		p, err := New(params, seed)
		if err != nil {
			t.Fatal(err)
		}
		w := &twin{p: params, hash: func(k []byte) uint64 { return p.hash(k) }, rng: map[uint64]*rand.PCG{},
			rows: map[string]*twinRow{}}
		w.p.MinStay = max(w.p.MinStay, 0)
		for i := range uint64(stripes) {
			w.rng[i] = rand.NewPCG(seed, i)
		}
		type where struct {
			home    base.RegionID
			changes uint16
		}
		rows := make([]where, 12)
		for i := range rows {
			rows[i] = where{base.RegionID(1 + rng.IntN(3)), uint16(pick(0, 0, 5, 1023))}
		}
		now, favourite, moves := start>>tickShift, base.RegionID(1), 0
		for step := range 3000 {
			now += base.Timestamp(pick(0, 1, 1, 30, 30, 200))
			if rng.IntN(300) == 0 {
				now += base.Timestamp(rng.IntN(200_000)) // a quiet time
			}
			if rng.IntN(100) == 0 {
				now -= base.Timestamp(rng.IntN(50)) // the clock steps back
			}
			if rng.IntN(60) == 0 {
				favourite = base.RegionID(rng.IntN(8)) // 0 is no region
			}
			n := rng.IntN(len(rows))
			a := Access{Key: key(n), Home: rows[n].home, Changes: rows[n].changes, From: favourite, Write: rng.IntN(2) == 0,
				Pinned: n == 3, At: now << tickShift}
			if rng.IntN(3) == 0 {
				a.From = base.RegionID(1 + rng.IntN(4))
			}
			if rng.IntN(2) == 0 {
				a.Txn = txnID(uint64(1 + step/8))
			}
			d, want := p.Record(a), w.record(a)
			if d.Move != want {
				t.Fatalf("seed %d step %d %+v\nparams %+v\nmoves: %t, the twin says %t\n%v", seed, step, a, params,
					d.Move, want, p.Explain(a))
			}
			// else the twin has not settled
			counted := a.From != 0 && (a.Write || params.ReadWeight > 0)
			if h, ok := p.Heat(a.Key, a.At); ok && counted {
				r := w.rows[string(a.Key)]
				for f := base.RegionID(1); f <= 7; f++ {
					if math.Abs(h.Heat.Of(f)-value(r.heat[f])) > 1e-3*(1+value(r.heat[f])) {
						t.Fatalf("seed %d step %d: heat of r%d is %v, the twin says %v\n%+v\n%+v\n%+v %v", seed, step,
							f, h.Heat.Of(f), value(r.heat[f]), params, a, r, h)
					}
				}
			}
			if d.Move && rng.IntN(4) > 0 { // or the mechanism does not get round to it
				rows[n].home, rows[n].changes = d.To, (rows[n].changes+1)&1023
				moves++
				if rng.IntN(4) > 0 { // or it forgets to say so
					p.Moved(a.Key, d.To, a.At)
					r := w.rows[string(a.Key)]
					w.settle(r, a.At)
					w.arrive(r, d.To, a.At)
					r.adopt = true
				}
			}
		}
		if params.Mode == Always && moves == 0 || params.Mode == Never && moves > 0 {
			t.Errorf("seed %d: mode %v made %d moves", seed, params.Mode, moves)
		}
	}
}

// TestMiningTwin compares the sorted search with all pairs and the longest
// common subsequence of their ticks.
func TestMiningTwin(t *testing.T) {
	all := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		lookahead, conf := 1+rng.IntN(8), []float64{0.5, 0.8, 1}[rng.IntN(3)]
		now := rng.Uint32() // so that ticks wrap
		var table []mined
		for len(table) < 30 {
			x := mined{hash: rng.Uint64() | 1, n: 4 + rng.IntN(10)}
			tick := now - 4000 + uint32(rng.IntN(100))
			for i := range x.n {
				x.ts[i] = tick
				tick += uint32(1 + rng.IntN(20+rng.IntN(200)))
			}
			table = append(table, x)
			for range rng.IntN(3) { // and some that move with it, more or less
				y := x
				y.hash = rng.Uint64() | 1
				for i := range y.n {
					y.ts[i] += uint32(rng.IntN(3))
					if rng.IntN(10) == 0 {
						y.ts[i] += uint32(rng.IntN(30))
					}
				}
				slices.SortFunc(y.ts[:y.n], func(a, b uint32) int { return int(int32(a - b)) })
				table = append(table, y)
			}
		}
		table = table[:30]
		want := map[[2]uint64]bool{}
		for i := range table {
			for j := range i {
				a, b := &table[i], &table[j]
				reach := min(lookahead, int(a.ts[a.n-1]-a.ts[0])/(a.n-1)/8, int(b.ts[b.n-1]-b.ts[0])/(b.n-1)/8)
				near := func(x, y uint32) bool { d := int32(x - y); return int(max(d, -d)) <= reach }
				var lcs [maxFreq + 1][maxFreq + 1]int
				for x := range a.n {
					for y := range b.n {
						lcs[x+1][y+1] = max(lcs[x][y+1], lcs[x+1][y])
						if near(a.ts[x], b.ts[y]) {
							lcs[x+1][y+1] = max(lcs[x+1][y+1], lcs[x][y]+1)
						}
					}
				}
				if near(a.ts[0], b.ts[0]) && float64(lcs[a.n][b.n]) >= conf*float64(max(a.n, b.n)) {
					want[[2]uint64{min(a.hash, b.hash), max(a.hash, b.hash)}] = true
				}
			}
		}
		got := map[[2]uint64]bool{}
		for _, q := range pairs(table, now, lookahead, conf) {
			got[[2]uint64{min(q[0], q[1]), max(q[0], q[1])}] = true
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("seed %d: pairs %v, want %v", seed, got, want)
		}
		all += len(got)
	}
	if all < 1000 {
		t.Errorf("only %d pairs in all: the test tests nothing", all)
	}
}
