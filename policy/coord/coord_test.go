package coord

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/policy/matrix"
)

// sites are n nodes at the places of PlanetLab: several share one, a LAN apart.
func sites(t testing.TB, n int) func(i, j int) time.Duration {
	t.Helper()
	m, err := matrix.Open(matrix.PlanetLab)
	if err != nil {
		t.Fatal(err)
	}
	return func(i, j int) time.Duration {
		if a, b := i%m.Len(), j%m.Len(); a != b {
			return max(m.RTT[a][b], 100*time.Microsecond)
		}
		return 500 * time.Microsecond
	}
}

func run(t testing.TB, n, periods int, truth func(i, j int) time.Duration, opt Options) (*Map, int) {
	t.Helper()
	m, err := New(n, opt)
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for p := range periods {
		if p == periods/3 {
			m.Settle()
		}
		for i := range n {
			near, samples := m.Probes(i)
			for _, j := range near {
				if err := m.Observe(i, j, truth(i, j)); err != nil {
					t.Fatal(err)
				}
			}
			for _, j := range samples {
				m.Verify(i, j, truth(i, j))
			}
			most = max(most, len(near)+len(samples))
		}
	}
	return m, most
}

// errorsOf are the relative errors of all pairs, sorted.
func errorsOf(m *Map, n int, truth func(i, j int) time.Duration) (errs []float64) {
	for i := range n {
		for j := range i {
			d := truth(i, j)
			e := m.RTT(i, j)
			errs = append(errs, float64(max(e-d, d-e))/float64(d))
		}
	}
	slices.Sort(errs)
	return errs
}

func TestEstimatesFromFewProbes(t *testing.T) {
	const n = 200
	truth := sites(t, n)
	m, most := run(t, n, 40, truth, Options{Seed: 1})
	if most > 12+20+5 {
		t.Errorf("a node probes %d peers", most)
	}
	errs := errorsOf(m, n, truth)
	if med := errs[len(errs)/2]; med > 0.18 {
		t.Errorf("median error %.2f", med)
	}
}

// COORD-2: what was measured stands, and goes when it agrees again or is old.
func TestSamplesCorrectEstimates(t *testing.T) {
	truth := sites(t, 50)
	m, _ := run(t, 50, 20, truth, Options{Seed: 1, Overrides: 3})
	odd := 10 * m.Raw(1, 2)
	if off := m.Verify(1, 2, odd); off < 0.8 {
		t.Errorf("off by %v", off)
	}
	if m.RTT(1, 2) != odd || m.RTT(2, 1) != odd {
		t.Error("the sample is not used")
	}
	m.Verify(1, 2, m.Raw(1, 2))
	if m.RTT(1, 2) != m.Raw(1, 2) {
		t.Error("it stands although the estimate is right again")
	}
	m.Verify(1, 2, odd)
	for j := 3; j < 6; j++ {
		m.Verify(1, j, 10*m.Raw(1, j))
	}
	if _, ok := m.nodes[1].fixed[2]; ok || len(m.nodes[1].fixed) != 3 {
		t.Error("the oldest was not dropped")
	}
}

func TestSmallMaps(t *testing.T) {
	for n := 1; n < 5; n++ {
		m, _ := run(t, n, 9, func(i, j int) time.Duration { return 10 * time.Millisecond }, Options{})
		if len(m.OneWays()) != n {
			t.Error(n)
		}
	}
}

// What travels is what was, but for the precision; what is no coordinate is refused.
func TestEncode(t *testing.T) {
	truth := sites(t, 20)
	m, _ := run(t, 20, 20, truth, Options{Seed: 1})
	for i := range 20 {
		a, b := m.nodes[i].Coordinate(), m.nodes[(i+1)%20].Coordinate()
		x, err := Decode(Encode(a))
		if err != nil {
			t.Fatal(err)
		}
		if d, e := Distance(a, b), Distance(x, b); max(d-e, e-d) > time.Microsecond {
			t.Errorf("%v became %v", d, e)
		}
	}
	bad := Encode(m.nodes[0].Coordinate())
	for _, v := range [][]float32{nil, bad[1:], append(bad[:3:3], append([]float32{float32(math.NaN())}, bad[4:]...)...)} {
		if _, err := Decode(v); err == nil {
			t.Errorf("%v is taken", v)
		}
	}
}

func BenchmarkObserve(b *testing.B) {
	truth := sites(b, 490)
	m, _ := run(b, 490, 1, truth, Options{})
	rnd := rand.New(rand.NewPCG(1, 1))
	for b.Loop() {
		i := rnd.IntN(490)
		j := m.nodes[i].peers[rnd.IntN(len(m.nodes[i].peers))]
		if err := m.Observe(i, j, truth(i, j)); err != nil {
			b.Fatal(err)
		}
	}
}
