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
	for x, want := range map[float64]float64{-1: 0, 0: 0, .5: .3125, 1: 1, 1.5: 2.6875, 2: 4, 2.5: 4, 3: 4,
		3.5: 3.375, 4: 2, 9: 2} {
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

// Between two points an interpolated round trip is between their values: a trace never has a path
// faster or slower than was measured.
func TestTraceStaysWithinItsPoints(t *testing.T) {
	const every = 10 * time.Second
	points, err := Seattle()
	if err != nil {
		t.Fatal(err)
	}
	tr, err := Interpolate(points, every)
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.Names) != 10 || tr.Span() != 687*every {
		t.Fatalf("%d regions over %v", len(tr.Names), tr.Span())
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

func TestInterpolateErrors(t *testing.T) {
	m, err := Default(3)
	if err != nil {
		t.Fatal(err)
	}
	other, err := Default(2)
	if err != nil {
		t.Fatal(err)
	}
	hole, err := Parse(strings.NewReader("us-east-1,us-west-2,eu-west-1\n0,1,\n1,0,1\n,1,0\n"), "hole")
	if err != nil {
		t.Fatal(err)
	}
	for name, points := range map[string][]*Matrix{"none": nil, "other regions": {m, other}, "not measured": {m, hole}} {
		if _, err := Interpolate(points, time.Second); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Interpolate([]*Matrix{m}, 0); base.CodeOf(err) != base.CodeInvalid {
		t.Error(err)
	}
}
