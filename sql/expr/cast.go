package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// castFunc converts the value at i of x, which is not NULL, to v, or makes it NULL.
type castFunc func(x *Vec, i int32, v *Vec) error

// castExpr converts a vector value by value; whole, if there is one, is a faster way.
type castExpr struct {
	arg   Expr
	t     Type
	f     castFunc
	whole func(x, v *Vec, sel []int32) bool
	v     Vec
}

// Type implements Expr.
func (c *castExpr) Type() Type { return c.t }

// Eval implements Expr.
func (c *castExpr) Eval(b *Batch, sel []int32) (*Vec, error) {
	x, err := c.arg.Eval(b, sel)
	if err != nil {
		return nil, err
	}
	v := &c.v
	v.Reset(c.t, b.N)
	if x.Null != nil {
		v.Null = x.Null
		sel = notNull(x, sel, nil)
	}
	if c.whole != nil && x.D == nil && c.whole(x, v, sel) {
		return v, nil
	}
	if x.Null != nil {
		v.Null = append([]bool(nil), x.Null...) // f may add to it
	}
	for _, i := range sel {
		if err := c.f(x, i, v); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func (k *Compiler) cast(n *Cast) (Expr, error) {
	if c, ok := n.Arg.(*Const); ok && c.Hex && n.T.Numeric() {
		u := uint64(0)
		for _, b := range []byte(c.V.S) {
			u = u<<8 | uint64(b)
		}
		return k.castExpr(NewConst(Value{Kind: Uint, I: int64(u)}, TypeUint), n.T, n.Explicit), nil
	}
	arg, err := k.Expr(n.Arg)
	if err != nil {
		return nil, err
	}
	if v, ok := ConstantOf(arg); ok {
		return k.castConst(arg, v, n)
	}
	return k.castExpr(arg, n.T, n.Explicit), nil
}

// castConst converts a constant. What is to be said of it is said when a row asks for it.
func (k *Compiler) castConst(arg Expr, v Value, n *Cast) (Expr, error) {
	if v.IsNull() {
		return NewConst(Value{}, n.T), nil
	}
	var said []func()
	env := *k.Env
	env.Warn = func(code int, msg string) { said = append(said, func() { k.Env.Note(code, msg) }) }
	e := (&Compiler{Env: &env}).castExpr(arg, n.T, n.Explicit)
	x, err := e.Eval(&Batch{N: 1, Sel: All(1)}, All(1))
	if err != nil {
		return k.castExpr(arg, n.T, n.Explicit), nil // it may never be asked for
	}
	c := NewConst(x.At(0), n.T)
	if len(said) == 0 {
		return c, nil
	}
	return &remarked{c, said}, nil
}

// remarked is a constant of which something is said once, when a row asks for it.
type remarked struct {
	*constExpr
	said []func()
}

// Eval implements Expr.
func (r *remarked) Eval(b *Batch, sel []int32) (*Vec, error) {
	if len(sel) > 0 {
		for _, f := range r.said {
			f()
		}
		r.said = nil
	}
	return r.constExpr.Eval(b, sel)
}

// castExpr makes the conversion of a compiled value.
func (k *Compiler) castExpr(arg Expr, t Type, explicit bool) Expr {
	from := arg.Type()
	c := &castExpr{arg: arg, t: t}
	if from.Kind == Null {
		return NewConst(Value{}, t)
	}
	cs := &Caster{From: from, To: t, Env: k.Env, Explicit: explicit}
	c.f = cs.Function()
	c.whole = cs.fast()
	return c
}

// Caster knows both types of a conversion.
type Caster struct {
	From, To Type
	Env      *Env
	Explicit bool
}

// Function is the conversion of one value.
func (c *Caster) Function() castFunc {
	switch c.To.Kind {
	case Int:
		return c.toInt
	case Uint, Bit:
		return c.toUint
	case Decimal:
		return c.toDecimal
	case Float:
		return c.toFloat
	case Text, Bytes:
		return c.toText
	case Date, Datetime, Timestamp:
		return c.toDatetime
	case Duration:
		return c.toDuration
	case Year:
		return c.toYear
	case JSON:
		return c.toJSON
	case Enum:
		return c.toEnum
	case Set:
		return c.toSet
	}
	return func(*Vec, int32, *Vec) error { return fmt.Errorf("expr: no cast from %s to %s", c.From, c.To) }
}

// fast converts whole vectors where no value can fail. The function returns false if one did, and
// leaves the rest to the slow way.
func (c *Caster) fast() func(x, v *Vec, sel []int32) bool {
	f, t := c.From.Kind, c.To.Kind
	switch {
	case t == Float && c.To.Precision == 24: // rounded to 32 bits, value by value
	case f == Int && t == Float:
		return func(x, v *Vec, sel []int32) bool {
			for _, i := range sel {
				v.F[i] = float64(x.I[i])
			}
			return true
		}
	case f == Decimal && t == Float && c.From.Scale <= 18:
		unit := math.Pow10(c.From.Scale)
		return func(x, v *Vec, sel []int32) bool {
			for _, i := range sel {
				if Abs64(x.I[i]) > 1<<53 {
					return false
				}
				v.F[i] = float64(x.I[i]) / unit
			}
			return true
		}
	case (f == Int || f == Decimal) && t == Decimal && !c.Explicit:
		from, to := c.From.Scale, c.To.Scale
		if f == Int {
			from = 0
		}
		return func(x, v *Vec, sel []int32) bool { return rescaleAll(x, v, sel, from, to) }
	case f == Date && t == Datetime:
		return func(x, v *Vec, sel []int32) bool {
			for _, i := range sel {
				v.I[i] = x.I[i]
			}
			return true
		}
	}
	return nil
}

func rescaleAll(x, v *Vec, sel []int32, from, to int) bool {
	if to >= from && to-from <= 18 {
		unit := tens[to-from]
		lim := uint64(math.MaxInt64 / unit)
		for _, i := range sel {
			if Abs64(x.I[i]) > lim {
				return false
			}
			v.I[i] = x.I[i] * unit
		}
		return true
	}
	for _, i := range sel {
		y, ok := Rescale64(x.I[i], from, to)
		if !ok {
			return false
		}
		v.I[i] = y
	}
	return true
}

func (c *Caster) incorrect(typ string, x *Vec, i int32) {
	if c.Env.Warn == nil {
		return
	}
	s := string(x.AppendText(nil, i))
	c.Env.Note(1292, fmt.Sprintf("Truncated incorrect %s value: '%s'", typ, s))
}

func (c *Caster) toInt(x *Vec, i int32, v *Vec) error {
	switch c.From.Kind {
	case Int, Uint, Year, Bit, Enum, Set:
		v.I[i] = x.I[i]
		if !c.Explicit && c.From.Unsigned() && x.I[i] < 0 {
			v.I[i] = math.MaxInt64
		}
	case Decimal:
		var t apd.Decimal
		n, ok := IntOfDec(x.Dec(i, &t))
		if !ok {
			c.incorrect("DECIMAL", x, i)
		}
		v.I[i] = n
	case Float:
		v.I[i] = FloatToInt(x.F[i])
	case Text, Bytes:
		v.I[i] = c.textToInt(x, i)
	case JSON:
		return c.jsonToInt(x, i, v)
	default:
		n, ok := c.temporalNumber(x, i)
		if !ok {
			v.SetNull(int(i))
		}
		v.I[i] = n
	}
	return nil
}

// FloatToInt rounds half to even; out of range it is the nearest number.
func FloatToInt(f float64) int64 {
	f = math.RoundToEven(f)
	switch {
	case f >= math.MaxInt64:
		return math.MaxInt64
	case f <= math.MinInt64:
		return math.MinInt64
	}
	return int64(f)
}

func (c *Caster) textToInt(x *Vec, i int32) int64 {
	u, neg, whole, over := intOf(x.S[i])
	switch {
	case neg && (over || u > 1<<63):
		u, whole = 1<<63, false
	case neg:
		u = -u
	case over && c.To.Kind == Int:
		// CAST('18446744073709551616' AS SIGNED) is -1 with a warning.
		u, whole = math.MaxUint64, false
	case c.To.Kind == Int && u > math.MaxInt64:
		whole = false
	}
	if !whole {
		c.incorrect("INTEGER", x, i)
	}
	return int64(u)
}

// temporalNumber rounds a date or time to its number without a fraction.
func (c *Caster) temporalNumber(x *Vec, i int32) (int64, bool) {
	switch c.From.Kind {
	case Date:
		return calendar.Number(x.I[i], true), true
	case Duration:
		return calendar.DurationNumber(calendar.RoundMicros(x.I[i], 0)), true
	}
	p := c.local(x.I[i])
	r, ok := calendar.Round(p, 0)
	return calendar.Number(r, false), ok
}

// local is a date with a time in the session's zone.
func (c *Caster) local(p int64) int64 {
	if c.From.Kind == Timestamp {
		return calendar.Shift(p, Utc, c.Env.Zone())
	}
	return p
}

func (c *Caster) toUint(x *Vec, i int32, v *Vec) error {
	switch c.From.Kind {
	case Decimal:
		var t apd.Decimal
		u, ok := UintOfDec(x.Dec(i, &t))
		if !ok {
			c.incorrect("DECIMAL", x, i)
		}
		v.I[i] = int64(u)
	case Float:
		f := math.RoundToEven(x.F[i])
		switch {
		case f >= math.MaxUint64:
			v.I[i] = -1
		case f > math.MaxInt64:
			v.I[i] = int64(uint64(f))
		default:
			v.I[i] = FloatToInt(f)
		}
	case Int, Uint, Year, Bit, Enum, Set:
		v.I[i] = x.I[i]
		if !c.Explicit && c.From.Kind == Int && x.I[i] < 0 {
			return ErrRange("BIGINT UNSIGNED", strconv.FormatInt(x.I[i], 10))
		}
	default:
		return c.toInt(x, i, v)
	}
	return nil
}

func (c *Caster) toFloat(x *Vec, i int32, v *Vec) error {
	switch c.From.Kind {
	case Int, Enum:
		v.F[i] = float64(x.I[i])
	case Uint, Year, Bit, Set:
		v.F[i] = float64(uint64(x.I[i]))
	case Decimal:
		var t apd.Decimal
		v.F[i] = floatOfDec(x.Dec(i, &t))
	case Float:
		v.F[i] = x.F[i]
	case Text, Bytes:
		f, ok := FloatOf(x.S[i])
		if !ok {
			c.incorrect("DOUBLE", x, i)
		}
		v.F[i] = f
	case JSON:
		return c.jsonToFloat(x, i, v)
	default:
		var d apd.Decimal
		c.temporalDecimal(&d, x, i)
		v.F[i] = floatOfDec(&d)
	}
	if c.To.Precision == 24 {
		v.F[i] = float64(float32(v.F[i]))
	}
	return nil
}

// temporalDecimal is a date or time as a number with its fraction.
func (c *Caster) temporalDecimal(d *apd.Decimal, x *Vec, i int32) {
	var n, us int64
	neg := false
	switch c.From.Kind {
	case Date:
		n = calendar.Number(x.I[i], true)
	case Duration:
		n, us = calendar.DurationNumber(x.I[i]), x.I[i]%1e6
		neg = x.I[i] < 0
		n, us = int64(Abs64(n)), int64(Abs64(us))
	default:
		p := c.local(x.I[i])
		n, us = calendar.Number(p, false), p&(1<<24-1)
	}
	d.SetFinite(n, 0)
	if c.From.Scale > 0 {
		_, _ = DecCtx.Add(d, d, apd.New(us, -6))
		Rescale(d, d, c.From.Scale)
	}
	d.Negative = neg
}

func (c *Caster) toDecimal(x *Vec, i int32, v *Vec) error {
	var d apd.Decimal
	switch c.From.Kind {
	case Int, Enum:
		d.SetFinite(x.I[i], 0)
	case Uint, Year, Bit, Set:
		decOfUint(&d, uint64(x.I[i]))
	case Decimal:
		d = *x.Dec(i, new(apd.Decimal))
	case Float:
		f, ok := decOfFloat(x.F[i])
		if !ok {
			return ErrRange("DECIMAL", strconv.FormatFloat(x.F[i], 'g', -1, 64))
		}
		d = *f
	case Text, Bytes:
		s, ok := decOf(x.S[i])
		if !ok {
			c.incorrect("DECIMAL", x, i)
		}
		d = *s
	case JSON:
		f, err := jsonNumber(x.S[i])
		if err != nil {
			c.incorrect("DECIMAL", x, i)
		}
		d = *f
	default:
		c.temporalDecimal(&d, x, i)
	}
	var r apd.Decimal
	Rescale(&r, &d, c.To.Scale)
	if c.Explicit && !fits(&r, c.To.Precision) {
		c.Env.Note(1264, "Out of range value for column 'CAST' at row 1")
		r = *maxDecimal(c.To.Precision, c.To.Scale, r.Negative)
	}
	v.SetDecimal(int(i), &r)
	return nil
}

func (c *Caster) toText(x *Vec, i int32, v *Vec) error {
	var s string
	switch {
	case c.To.Kind == Bytes && c.From.Kind == Text:
		s = BytesOf(x, i)
	case c.From.Kind.Form() == FormS:
		s = x.S[i]
	case c.From.Kind == Timestamp:
		s = string(calendar.AppendDatetime(nil, c.local(x.I[i]), c.From.Scale))
	case c.From.Kind == Opaque:
		s = fmt.Sprint(x.A[i])
	default:
		s = string(x.AppendText(nil, i))
	}
	if c.Explicit && c.To.Length > 0 {
		var cut bool
		if s, cut = limitText(s, c.To); cut {
			c.incorrect(map[Kind]string{Text: "CHAR", Bytes: "BINARY"}[c.To.Kind]+"("+strconv.Itoa(c.To.Length)+")", x, i)
		}
	}
	if c.To.Kind == Text && c.From.Kind == Bytes && !utf8.ValidString(s) {
		if c.Explicit {
			c.Env.Note(1300, "Invalid utf8mb4 character string: '"+fmt.Sprintf("%X", s)+"'")
			v.SetNull(int(i))
			return nil
		}
		s = strings.ToValidUTF8(s, "?")
	}
	v.S[i] = s
	return nil
}

// limitText cuts a string to the length of a type; BINARY(n) is filled up.
func limitText(s string, t Type) (string, bool) {
	if t.Kind == Bytes {
		if len(s) < t.Length {
			return s + strings.Repeat("\x00", t.Length-len(s)), false
		}
		return s[:t.Length], len(s) > t.Length
	}
	n := 0
	for at := range s {
		if n == t.Length {
			return s[:at], true
		}
		n++
	}
	return s, false
}

// ZeroAllowed applies NO_ZERO_DATE and NO_ZERO_IN_DATE, and looks whether the day exists.
func (c *Caster) ZeroAllowed(p int64) bool {
	t := calendar.Unpack(p)
	if p == 0 || t.Year == 0 && t.Month == 0 && t.Day == 0 {
		return !c.Explicit || c.Env.Mode&NoZeroDate == 0
	}
	if t.Month == 0 || t.Day == 0 {
		return (!c.Explicit || c.Env.Mode&NoZeroInDate == 0) && calendar.ValidDay(t.Year, t.Month, t.Day, true)
	}
	return calendar.ValidDay(t.Year, t.Month, t.Day, false)
}

func (c *Caster) toDatetime(x *Vec, i int32, v *Vec) error {
	var p int64
	ok := true
	switch c.From.Kind {
	case Date, Datetime, Timestamp:
		p = c.local(x.I[i])
	case Duration:
		today := calendar.FromGo(c.Env.Now.In(c.Env.Zone()))
		p, ok = calendar.AtClock(today, x.I[i])
	case Text, Bytes, Enum, Set:
		p, ok = c.parseDatetime(string(x.AppendText(nil, i)))
	case JSON:
		p, ok = c.parseDatetime(jsonText(x.S[i]))
	default:
		p, ok = c.numberDatetime(x, i)
	}
	if ok {
		ok = c.ZeroAllowed(p)
	}
	if ok && c.To.Kind == Date {
		p = calendar.DateOf(p)
	} else if ok {
		p, ok = calendar.Cut(p, c.To.Scale, c.Env.Mode&TruncateFractions != 0)
	}
	if !ok {
		if c.Env.Warn != nil {
			c.Env.Note(1292, fmt.Sprintf("Incorrect datetime value: '%s'", x.AppendText(nil, i)))
		}
		v.SetNull(int(i))
		return nil
	}
	if c.To.Kind == Timestamp {
		p = calendar.Shift(p, c.Env.Zone(), Utc)
	}
	v.I[i] = p
	return nil
}

func kindOfDate(t Type) string {
	if t.Kind == Date {
		return "DATE"
	}
	return "DATETIME"
}

func (c *Caster) parseDatetime(s string) (int64, bool) {
	p, ok := calendar.ParseDatetime(s)
	if !ok {
		return 0, false
	}
	if p.Trailing && c.Env.Warn != nil {
		c.Env.Note(1292, fmt.Sprintf("Truncated incorrect %s value: '%s'", strings.ToLower(kindOfDate(c.To)), s))
	}
	v, ok := p.Cut(c.Env.Mode&TruncateFractions != 0).Packed()
	if ok && p.Zoned {
		us := calendar.Micros(v) - int64(p.Offset)*1e6
		if v, ok = calendar.FromMicros(us); ok {
			v = calendar.Shift(v, Utc, c.Env.Zone())
		}
	}
	return v, ok
}

func (c *Caster) numberDatetime(x *Vec, i int32) (int64, bool) {
	n, us, ok := NumberParts(x, i)
	if !ok {
		return 0, false
	}
	t, _, ok := calendar.FromNumber(n)
	if !ok {
		return 0, false
	}
	t.Micro = int(us)
	return calendar.Pack(t), true
}

// NumberParts splits a number into its whole part and its microseconds.
func NumberParts(x *Vec, i int32) (n, us int64, ok bool) {
	var d apd.Decimal
	switch x.T.Kind {
	case Int, Uint, Year, Bit:
		return x.I[i], 0, true
	case Decimal:
		d = *x.Dec(i, new(apd.Decimal))
	case Float:
		f, ok := decOfFloat(x.F[i])
		if !ok {
			return 0, 0, false
		}
		d = *f
	default:
		return 0, 0, false
	}
	var r, whole, part apd.Decimal
	Rescale(&r, &d, 6)
	r.Modf(&whole, &part) // both at once are too large for an int64: 14 digits of a date, and 6
	n, err := whole.Int64()
	us, ok = unscaled(&part)
	return n, us, ok && err == nil
}

func (c *Caster) toDuration(x *Vec, i int32, v *Vec) error {
	var us int64
	in, ok := true, true
	switch c.From.Kind {
	case Duration:
		us = x.I[i]
	case Date:
	case Datetime, Timestamp:
		us = calendar.ClockOf(c.local(x.I[i]))
	case Text, Bytes, Enum, Set:
		us, _, in, ok = calendar.ParseDuration(string(x.AppendText(nil, i)), c.Env.Mode&TruncateFractions != 0)
	case JSON:
		us, _, in, ok = calendar.ParseDuration(jsonText(x.S[i]), c.Env.Mode&TruncateFractions != 0)
	default:
		var n, frac int64
		if n, frac, ok = NumberParts(x, i); ok {
			us, in, ok = calendar.DurationFromNumber(n)
			us += frac
		}
	}
	us = calendar.CutMicros(us, c.To.Scale, c.Env.Mode&TruncateFractions != 0)
	if (!in || !ok) && c.Env.Warn != nil {
		c.Env.Note(1292, fmt.Sprintf("Truncated incorrect time value: '%s'", x.AppendText(nil, i)))
	}
	if !ok {
		v.SetNull(int(i))
		return nil
	}
	v.I[i] = min(max(us, -calendar.MaxDuration), calendar.MaxDuration)
	return nil
}

func (c *Caster) toYear(x *Vec, i int32, v *Vec) error {
	var n int64
	switch {
	case c.From.Dated():
		n = calendar.YearOf(c.local(x.I[i]))
	case c.From.Kind == Duration:
		n = calendar.YearOf(calendar.FromGo(c.Env.Now.In(c.Env.Zone())))
	default:
		var one Vec
		one.Reset(TypeInt, int(i)+1)
		num := &Caster{From: c.From, To: TypeInt, Env: c.Env, Explicit: true}
		if err := num.toInt(x, i, &one); err != nil {
			return err
		}
		n = one.I[i]
		text := c.From.Stringy() && len(x.S[i]) < 4
		switch {
		case n == 0 && text, n > 0 && n < 70:
			n += 2000
		case n >= 70 && n < 100:
			n += 1900
		}
	}
	if n != 0 && (n < 1901 || n > 2155) {
		c.incorrect("YEAR", x, i)
		v.SetNull(int(i))
		return nil
	}
	v.I[i] = n
	return nil
}

func (c *Caster) toEnum(x *Vec, i int32, v *Vec) error {
	if c.From.Numeric() {
		return c.toUint(x, i, v)
	}
	n, _ := c.To.Member(string(x.AppendText(nil, i)))
	v.I[i] = int64(n)
	return nil
}

func (c *Caster) toSet(x *Vec, i int32, v *Vec) error {
	if c.From.Numeric() {
		return c.toUint(x, i, v)
	}
	n, _ := c.To.Members(string(x.AppendText(nil, i)))
	v.I[i] = int64(n)
	return nil
}

func errInvalidJSON(pos string) error {
	return mysql.NewSQLError(3141, "22032", "Invalid JSON text in argument 1 to function cast_as_json: %s", pos)
}
