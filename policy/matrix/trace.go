package matrix

import (
	"math"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Trace is a matrix that changes with time: measured at points at equal distances, and interpolated
// between them by PCHIP, as GeoLM's evaluation does.
type Trace struct {
	Names  []string
	every  time.Duration
	points int
	curves [][]pchip // [i][j]
}

// Interpolate plays matrices of the same regions, one after the other, every so often; that need
// not be the time between the measurements.
func Interpolate(points []*Matrix, every time.Duration) (*Trace, error) {
	if len(points) == 0 || every <= 0 {
		return nil, base.Errorf(base.CodeInvalid, "%d latency matrices, one every %v, make no trace", len(points), every)
	}
	t := &Trace{Names: points[0].Names, every: every, points: len(points), curves: make([][]pchip, points[0].Len())}
	for k, m := range points {
		if !slices.Equal(m.Names, t.Names) {
			return nil, base.Errorf(base.CodeInvalid, "latency matrix %d of a trace has other regions than the first", k+1)
		}
	}
	for i := range t.Names {
		for j := range t.Names {
			y := make([]float64, len(points))
			for k, m := range points {
				if y[k] = float64(m.RTT[i][j]); m.RTT[i][j] < 0 {
					return nil, base.Errorf(base.CodeInvalid,
						"latency matrix %d of a trace: the round trip between %s and %s was not measured", k+1,
						t.Names[i], t.Names[j])
				}
			}
			t.curves[i] = append(t.curves[i], newPCHIP(y))
		}
	}
	return t, nil
}

// Span is the time from the first to the last point.
func (t *Trace) Span() time.Duration { return time.Duration(t.points-1) * t.every }

// At is the matrix at a time since the first point; after the last one the trace runs backwards,
// and so on, so that it never jumps.
func (t *Trace) At(d time.Duration) *Matrix {
	x := float64(d) / float64(t.every)
	if last := float64(t.points - 1); last > 0 {
		if x = math.Mod(math.Abs(x), 2*last); x > last {
			x = 2*last - x
		}
	}
	m := &Matrix{Names: t.Names, RTT: make([][]time.Duration, len(t.Names))}
	for i := range m.RTT {
		m.RTT[i] = make([]time.Duration, len(t.Names))
		for j := range m.RTT[i] {
			m.RTT[i][j] = time.Duration(t.curves[i][j].at(x))
		}
	}
	return m
}
