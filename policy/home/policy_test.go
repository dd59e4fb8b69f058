package home

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/godwitdb/godwit/base"
)

func mustNew(t testing.TB, p Params) *Policy {
	t.Helper()
	pol, err := New(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	return pol
}

func TestParamsJSON(t *testing.T) {
	b, err := json.Marshal(Defaults())
	if err != nil {
		t.Fatal(err)
	}
	var back Params
	if err := json.Unmarshal(b, &back); err != nil || back != Defaults() {
		t.Errorf("%s\n%v: %+v", b, err, back)
	}
	if (Params{}).Filled() != Defaults() {
		t.Error("Filled and Defaults differ")
	}
	// PolyBase section 6.2.
	d := Defaults()
	if d.DecayTime != Duration(60*time.Second) || d.Lookahead != 5 || d.MinFreq != 10 || d.RSize != 100_000 ||
		d.MiningRows != 1250 {
		t.Errorf("not the paper's: %+v", d)
	}
	if _, err := New(Params{Margin: math.NaN()}, 1); err == nil {
		t.Error("margin NaN was taken")
	}
}

func TestReasonJSON(t *testing.T) {
	in := Reason{Rule: RuleRun, Mode: Hotness, From: 2, Home: 1, Heat: Heats{1.5, 0, 3}, Need: 3, Run: 3, RunFor: 3,
		Stay: Duration(time.Second), With: 2}
	b, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out Reason
	if err := json.Unmarshal(b, &out); err != nil || out != in {
		t.Errorf("%s: %v %+v", b, err, out)
	}
	for _, bad := range []string{`{"r0":1}`, `{"r15":1}`, `{"x":1}`} {
		var h Heats
		if json.Unmarshal([]byte(bad), &h) == nil {
			t.Errorf("%s was taken for heats", bad)
		}
	}
}

// A Morris counter is right on average, for any weight.
func TestMorris(t *testing.T) {
	rng := rand.NewPCG(1, 2)
	for _, weight := range []float64{0.2, 1, 2.5, 40} {
		s, sum := makeSteps(weight), 0.0
		const n, runs = 200, 2000
		for range runs {
			v := uint8(0)
			for range n {
				v = s.add(v, rng)
			}
			sum += estimate[v]
		}
		if got, want := sum/runs, n*weight; math.Abs(got-want) > 0.02*want {
			t.Errorf("weight %v: %v on average after %d, want %v", weight, got, n, want)
		}
	}
	s := makeSteps(100)
	if v := s.add(255, rng); v != 255 {
		t.Errorf("a full register became %d", v)
	}
	for v := range half {
		if estimate[half[v]] > estimate[v]/2 || v > 0 && int(half[v]) >= v {
			t.Errorf("half of %d is %d", v, half[v])
		}
	}
	if decayed(255, 17) != 0 && decayed(255, 18) != 0 {
		t.Error("a counter never dies")
	}
}

func TestUnknownRegions(t *testing.T) {
	p := mustNew(t, Params{Mode: Always})
	for _, a := range []Access{{From: 0, Home: 1}, {From: 1, Home: 0}, {From: base.MaxRegions + 1, Home: 1}, {From: 1, Home: 255}} {
		a.Key, a.At = key(1), start
		if d := p.Record(a); d.Move || d.To != 0 {
			t.Errorf("%+v moved", a)
		}
		p.Moved(a.Key, a.From, start)
		p.Import(a.Key, base.MaxRegions+1, 0, start, Summary{})
	}
	if x := p.Stats(); x.Ignored != 4 || x.Rows != 0 {
		t.Errorf("%+v", x)
	}
	// No key at all is a key.
	if d := p.Record(Access{Home: 1, From: 2, At: start}); !d.Move {
		t.Error("the empty key does not move")
	}
}

func TestClock(t *testing.T) {
	p := mustNew(t, Params{})
	rec := func(from base.RegionID, at base.Timestamp) bool {
		return p.Record(Access{Key: key(1), Home: 1, From: from, At: at}).Move
	}
	heat := func(at base.Timestamp) float64 {
		h, _ := p.Heat(key(1), at)
		return h.Heat.Of(1)
	}
	for range 8 {
		rec(1, start)
	}
	before := heat(start)
	if rec(1, start-50*second); heat(start) < before {
		t.Error("a clock that stepped back by 50 s cost heat")
	}
	if h := heat(start + 59*second); h < before {
		t.Errorf("heat %v after less than decay_time, was %v", h, before)
	}
	if h := heat(start + 61*second); h < before/2-1 || h > before/2+1 {
		t.Errorf("heat %v after decay_time, was %v", h, before)
	}
	if h := heat(start + 3600*second); h != 0 {
		t.Errorf("heat %v after an hour", h)
	}
	if h := heat(start - 3600*second); h != 0 {
		t.Errorf("heat %v an hour before", h)
	}
	// Ticks wrap after 52 days; a stay must not come back with them.
	wrap := base.Timestamp(1<<32) << tickShift
	near := start/wrap*wrap + wrap - 2*second // just before
	q := mustNew(t, Params{})
	for i := range base.Timestamp(4) {
		d := q.Record(Access{Key: key(2), Home: 1, From: 2, At: near + i*second})
		if d.Move != (i == 2 || i == 3) {
			t.Errorf("access %d across the wrap: %+v", i, d)
		}
	}
	if e := elapsed(5, 1<<32-5); e != 10 {
		t.Errorf("elapsed across the wrap is %d", e)
	}
}

func TestSummary(t *testing.T) {
	for e := uint64(0); e < 1<<32; e = e*9/8 + 1 {
		got := uint64(unpackAge(packAge(uint32(e))))
		if got > e || float64(got) < float64(e)*7/8 {
			t.Errorf("age %d came back as %d", e, got)
		}
	}
	unpackAge(255) // what nobody packs must not crash

	old, next := mustNew(t, Params{}), mustNew(t, Params{})
	k := key(1)
	if _, ok := old.Export(k, start); ok {
		t.Error("a row never seen was exported")
	}
	for i := range 30 {
		old.Record(Access{Key: k, Home: 1, From: 1, At: start + base.Timestamp(i)*second})
	}
	var at base.Timestamp
	for i := range 20 {
		at = start + base.Timestamp(30+i)*second
		if old.Record(Access{Key: k, Home: 1, From: 2, At: at}).Move {
			break
		}
	}
	sum, ok := old.Export(k, at)
	if !ok {
		t.Fatal("nothing to export")
	}
	was, _ := old.Heat(k, at)
	old.Moved(k, 2, at)
	next.Import(k, 2, 1, at, sum)
	a, _ := old.Heat(k, at)
	b, _ := next.Heat(k, at)
	if a != b {
		t.Errorf("old owner %+v, new owner %+v", a, b)
	}
	if b.Home != 2 || b.Stay == 0 || b.Heat.Of(1) > b.Heat.Of(2)/2 || b.Heat.Of(2) != was.Heat.Of(2) {
		t.Errorf("%+v became %+v", was, b)
	}
	// An owner that was the old one keeps what it knows better.
	old.Import(k, 2, 1, at, Summary{})
	if c, _ := old.Heat(k, at); c != a {
		t.Errorf("%+v became %+v", a, c)
	}
	// Unknown history, unknown version.
	for i, x := range []Summary{{}, {0xf0, 99, 99}} {
		next.Import(key(5+i), 3, 9, at, x)
		if c, ok := next.Heat(key(5+i), at); !ok || c.Home != 3 || c.Heat != (Heats{}) || c.Stay == 0 {
			t.Errorf("import of %v: %+v", x, c)
		}
	}
	next.Forget(k)
	if _, ok := next.Heat(k, at); ok {
		t.Error("not forgotten")
	}
}

// A summary has room for six regions if one of them is above the seventh: the hottest ones travel.
func TestSummaryOfManyRegions(t *testing.T) {
	old, next := mustNew(t, Params{Mode: Never}), mustNew(t, Params{Mode: Never})
	k := key(1)
	at := start
	for r := base.RegionID(1); r <= 9; r++ {
		for range 10 * r { // the higher, the hotter
			at += second / 10
			old.Record(Access{Key: k, Home: 9, From: r, At: at})
		}
	}
	sum, ok := old.Export(k, at)
	if !ok || sum[0]>>4 != hottest {
		t.Fatalf("exported %v, %v", sum, ok)
	}
	was, _ := old.Heat(k, at)
	next.Import(k, 9, 1, at, sum)
	got, _ := next.Heat(k, at)
	kept := 0
	for r := base.RegionID(1); r <= base.MaxRegions; r++ {
		switch a, b := was.Heat.Of(r), got.Heat.Of(r); {
		case b == 0:
		case b < min(a, got.Heat.Of(9)/2)*3/4 || b > a: // none has more than half of the new home's
			t.Errorf("region %d: %v became %v", r, a, b)
		default:
			kept++
		}
	}
	if kept != mostHottest || got.Heat.Of(9) == 0 || got.Heat.Of(8) == 0 {
		t.Errorf("%d regions kept of %+v: %+v", kept, was.Heat, got.Heat)
	}
	for r := range 16 { // what nobody packs must not crash
		x := Summary{hottest << 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, byte(r<<4 | r), byte(r), 255}
		next.Import(key(50+r), 3, 9, at, x)
	}
}

// A replica that is told of moves by key only takes the label's count when it
// sees it, and does not take the move for two.
func TestMovedElsewhere(t *testing.T) {
	p := mustNew(t, Params{})
	k := key(1)
	p.Record(Access{Key: k, Home: 1, From: 1, Changes: 4, At: start})
	p.Moved(k, 2, start+60*second)
	p.Moved(k, 3, start+61*second)
	before, _ := p.Heat(k, start+62*second)
	p.Record(Access{Key: k, Home: 3, From: 3, Changes: 6, At: start + 62*second})
	after, _ := p.Heat(k, start+62*second)
	if after.Stay != before.Stay || after.Quick != before.Quick || after.Home != 3 {
		t.Errorf("%+v became %+v", before, after)
	}
}

// Memory stays bounded; hot rows survive a scan of cold ones.
func TestEviction(t *testing.T) {
	const limit = 256 << 10
	p := mustNew(t, Params{Memory: limit, RSize: 500})
	rng := rand.New(rand.NewPCG(1, 9))
	at := start
	for range 30 {
		for n := range 100 {
			p.Record(Access{Key: key(n), Home: 1, From: 1, At: at})
		}
	}
	for n := range 50_000 {
		at += second / 1000
		// each twice: recorded, too
		p.Record(Access{Key: key(1000 + n/2), Home: 1, From: 1, At: at})
		p.Record(Access{Key: key(rng.IntN(100)), Home: 1, From: 1, At: at})
		if n%5000 == 0 {
			check(t, p)
		}
	}
	x := p.Stats()
	if x.Bytes > limit || x.Evicted == 0 || x.Recorded > 500 {
		t.Errorf("%+v", x)
	}
	lost := 0
	for n := range 100 {
		if h, ok := p.Heat(key(n), at); !ok || h.Heat.Of(1) < 20 {
			lost++
		}
	}
	if lost > 0 {
		t.Errorf("%d of 100 hot rows were evicted by a scan", lost)
	}
	top := p.Top(100, at)
	if len(top) != 100 || top[0].Heat.Heat.Of(1) < top[99].Heat.Heat.Of(1) {
		t.Fatalf("top: %d rows", len(top))
	}
	if err := p.SetParams(Params{Memory: minMemory, Prefetch: -1}, at); err != nil {
		t.Fatal(err)
	}
	check(t, p)
	if x := p.Stats(); x.Bytes > minMemory || x.Recorded != 0 {
		t.Errorf("after shrinking: %+v", x)
	}
	if len(p.Top(-1, at)) != 0 || len(p.Top(1<<40, at)) != p.Stats().Rows {
		t.Error("top of none and of all")
	}
	long := make(base.Key, maxKey+1)
	q := mustNew(t, Params{})
	for range 3 {
		q.Record(Access{Key: long, Home: 1, From: 1, At: at})
	}
	if x := q.Stats(); x.Rows != 1 || x.Recorded != 0 {
		t.Errorf("a key too long to keep: %+v", x)
	}
	if s := unsafe.Sizeof(row{}); s != 104 {
		t.Errorf("a row has %d bytes, not 104", s)
	}
	if s := unsafe.Sizeof(vec{}); s > vecCost {
		t.Errorf("a vector has %d bytes, more than vecCost", s)
	}
}

// check verifies that index, rows and vectors agree.
func check(t *testing.T, p *Policy) {
	t.Helper()
	for i := range p.stripes {
		s := &p.stripes[i]
		bytes, vecs := 0, 0
		for j, r := range s.rows {
			if s.index[r.hash] != uint32(j) || p.stripe(r.hash) != s {
				t.Fatalf("stripe %d row %d is not where its index says", i, j)
			}
			if r.vec != 0 {
				v := s.vecs[r.vec-1]
				if vecs++; v.row != uint32(j) || p.hash(v.key) != r.hash {
					t.Fatalf("stripe %d row %d has a vector of another", i, j)
				}
				bytes += v.bytes()
			}
		}
		if len(s.index) != len(s.rows) || vecs != len(s.vecs) || bytes != s.bytes {
			t.Fatalf("stripe %d: %d rows, %d in index; %d vectors, %d used; %d bytes, %d counted", i, len(s.rows),
				len(s.index), len(s.vecs), vecs, s.bytes, bytes)
		}
	}
}

// Partners: who goes along, and who does not.
func TestGoesAlong(t *testing.T) {
	build := func(p Params) (*Policy, base.Timestamp) {
		p.MineInterval = Duration(time.Second)
		pol := mustNew(t, p)
		at, rng := start, rand.New(rand.NewPCG(2, 2))
		for i := range 2000 {
			at += second / 20
			group := rng.IntN(20)
			for n := range 3 {
				pol.Record(Access{Key: key(10*group + n), Home: 1, From: 1, At: at, Txn: txnID(uint64(i + 1))})
			}
		}
		return pol, at + 3600*second
	}
	move := func(p *Policy, n int, at base.Timestamp) (d Decision) {
		for i := range 3 {
			d = p.Record(Access{Key: key(n), Home: 1, From: 2, At: at, Txn: txnID(uint64(1_000_000 + 100*n + i))})
		}
		return d
	}
	has := func(d Decision, n int) bool {
		for _, k := range d.With {
			if k.Compare(key(n)) == 0 {
				return true
			}
		}
		return false
	}
	p, at := build(Params{})
	// What is used next is named to other regions that announce a write, moves or not; to nobody
	// else.
	for _, x := range []struct {
		from  base.RegionID
		write bool
		want  int
	}{{2, true, 2}, {2, false, 0}, {1, true, 0}} {
		a := Access{Key: key(50), Home: 1, From: x.from, Write: x.write, At: at,
			Txn: txnID(9_000_000 + uint64(x.from)*2 + uint64(x.want))}
		if d := p.Record(a); len(d.Along) != x.want || d.Move {
			t.Errorf("%+v: %d rows along, want %d; %+v", x, len(d.Along), x.want, d)
		}
	}
	if d := move(p, 10, at); !d.Move || len(d.With) != 2 || !has(d, 11) || !has(d, 12) || d.Reason.With != 2 {
		t.Errorf("row 10: %+v", d)
	}
	p.Record(Access{Key: key(21), Home: 1, From: 1, At: at, Pinned: true})
	if d := move(p, 20, at); !d.Move || has(d, 21) || !has(d, 22) {
		t.Errorf("row 21 is pinned: %+v", d)
	}
	p.Moved(key(31), 3, at)
	if d := move(p, 30, at); !d.Move || has(d, 31) {
		t.Errorf("row 31 lives elsewhere: %+v", d)
	}
	for range 20 {
		p.Record(Access{Key: key(41), Home: 1, From: 1, At: at})
	}
	if d := move(p, 40, at); !d.Move || has(d, 41) {
		t.Errorf("row 41 is busy at home: %+v", d)
	}
	p.Import(key(51), 1, 4, at, Summary{})
	if d := move(p, 50, at); !d.Move || has(d, 51) {
		t.Errorf("row 51 has just come: %+v", d)
	}
	p, at = build(Params{Prefetch: 1})
	if d := move(p, 10, at); !d.Move || len(d.With) != 1 {
		t.Errorf("prefetch 1: %+v", d)
	}
	p, at = build(Params{Prefetch: -1})
	if d := move(p, 10, at); !d.Move || len(d.With) != 0 {
		t.Errorf("prefetch off: %+v", d)
	}
}

// Rows that got out of step, one having been recorded for longer, become partners all the same.
func TestOutOfStep(t *testing.T) {
	p := mustNew(t, Params{MineInterval: Duration(time.Second)})
	at := start
	for i := range 200 {
		at += second / 10
		for n := range 10 { // other traffic
			p.Record(Access{Key: key(100 + (10*i+n)%977), Home: 1, From: 1, At: at})
		}
		txn := txnID(uint64(i + 1))
		p.Record(Access{Key: key(1), Home: 1, From: 1, At: at, Txn: txn})
		if i > 4 {
			p.Record(Access{Key: key(2), Home: 1, From: 1, At: at, Txn: txn})
		}
	}
	if h, _ := p.Heat(key(1), at); h.With != 1 {
		t.Errorf("no partner: %+v %+v", h, p.Stats())
	}
}

// Determinism: the same seed and calls, the same answers.
func TestDeterminism(t *testing.T) {
	run := func() (x Stats, moves []int) {
		p := mustNew(t, Params{Memory: minMemory, MiningRows: 20})
		rng := rand.New(rand.NewPCG(8, 8))
		for i := range 20_000 {
			n := rng.IntN(400)
			d := p.Record(Access{Key: key(n), Home: 1, From: base.RegionID(1 + rng.IntN(10)/8),
				Txn: txnID(uint64(1 + i/4)), At: start + base.Timestamp(i)*second/100})
			if d.Move {
				moves = append(moves, i, n, len(d.With))
			}
		}
		return p.Stats(), moves
	}
	a, am := run()
	b, bm := run()
	if a != b || len(am) != len(bm) {
		t.Fatalf("%+v\n%+v", a, b)
	}
	for i := range am {
		if am[i] != bm[i] {
			t.Fatal("another move")
		}
	}
}

// TestConcurrent is for the race detector: everything at once.
func TestConcurrent(t *testing.T) {
	p := mustNew(t, Params{Memory: minMemory, MiningRows: 10})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(g), 1))
			for i := range 5000 {
				k, at := key(rng.IntN(300)), start+base.Timestamp(i)*second/50
				d := p.Record(Access{Key: k, Home: 1, From: base.RegionID(1 + rng.IntN(3)), Txn: txnID(uint64(1 + i/3)), At: at})
				switch i % 50 {
				case 0:
					p.Top(3, at)
				case 1:
					p.Stats()
				case 2:
					p.Explain(Access{Key: k, Home: 1, From: 2, At: at})
				case 3:
					if err := p.SetParams(Params{Memory: minMemory + int64(rng.IntN(minMemory)), MiningRows: 10,
						MinFreq: 2 + rng.IntN(14)}, at); err != nil {
						t.Error(err)
					}
				}
				if d.Move {
					if x, ok := p.Export(k, at); ok {
						p.Import(k, d.To, 1, at, x)
					}
					p.Moved(k, 1, at)
				}
			}
		})
	}
	wg.Wait()
	check(t, p)
}

// The common access allocates nothing.
func TestRecordAllocates(t *testing.T) {
	p := mustNew(t, Params{MiningRows: 1 << 16})
	k, i := key(1), uint64(0)
	one := func() {
		i++
		p.Record(Access{Key: k, Home: 1, From: 1, Write: true, At: start + base.Timestamp(i)<<10, Txn: txnID(i)})
	}
	for range 100 {
		one()
	}
	if n := testing.AllocsPerRun(1000, one); n != 0 {
		t.Errorf("%v allocations an access", n)
	}
}
