package expr

import "github.com/cockroachdb/apd/v3"

// NumberPrefix is the longest beginning of a string that is a number, without spaces before it;
// empty: there is none. whole says that nothing but spaces follows.
func NumberPrefix(s string) (num string, whole bool) { return numberPrefix(s) }

// FloatOf is a string as a double; false if a part of it means nothing.
func FloatOf(s string) (float64, bool) { return floatOf(s) }

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
