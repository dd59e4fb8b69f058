package matrix

// pchip is a piecewise cubic Hermite interpolant through points at 0, 1, 2, ... that is monotone
// wherever they are: it neither overshoots a spike nor undershoots below it (Fritsch and Carlson
// 1980, with the slopes of Fritsch and Butland 1984, as in MATLAB and SciPy).
type pchip struct {
	y     []float64
	slope []float64
}

func newPCHIP(y []float64) pchip {
	n := len(y)
	p := pchip{y: y, slope: make([]float64, n)}
	step := func(i int) float64 { return y[i+1] - y[i] }
	switch {
	case n < 2:
		return p
	case n == 2:
		p.slope[0], p.slope[1] = step(0), step(0)
		return p
	}
	for i := 1; i < n-1; i++ {
		if a, b := step(i-1), step(i); a*b > 0 {
			p.slope[i] = 2 * a * b / (a + b)
		}
	}
	p.slope[0], p.slope[n-1] = endSlope(step(0), step(1)), endSlope(step(n-2), step(n-3))
	return p
}

// endSlope is the three-point estimate at an end, kept from breaking the monotony; a is the step at
// the end, b the next.
func endSlope(a, b float64) float64 {
	d := (3*a - b) / 2
	switch {
	case d*a <= 0:
		return 0
	case a*b <= 0 && (d > 3*a) == (a > 0):
		return 3 * a
	}
	return d
}

// at is the value at x; before the first and after the last point it is theirs.
func (p pchip) at(x float64) float64 {
	last := len(p.y) - 1
	if x <= 0 || last == 0 {
		return p.y[0]
	}
	if x >= float64(last) {
		return p.y[last]
	}
	i := int(x)
	t := x - float64(i)
	u := 1 - t
	return p.y[i]*(1+2*t)*u*u + p.slope[i]*t*u*u + p.y[i+1]*t*t*(3-2*t) - p.slope[i+1]*t*t*u
}
