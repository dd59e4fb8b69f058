package expr

import (
	"math"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"

	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// Text is a value as MySQL shows it. A TIMESTAMP is shown in UTC: cast it for the session's zone.
func (x Value) Text(t Type) string {
	if x.IsNull() {
		return "NULL"
	}
	if x.Kind.Form() == FormS {
		return x.S
	}
	return string(x.AppendText(nil, t))
}

// AppendText writes a value that is not NULL as MySQL shows it.
func (x Value) AppendText(b []byte, t Type) []byte {
	switch x.Kind {
	case Decimal:
		return x.D.Append(b, 'f')
	case Float:
		return AppendFloat(b, x.F, t.Precision == 24)
	case Text, Bytes, JSON:
		return append(b, x.S...)
	}
	return appendInt(b, x.I, t)
}

// AppendText writes the value at i, which is not NULL, as MySQL shows it.
func (v *Vec) AppendText(b []byte, i int32) []byte {
	switch v.T.Kind.Form() {
	case FormF:
		return AppendFloat(b, v.F[i], v.T.Precision == 24)
	case FormS:
		return append(b, v.S[i]...)
	}
	if v.T.Kind == Decimal {
		if v.D != nil {
			return v.D[i].Append(b, 'f')
		}
		return appendDec64(b, v.I[i], v.T.Scale)
	}
	return appendInt(b, v.I[i], v.T)
}

// appendInt writes what is held as an integer.
func appendInt(b []byte, x int64, t Type) []byte {
	switch t.Kind {
	case Uint:
		return strconv.AppendUint(b, uint64(x), 10)
	case Date:
		return calendar.AppendDate(b, x)
	case Datetime, Timestamp:
		return calendar.AppendDatetime(b, x, t.Scale)
	case Duration:
		return calendar.AppendDuration(b, x, t.Scale)
	case Year:
		if x == 0 {
			return append(b, "0000"...)
		}
	case Enum:
		if x > 0 && int(x) <= len(t.Values) {
			return append(b, t.Values[x-1]...)
		}
		return b
	case Set:
		return appendSet(b, uint64(x), t)
	case Bit:
		n := (max(t.Length, 1) + 7) / 8
		for k := n - 1; k >= 0; k-- {
			b = append(b, byte(uint64(x)>>(8*k)))
		}
		return b
	}
	return strconv.AppendInt(b, x, 10)
}

func appendSet(b []byte, x uint64, t Type) []byte {
	sep := ""
	for k, m := range t.Values {
		if x>>k&1 != 0 {
			b = append(append(b, sep...), m...)
			sep = ","
		}
	}
	return b
}

// appendDec64 writes x / 10^scale with all digits of the scale.
func appendDec64(b []byte, x int64, scale int) []byte {
	if scale == 0 {
		return strconv.AppendInt(b, x, 10)
	}
	if x < 0 {
		b = append(b, '-')
	}
	u := Abs64(x)
	if scale > 18 {
		d := apd.New(0, int32(-scale))
		d.Coeff.SetUint64(u)
		return d.Append(b, 'f')
	}
	unit := uint64(tens[scale])
	b = append(strconv.AppendUint(b, u/unit, 10), '.')
	f := strconv.FormatUint(u%unit, 10)
	for range scale - len(f) {
		b = append(b, '0')
	}
	return append(b, f...)
}

// AppendFloat writes a double as MySQL does: the shortest digits, with an exponent from 1e15 on
// and below 1e-15. A FLOAT has six digits.
func AppendFloat(b []byte, f float64, single bool) []byte {
	if f == 0 {
		return append(b, '0')
	}
	prec, size := -1, 64
	if single {
		prec, size = 5, 32
	}
	s := strconv.FormatFloat(f, 'e', prec, size)
	e := strings.IndexByte(s, 'e')
	if e < 0 {
		return append(b, s...)
	}
	exp, _ := strconv.Atoi(s[e+1:])
	digits := s[:e]
	if strings.Contains(digits, ".") {
		digits = strings.TrimRight(strings.TrimRight(digits, "0"), ".")
	}
	if exp >= 15 || exp < -15 {
		b = append(append(b, digits...), 'e')
		return strconv.AppendInt(b, int64(exp), 10)
	}
	neg := strings.HasPrefix(digits, "-")
	digits = strings.Replace(strings.TrimPrefix(digits, "-"), ".", "", 1)
	if neg {
		b = append(b, '-')
	}
	if exp < 0 {
		b = append(b, "0."...)
		b = append(b, strings.Repeat("0", -exp-1)...)
		return append(b, digits...)
	}
	if len(digits) <= exp+1 {
		b = append(b, digits...)
		return append(b, strings.Repeat("0", exp+1-len(digits))...)
	}
	b = append(append(b, digits[:exp+1]...), '.')
	return append(b, digits[exp+1:]...)
}

// NumberPrefix is the longest beginning of a string that is a number, without spaces before it;
// empty: there is none. whole says that nothing but spaces follows.
func NumberPrefix(s string) (num string, whole bool) {
	s = strings.TrimLeft(s, " \t\n\r\v\f")
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		i++
	}
	digits := 0
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
		digits++
	}
	if i < len(s) && s[i] == '.' {
		i++
		for i < len(s) && s[i] >= '0' && s[i] <= '9' {
			i++
			digits++
		}
	}
	if digits == 0 {
		return "", false
	}
	i = exponent(s, i)
	return s[:i], strings.TrimRight(s[i:], " \t\n\r\v\f") == ""
}

// exponent is the end of the exponent that begins at i, or i.
func exponent(s string, i int) int {
	if i >= len(s) || s[i]|0x20 != 'e' {
		return i
	}
	j := i + 1
	if j < len(s) && (s[j] == '-' || s[j] == '+') {
		j++
	}
	k := j
	for k < len(s) && s[k] >= '0' && s[k] <= '9' {
		k++
	}
	if k == j {
		return i
	}
	return k
}

// FloatOf is a string as a double; false if a part of it means nothing.
func FloatOf(s string) (float64, bool) {
	num, whole := NumberPrefix(s)
	if num == "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(shorten(num, 1100, 400), 64) // a DOUBLE has up to 767 digits
	if err != nil {
		if math.IsInf(f, 0) {
			return math.Copysign(math.MaxFloat64, f), false
		}
		return 0, false
	}
	return f, whole
}

// intOf is a string as a whole number: what follows the digits is dropped. neg values are
// returned as their bits; over reports that it does not fit 64 bits.
func intOf(s string) (x uint64, neg, whole, over bool) {
	s = strings.TrimLeft(s, " \t\n\r\v\f")
	i := 0
	if i < len(s) && (s[i] == '-' || s[i] == '+') {
		neg = s[i] == '-'
		i++
	}
	start := i
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		d := uint64(s[i] - '0')
		if x > (math.MaxUint64-d)/10 {
			over = true
		}
		x = x*10 + d
		i++
	}
	whole = i > start && strings.TrimRight(s[i:], " \t\n\r\v\f") == ""
	if over {
		x = math.MaxUint64
	}
	return x, neg, whole, over
}

const (
	// longNumber is how long the text of a number may be before its end does not matter.
	longNumber = 1000
	// keptDigits is how many of its digits are kept: more than a DECIMAL has.
	keptDigits = 200
	// readDigits is how many MySQL reads before the point. A number with more is the largest one.
	readDigits = 81
)

// ShortNumber is the text of a number without the digits and the exponent that no DECIMAL has. The
// time to read a number grows with the square of its length.
func ShortNumber(num string) string { return shorten(num, keptDigits, readDigits) }

// shorten keeps some digits of a number. One with more than read before the point is the largest.
func shorten(num string, kept, read int) string {
	e := strings.IndexAny(num, "eE")
	if e < 0 && len(num) <= longNumber {
		return num
	}
	mantissa, exp := num, 0
	if e >= 0 {
		mantissa = num[:e]
		exp, _ = strconv.Atoi(num[e+1:]) // the largest, if there are more digits
		exp = min(max(exp, -1<<40), 1<<40)
	}
	sign := ""
	if mantissa[0] == '-' || mantissa[0] == '+' {
		sign, mantissa = mantissa[:1], mantissa[1:]
	}
	whole, frac, _ := strings.Cut(mantissa, ".")
	if whole = strings.TrimLeft(whole, "0"); whole == "" {
		short := strings.TrimLeft(frac, "0")
		exp -= len(frac) - len(short)
		frac = short
	}
	switch digits := len(whole) + exp; {
	case whole+frac == "" || digits < -kept:
		return "0"
	case digits > read:
		return sign + strings.Repeat("9", read+1) // more than any
	}
	if drop := len(whole) - kept; drop > 0 {
		whole, frac = whole[:kept], ""
		exp += drop
	}
	if len(frac) > kept {
		frac = frac[:kept]
	}
	return sign + "0" + whole + "." + frac + "e" + strconv.Itoa(exp)
}

// decOf is a string as a DECIMAL; false if a part of it means nothing.
func decOf(s string) (*apd.Decimal, bool) {
	num, whole := NumberPrefix(s)
	if num == "" {
		return new(apd.Decimal), false
	}
	d, _, err := apd.NewFromString(ShortNumber(num))
	if err != nil || d.Form != apd.Finite || d.Exponent > 100 || d.Exponent < -1000 {
		return new(apd.Decimal), false
	}
	return d, whole && d.NumDigits()+int64(d.Exponent) <= readDigits
}
