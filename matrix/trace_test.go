package matrix

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// The slopes and values are those of the formulas worked by hand for these points.
func TestPCHIP(t *testing.T) {
	p := newPCHIP([]float64{0, 1, 4, 4, 2})
	for i, want := range []float64{0, 1.5, 0, 0, -3} {
		if math.Abs(p.slope[i]-want) > 1e-12 {
			t.Errorf("slope at %d is %v, want %v", i, p.slope[i], want)
		}
	}
	for x, want := range map[float64]float64{-1: 0, 0: 0, .5: .3125, 1: 1, 1.5: 2.6875, 2: 4, 2.5: 4, 3: 4, 3.5: 3.375, 4: 2, 9: 2} {
		if got := p.at(x); math.Abs(got-want) > 1e-12 {
			t.Errorf("at %v it is %v, want %v", x, got, want)
		}
	}
	if got := newPCHIP([]float64{1, 3}).at(.25); got != 1.5 {
		t.Errorf("two points make a line, not %v at a quarter", got)
	}
	// An end slope that would overshoot is bounded to three times the step.
	if got := newPCHIP([]float64{0, 1, -10, -10}).slope[0]; got != 3 {
		t.Errorf("end slope %v, want 3", got)
	}
}

// Between two points an interpolated round trip is between their values: a trace never has a path faster or slower than was measured.
func TestTraceStaysWithinItsPoints(t *testing.T) {
	const every = 10 * time.Second
	tr, err := OpenSeries(every)
	if err != nil {
		t.Fatal(err)
	}
	if tr.Len() != 10 || tr.Span() != 687*every {
		t.Fatalf("%d regions over %v", tr.Len(), tr.Span())
	}
	for k := range 687 {
		a, b, mid := tr.At(time.Duration(k)*every), tr.At(time.Duration(k+1)*every), tr.At(time.Duration(k)*every+every/3)
		for i := range tr.Names {
			for j := range tr.Names {
				lo, hi := min(a.RTT[i][j], b.RTT[i][j]), max(a.RTT[i][j], b.RTT[i][j])
				if d := mid.RTT[i][j]; d < lo-1 || d > hi+1 {
					t.Fatalf("point %d, %d to %d: %v between %v and %v", k, i, j, d, a.RTT[i][j], b.RTT[i][j])
				}
			}
		}
	}
	first := tr.At(0)
	if first.RTT[0][3] != 200*time.Millisecond || first.RTT[0][0] != 0 {
		t.Errorf("the first point has %v", first.RTT[0])
	}
	if back := tr.At(2 * tr.Span()); back.RTT[0][3] != first.RTT[0][3] {
		t.Error("it does not come back to its beginning")
	}
}

func TestVaryHasTheMeasuredSpread(t *testing.T) {
	m, err := Default(5)
	if err != nil {
		t.Fatal(err)
	}
	q, err := Open(AWS90)
	if err != nil {
		t.Fatal(err)
	}
	const n = 4000
	tr, err := m.Vary(q, n, time.Second, 1)
	if err != nil {
		t.Fatal(err)
	}
	p90, _ := q.Pick(m.Names...)
	for i := range m.Names {
		for j := range i {
			under50, under90 := 0, 0
			for k := range n {
				d := tr.At(time.Duration(k) * time.Second).RTT[i][j]
				if d <= m.RoundTrip(i, j) {
					under50++
				}
				if d <= p90.RoundTrip(i, j) {
					under90++
				}
			}
			if math.Abs(float64(under50)/n-.5) > .04 || math.Abs(float64(under90)/n-.9) > .03 {
				t.Errorf("%s-%s: %d of %d points below the median, %d below the 90th percentile", m.Names[i], m.Names[j], under50, n, under90)
			}
		}
	}
	again, _ := m.Vary(q, n, time.Second, 1)
	if tr.At(time.Hour).RTT[0][1] != again.At(time.Hour).RTT[0][1] {
		t.Error("the same seed gives another trace")
	}
}

func TestParseSeriesErrors(t *testing.T) {
	for text, want := range map[string]string{
		"slice,a-b,b-a\n":                       "needs a header",
		"slice,ab,b-a\n0,1,2\n":                 "not a pair",
		"slice,a-b,a-b\n0,1,2\n":                "twice",
		"slice,a-b,b-a\n0,1,-2\n":               "not a round-trip time",
		"slice,a-b,b-a,a-c,c-a\n0,1,2,3,4\n":    "make 6 pairs",
		"slice,a-b,b-a\n0,1\n":                  "wrong number of fields",
		"slice,a-b,b-a\n0,1,1\n1,20000,30000\n": "not a round-trip time",
	} {
		if _, err := ParseSeries(strings.NewReader(text), "x", time.Second); base.CodeOf(err) != base.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := ParseSeries(strings.NewReader("slice,a-b,b-a\n0,1,2\n"), "x", 0); base.CodeOf(err) != base.CodeInvalid {
		t.Error(err)
	}
}
