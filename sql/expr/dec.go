package expr

import (
	"math"
	"math/bits"

	"github.com/cockroachdb/apd/v3"
)

// DecCtx computes with wide DECIMALs: more digits than any of MySQL's intermediate results have.
var DecCtx = func() *apd.Context {
	c := apd.BaseContext.WithPrecision(200)
	c.Rounding = apd.RoundHalfUp
	c.Traps = 0
	return c
}()

var tens = func() (t [19]int64) {
	t[0] = 1
	for i := 1; i < len(t); i++ {
		t[i] = t[i-1] * 10
	}
	return t
}()

// mul64 multiplies; false if the product does not fit.
func mul64(a, b int64) (int64, bool) {
	if a == 0 || b == 0 {
		return 0, true
	}
	neg := (a < 0) != (b < 0)
	hi, lo := bits.Mul64(Abs64(a), Abs64(b))
	if hi != 0 || lo > math.MaxInt64 {
		if hi == 0 && neg && lo == 1<<63 {
			return math.MinInt64, true
		}
		return 0, false
	}
	if neg {
		return -int64(lo), true
	}
	return int64(lo), true
}

// Abs64 is the absolute value.
func Abs64(a int64) uint64 {
	if a < 0 {
		return -uint64(a)
	}
	return uint64(a)
}

// Rescale64 changes the scale of a number, rounding half away from zero; false if it does not
// fit.
func Rescale64(x int64, from, to int) (int64, bool) {
	switch d := to - from; {
	case d == 0:
		return x, true
	case d > 18:
		return 0, x == 0
	case d > 0:
		return mul64(x, tens[d])
	case d < -18:
		return 0, true
	default:
		unit := tens[-d]
		q, r := x/unit, x%unit
		if Abs64(r) >= uint64(unit)-uint64(unit)/2 {
			if x < 0 {
				q--
			} else {
				q++
			}
		}
		return q, true
	}
}

// Rescale makes d a number with scale digits behind the point, rounded half away from zero.
func Rescale(d *apd.Decimal, x *apd.Decimal, scale int) {
	if x.Exponent == int32(-scale) {
		d.Set(x)
		return
	}
	_, _ = DecCtx.Quantize(d, x, int32(-scale))
	if d.IsZero() {
		d.Negative = false
	}
}

// maxDecimal is the largest number of a DECIMAL type.
func maxDecimal(precision, scale int, negative bool) *apd.Decimal {
	d := new(apd.Decimal)
	var ten apd.BigInt
	ten.SetInt64(10)
	var n apd.BigInt
	n.SetInt64(int64(precision))
	d.Coeff.Exp(&ten, &n, nil)
	d.Coeff.Sub(&d.Coeff, new(apd.BigInt).SetInt64(1))
	d.Exponent = int32(-scale)
	d.Negative = negative
	return d
}

// fits reports whether a number has at most precision digits.
func fits(d *apd.Decimal, precision int) bool { return d.NumDigits() <= int64(precision) }

// decOfUint is a whole number as a decimal.
func decOfUint(d *apd.Decimal, u uint64) {
	d.SetFinite(0, 0)
	d.Coeff.SetUint64(u)
}

// decOfFloat is the DECIMAL that MySQL makes of a double: its shortest text.
func decOfFloat(f float64) (*apd.Decimal, bool) {
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, false
	}
	d, err := new(apd.Decimal).SetFloat64(f)
	return d, err == nil
}

func floatOfDec(d *apd.Decimal) float64 {
	f, err := d.Float64()
	if err != nil && !math.IsInf(f, 0) {
		return 0
	}
	return f
}

// IntOfDec rounds to a whole number; out of range it is the nearest one, and false.
func IntOfDec(d *apd.Decimal) (int64, bool) {
	var r apd.Decimal
	Rescale(&r, d, 0)
	if x, ok := unscaled(&r); ok {
		return x, true
	}
	if r.Negative {
		// The lowest number has no positive twin.
		if r.Coeff.IsUint64() && r.Coeff.Uint64() == 1<<63 {
			return math.MinInt64, true
		}
		return math.MinInt64, false
	}
	return math.MaxInt64, false
}

// UintOfDec is IntOfDec for unsigned numbers. Negative ones wrap, as MySQL's do.
func UintOfDec(d *apd.Decimal) (uint64, bool) {
	if d.Negative {
		x, ok := IntOfDec(d)
		return uint64(x), ok && x == 0
	}
	var r apd.Decimal
	Rescale(&r, d, 0)
	if !r.Coeff.IsUint64() {
		return math.MaxUint64, false
	}
	return r.Coeff.Uint64(), true
}

// FitDecimal rounds a number to a DECIMAL type. ok is false if it has too many digits: then the
// result is the largest or the least one of the type.
func FitDecimal(d *apd.Decimal, precision, scale int) (r *apd.Decimal, ok bool) {
	r = new(apd.Decimal)
	Rescale(r, d, scale)
	if r.Form == apd.Finite && fits(r, precision) {
		return r, true
	}
	return maxDecimal(precision, scale, d.Negative), false
}
