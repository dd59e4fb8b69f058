package matrix

import (
	"encoding/csv"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Trace is a matrix that changes with time: measured at points at equal distances, and interpolated between
// them by PCHIP, as GeoLM's evaluation does.
type Trace struct {
	Names []string
	// Every is the time between two points, as it is played; it need not be that of the measurement.
	Every  time.Duration
	points int
	curves [][]pchip // [i][j]
}

// Series is the embedded trace: ten nodes of the Seattle testbed, 688 points.
const Series = "seattle10_series"

// OpenSeries returns the embedded trace, played with a point each so often.
func OpenSeries(every time.Duration) (*Trace, error) {
	f, err := data.Open("data/" + Series + ".csv")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ParseSeries(f, Series, every)
}

// ParseSeries reads a trace as CSV: the header has a name for the number of the point and then "A-B" for each directed pair, each
// row is a point, values are round trips in ms. Errors are of CodeInvalid.
func ParseSeries(r io.Reader, name string, every time.Duration) (*Trace, error) {
	fail := func(format string, args ...any) error {
		return base.Errorf(base.CodeInvalid, "latency series "+strings.ReplaceAll(name, "%", "%%")+": "+format, args...)
	}
	recs, err := csv.NewReader(r).ReadAll() // all rows are as long as the first
	if err != nil {
		return nil, fail("%v", err)
	}
	if len(recs) < 2 || len(recs[0]) < 3 {
		return nil, fail("it needs a header that names pairs of regions, and rows of round-trip times (ms)")
	}
	t := &Trace{Every: every, points: len(recs) - 1}
	index := map[string]int{}
	number := func(s string) int {
		i, ok := index[s]
		if !ok {
			i = len(t.Names)
			index[s] = i
			t.Names = append(t.Names, s)
		}
		return i
	}
	type pair struct{ a, b int }
	var columns []pair
	for _, h := range recs[0][1:] {
		a, b, ok := strings.Cut(h, "-")
		if !ok || a == b {
			return nil, fail("column %q is not a pair A-B", h)
		}
		columns = append(columns, pair{number(a), number(b)})
	}
	values := map[pair][]float64{}
	for c, p := range columns {
		if values[p] != nil {
			return nil, fail("column %s is there twice", recs[0][c+1])
		}
		v := make([]float64, t.points)
		for i, rec := range recs[1:] {
			ms, err := strconv.ParseFloat(rec[c+1], 64)
			if err != nil || math.IsNaN(ms) || ms < 0 || ms > float64(maxRTT/time.Millisecond) {
				return nil, fail("line %d, %s: %q is not a round-trip time in ms", i+2, recs[0][c+1], rec[c+1])
			}
			v[i] = ms
		}
		values[p] = v
	}
	n := len(t.Names)
	if len(values) != n*(n-1) {
		return nil, fail("%d regions make %d pairs, but there are %d columns", n, n*(n-1), len(values))
	}
	t.curves = make([][]pchip, n)
	for i := range n {
		t.curves[i] = make([]pchip, n)
		for j := range n {
			if v := values[pair{i, j}]; i != j {
				t.curves[i][j] = newPCHIP(v)
			} else {
				t.curves[i][j] = newPCHIP([]float64{0})
			}
		}
	}
	return t, t.check()
}

func (t *Trace) check() error {
	if t.Every <= 0 {
		return base.Errorf(base.CodeInvalid, "a latency series needs a time between its points above 0, not %v", t.Every)
	}
	return nil
}

// Vary makes a trace of a matrix of medians and one of 90th percentiles: at each point each pair of regions has a round trip drawn from the
// log-normal distribution that has these. So it has the measured means and spread, but how round trips follow on one another is made up.
func (m *Matrix) Vary(p90 *Matrix, points int, every time.Duration, seed uint64) (*Trace, error) {
	q, err := p90.Pick(m.Names...)
	if err != nil {
		return nil, err
	}
	if points < 1 {
		return nil, base.Errorf(base.CodeInvalid, "a latency series of %d points", points)
	}
	const z90 = 1.2815515655446004 // of the normal distribution
	t := &Trace{Names: m.Names, Every: every, points: points, curves: make([][]pchip, m.Len())}
	for i := range m.Names {
		t.curves[i] = make([]pchip, m.Len())
		for j := range m.Names {
			t.curves[i][j] = newPCHIP(make([]float64, 1))
		}
	}
	for i := range m.Names {
		for j := range i {
			r := rand.New(rand.NewPCG(seed, uint64(i*m.Len()+j)))
			mid, high := ms(m.RoundTrip(i, j)), ms(q.RoundTrip(i, j))
			sigma := math.Log(max(1, high/mid)) / z90
			v := make([]float64, points)
			for k := range v {
				v[k] = mid * math.Exp(sigma*r.NormFloat64())
			}
			t.curves[i][j] = newPCHIP(v) // a path and its way back change together
			t.curves[j][i] = t.curves[i][j]
		}
	}
	return t, t.check()
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Len is the number of regions.
func (t *Trace) Len() int { return len(t.Names) }

// Span is the time from the first to the last point.
func (t *Trace) Span() time.Duration { return time.Duration(t.points-1) * t.Every }

// At is the matrix at a time since the first point; after the last one the trace runs backwards, and so on, so that it never jumps.
func (t *Trace) At(d time.Duration) *Matrix {
	x := float64(d) / float64(t.Every)
	if last := float64(t.points - 1); last > 0 {
		if x = math.Mod(math.Abs(x), 2*last); x > last {
			x = 2*last - x
		}
	}
	m := &Matrix{Names: t.Names, RTT: make([][]time.Duration, t.Len())}
	for i := range m.RTT {
		m.RTT[i] = make([]time.Duration, t.Len())
		for j := range m.RTT[i] {
			m.RTT[i][j] = time.Duration(t.curves[i][j].at(x) * float64(time.Millisecond))
		}
	}
	return m
}
