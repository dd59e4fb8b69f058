package assign

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cockroachdb/apd/v3"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/sqltypes"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/calendar"
	"github.com/godwitdb/godwit/sql/schema"
)

// What a column cannot hold as it is: an error in strict mode; else the nearest value that it can
// hold, and a warning. Numbers and words are MySQL's.

// MySQL's numbers of what may be wrong with a value.
const (
	ErrNull       = 1048
	ErrOutOfRange = 1264
	ErrTruncated  = 1265
	ErrIncorrect  = 1292 // of dates and times
	ErrSkipped    = 1299 // ER_WARN_INVALID_TIMESTAMP
	ErrNoDefault  = 1364
	ErrNotOfType  = 1366
	ErrTooLong    = 1406
	ErrCheck      = 3819
	ErrViewCheck  = 1369
	ErrDivision   = 1365
)

// wrong is an error in strict mode, else a warning.
func (s *Setter) wrong(code int, kind error, format string, args ...any) error {
	s.Adjusted = true
	if s.Strict {
		return Coded(code, kind, format, args...)
	}
	s.ctx.Warn(code, format, args...)
	return nil
}

// note is a remark in any mode.
func (s *Setter) note(row int) {
	text := fmt.Sprintf("Data truncated for column '%s' at row %d", s.Col.Desc.Name, row)
	s.ctx.Session.Warn(&sql.Warning{Level: "Note", Code: ErrTruncated, Message: text})
}

func (s *Setter) outOfRange(row int) error {
	kind := sql.ErrValueOutOfRange.New(s.shown(), s.Col.Type)
	if s.To.Kind == expr.Decimal {
		kind = types.ErrConvertToDecimalLimit.New()
	}
	return s.wrong(ErrOutOfRange, kind, "Out of range value for column '%s' at row %d", s.Col.Desc.Name, row)
}

func (s *Setter) truncated(row int) error {
	kind := types.ErrDataTruncatedForColumnAtRow.New(s.Col.Desc.Name, row)
	return s.wrong(ErrTruncated, kind, "Data truncated for column '%s' at row %d", s.Col.Desc.Name, row)
}

func (s *Setter) tooLong(row int) error {
	kind := types.ErrLengthBeyondLimit.New(s.shown(), s.Col.Desc.Name)
	return s.wrong(ErrTooLong, kind, "Data too long for column '%s' at row %d", s.Col.Desc.Name, row)
}

func (s *Setter) notOfType(typ, text string, row int) error {
	kind := sql.ErrInvalidValue.New(text, s.Col.Type)
	if typ == "string" {
		kind = types.ErrBadCharsetString.New(text, s.Col.Desc.Name, row)
	}
	return s.wrong(ErrNotOfType, kind, "Incorrect %s value: '%s' for column '%s' at row %d", typ, clipped(text),
		s.Col.Desc.Name, row)
}

// clipped is a value as messages show it.
func clipped(text string) string {
	if len(text) <= 128 {
		return text
	}
	return strings.ToValidUTF8(text[:128], "")
}

// fit brings a value that is not NULL to the column.
func (s *Setter) fit(v *expr.Vec, i int32, row int) (any, error) {
	s.v, s.i = v, i
	switch s.To.Kind {
	case expr.Int, expr.Uint:
		return s.integer(v, i, row)
	case expr.Decimal:
		return s.fixed(v, i, row)
	case expr.Float:
		return s.float(v, i, row)
	case expr.Year:
		return s.year(v, i, row)
	case expr.Date, expr.Datetime, expr.Timestamp:
		return s.dated(v, i, row)
	case expr.Duration:
		return s.duration(v, i, row)
	case expr.Enum:
		return s.enum(v, i, row)
	case expr.Set:
		return s.set(v, i, row)
	case expr.Bit:
		return s.bit(v, i, row)
	case expr.Bytes:
		return s.bytes(v, i, row)
	case expr.Text:
		return s.string(v, i, row)
	}
	return s.convert(s.textOf(v, i))
}

// shown is the value at hand as text.
func (s *Setter) shown() string {
	if s.v == nil {
		return ""
	}
	return s.textOf(s.v, s.i)
}

// textOf is the text of a value; a TIMESTAMP is shown as the session's clock shows it.
func (s *Setter) textOf(v *expr.Vec, i int32) string {
	if v.T.Kind == expr.Text {
		return v.S[i]
	}
	if v.T.Kind == expr.Timestamp {
		x := expr.Value{Kind: expr.Datetime, I: calendar.Shift(v.I[i], expr.Utc, s.env.Zone())}
		return x.Text(expr.DatetimeType(v.T.Scale))
	}
	return string(v.AppendText(nil, i))
}

// decimalOf is a number, or what is one as a number, as a decimal. ok is false if it is a text that
// is none; left says that something follows the number.
func (s *Setter) decimalOf(v *expr.Vec, i int32) (d *apd.Decimal, ok, left bool, err error) {
	switch v.T.Kind {
	case expr.Text, expr.Bytes:
		num, whole := expr.NumberPrefix(v.S[i])
		if num == "" {
			return new(apd.Decimal), false, false, nil
		}
		d, _, err := apd.NewFromString(expr.ShortNumber(num))
		if err != nil || d.Exponent > 400 || d.Exponent < -1000 {
			return new(apd.Decimal), true, true, nil
		}
		return d, true, !whole, nil
	case expr.Float:
		d, err := new(apd.Decimal).SetFloat64(v.F[i])
		return d, err == nil, false, nil
	}
	var out expr.Vec
	t := expr.DecimalType(expr.MaxPrecision, expr.MaxScale)
	if v.T.Kind == expr.Decimal {
		t.Scale = v.T.Scale
	}
	out.Reset(t, int(i)+1)
	c := &expr.Caster{From: v.T, To: t, Env: s.env}
	if err := c.Function()(v, i, &out); err != nil {
		return nil, false, false, err
	}
	d = out.Dec(i, new(apd.Decimal))
	return d, true, false, nil
}

// numberOf is decimalOf with the errors of a column of whole numbers or decimals.
func (s *Setter) numberOf(v *expr.Vec, i int32, row int, typ string) (*apd.Decimal, error) {
	d, ok, left, err := s.decimalOf(v, i)
	switch {
	case err != nil:
		return nil, err
	case !ok:
		err = s.notOfType(typ, s.textOf(v, i), row)
	case left:
		err = s.truncated(row)
	}
	return d, err
}

// integer is a value for a column of whole numbers: DOUBLEs round to even, others half up.
func (s *Setter) integer(v *expr.Vec, i int32, row int) (any, error) {
	var d *apd.Decimal
	if v.T.Kind == expr.Float {
		f := math.RoundToEven(v.F[i])
		d = new(apd.Decimal)
		if _, err := d.SetFloat64(max(min(f, 1e30), -1e30)); err != nil {
			return nil, err
		}
	} else {
		var err error
		if d, err = s.numberOf(v, i, row, "integer"); err != nil {
			return nil, err
		}
	}
	var r apd.Decimal
	expr.Rescale(&r, d, 0)
	if r.Form == apd.Finite && r.Exponent == 0 {
		if n := r.Coeff; n.IsInt64() {
			x := n.Int64()
			if r.Negative {
				x = -x
			}
			if out, ok := s.Col.Int(x, false); ok {
				return out, nil
			}
		} else if n.IsUint64() && !r.Negative {
			if out, ok := s.Col.Int(int64(n.Uint64()), true); ok {
				return out, nil
			}
		}
	}
	if err := s.outOfRange(row); err != nil {
		return nil, err
	}
	return s.edge(d.Negative), nil
}

// edge is the least or the largest value of a column of whole numbers.
func (s *Setter) edge(least bool) any {
	most := s.Col.LargestInt()
	var out any
	switch {
	case s.Col.Kind == schema.KindUint && least:
		out, _ = s.Col.Int(0, true)
	case s.Col.Kind == schema.KindUint:
		out, _ = s.Col.Int(int64(most), true)
	case least:
		out, _ = s.Col.Int(-int64(most)-1, false)
	default:
		out, _ = s.Col.Int(int64(most), false)
	}
	return out
}

// fixed is a value for a DECIMAL.
func (s *Setter) fixed(v *expr.Vec, i int32, row int) (any, error) {
	d, err := s.numberOf(v, i, row, "decimal")
	if err != nil {
		return nil, err
	}
	r, ok := expr.FitDecimal(d, s.To.Precision, s.To.Scale)
	switch {
	case !ok:
		if err := s.outOfRange(row); err != nil {
			return nil, err
		}
	case v.T.Kind != expr.Float && r.Cmp(d) != 0:
		s.note(row)
	}
	n := decimal.NewFromBigInt(r.Coeff.MathBigInt(), r.Exponent)
	if r.Negative {
		n = n.Neg()
	}
	return n, nil
}

// float is a value for a FLOAT or DOUBLE.
func (s *Setter) float(v *expr.Vec, i int32, row int) (any, error) {
	var f float64
	switch v.T.Kind {
	case expr.Float:
		f = v.F[i]
	case expr.Text, expr.Bytes:
		var ok bool
		if f, ok = expr.FloatOf(v.S[i]); !ok {
			err := s.truncated(row)
			if math.Abs(f) == math.MaxFloat64 {
				err = s.outOfRange(row)
			}
			if err != nil {
				return nil, err
			}
		}
	default:
		d, _, _, err := s.decimalOf(v, i)
		if err != nil {
			return nil, err
		}
		if f, err = d.Float64(); err != nil {
			return nil, err
		}
	}
	if s.Col.Type.Type() != sqltypes.Float32 {
		return f, nil
	}
	if math.Abs(f) > math.MaxFloat32 {
		if err := s.outOfRange(row); err != nil {
			return nil, err
		}
		f = math.Copysign(math.MaxFloat32, f)
	}
	return float32(f), nil
}

// year is a value for a YEAR: two digits are those of 1970 to 2069.
func (s *Setter) year(v *expr.Vec, i int32, row int) (any, error) {
	if v.T.Kind == expr.Year {
		return int16(v.I[i]), nil
	}
	if v.T.Dated() {
		return s.yearOf(calendar.YearOf(v.I[i]), row)
	}
	d, err := s.numberOf(v, i, row, "integer")
	if err != nil {
		return nil, err
	}
	n, ok := expr.IntOfDec(d)
	text := v.T.Stringy() && len(strings.TrimSpace(v.S[i])) < 4
	if v.T.Stringy() {
		if num, _ := expr.NumberPrefix(v.S[i]); num == "" {
			return int16(0), nil // what is no number is no year either
		}
	}
	switch {
	case !ok:
		n = -1
	case n == 0 && text, n > 0 && n < 70:
		n += 2000
	case n >= 70 && n < 100:
		n += 1900
	}
	return s.yearOf(n, row)
}

func (s *Setter) yearOf(n int64, row int) (any, error) {
	if n != 0 && (n < 1901 || n > 2155) {
		n = 0
		if err := s.outOfRange(row); err != nil {
			return nil, err
		}
	}
	return int16(n), nil
}

// string is a value for a column of text.
func (s *Setter) string(v *expr.Vec, i int32, row int) (any, error) {
	text := s.textOf(v, i)
	if !utf8.ValidString(text) {
		if !s.utf8 {
			return s.convert([]byte(text)) // bytes of the column's own character set
		}
		at := 0
		for at < len(text) {
			r, n := utf8.DecodeRuneInString(text[at:])
			if r == utf8.RuneError && n == 1 {
				break
			}
			at += n
		}
		var shown strings.Builder
		for _, b := range []byte(text[at:min(len(text), at+6)]) {
			if b >= ' ' && b < 0x7f {
				shown.WriteByte(b)
			} else {
				fmt.Fprintf(&shown, "\\x%02X", b)
			}
		}
		if len(text) > at+6 {
			shown.WriteString("...")
		}
		if err := s.notOfType("string", shown.String(), row); err != nil {
			return nil, err
		}
		text = text[:at]
	}
	text, err := s.short(text, row)
	if err != nil || s.utf8 {
		return text, err
	}
	return s.convert(text)
}

// short cuts a text to the length of the column. Blanks at the end count for nothing.
func (s *Setter) short(text string, row int) (string, error) {
	st, ok := s.Col.Type.(sql.StringType)
	if !ok {
		return text, nil
	}
	at := len(text)
	if s.Col.Type.Type() == sqltypes.Text {
		if most := st.MaxByteLength(); int64(at) > most {
			for at = int(most); at > 0 && !utf8.RuneStart(text[at]); at-- {
			}
		}
	} else if most := int(st.MaxCharacterLength()); at > most {
		n := 0
		for k := range text {
			if n == most {
				at = k
				break
			}
			n++
		}
	}
	if at == len(text) {
		return text, nil
	}
	return text[:at], s.cut(strings.Trim(text[at:], " ") == "", row)
}

// cut is what is to be said of a text that is too long.
func (s *Setter) cut(blanks bool, row int) error {
	switch {
	case blanks && s.Col.Type.Type() != sqltypes.Char:
		s.note(row)
		return nil
	case blanks:
		return nil
	case s.Strict:
		return s.tooLong(row)
	}
	return s.truncated(row)
}

// bytes is a value for a column of bytes. Those of BINARY are filled up.
func (s *Setter) bytes(v *expr.Vec, i int32, row int) (any, error) {
	text := s.textOf(v, i)
	if v.T.Kind == expr.Text {
		text = expr.BytesOf(v, i) // as the client has sent it
	}
	st, ok := s.Col.Type.(sql.StringType)
	if !ok {
		return []byte(text), nil
	}
	most := st.MaxByteLength()
	if int64(len(text)) > most {
		if err := s.cut(false, row); err != nil {
			return nil, err
		}
		text = text[:most]
	}
	out := []byte(text)
	if s.Col.Type.Type() == sqltypes.Binary {
		out = append(out, make([]byte, int(most)-len(out))...)
	}
	return out, nil
}

// dated is a value for a DATE, DATETIME or TIMESTAMP.
func (s *Setter) dated(v *expr.Vec, i int32, row int) (any, error) {
	p, trailing, ok, ranged := s.moment(v, i)
	if ok && p != 0 && !calendar.Complete(p) {
		if s.env.Mode&expr.NoZeroInDate == 0 {
			return nil, &Late{"date with a zero"}
		}
		ok, ranged = false, true
	}
	if ok && s.To.Kind == expr.Date {
		if calendar.ClockOf(p) != 0 {
			s.note(row)
		}
		p = calendar.DateOf(p)
	} else if ok && p != 0 {
		p, ok = calendar.Cut(p, s.To.Scale, s.cuts())
		ranged = !ok
	}
	skipped := false
	if ok && p != 0 && s.To.Kind == expr.Timestamp {
		if p, skipped, ok = s.instant(v, i, p); !ok {
			ranged = true
		}
	}
	if ok && p == 0 && s.env.Mode&expr.NoZeroDate != 0 {
		ok, ranged = false, true
	}
	if !ok || trailing {
		if err := s.incorrect(v, i, row, ranged); err != nil {
			return nil, err
		}
		if !ok {
			p = 0
		}
	}
	if p == 0 {
		return types.ZeroTime, nil
	}
	if ok && skipped {
		if err := s.skipped(v, i, row); err != nil {
			return nil, err
		}
	}
	return calendar.ToGo(p, expr.Utc), nil
}

// instant is the moment in UTC that a time of the session's clock stands for, if TIMESTAMP has it.
// A TIMESTAMP stays the moment that it is, also where the clock showed its time twice.
func (s *Setter) instant(v *expr.Vec, i int32, p int64) (utc int64, skipped, ok bool) {
	var at time.Time
	if v.T.Kind == expr.Timestamp {
		utc, ok = calendar.Cut(v.I[i], s.To.Scale, s.cuts())
		if !ok {
			return 0, false, false
		}
		at = calendar.ToGo(utc, expr.Utc)
	} else {
		at, skipped = calendar.Meant(p, s.env.Zone(), s.env.Now)
	}
	n := at.Unix()
	return calendar.FromGo(at.UTC()), skipped, n >= 1 && n <= math.MaxInt32
}

// skipped is what is to be said of a time that the session's clock skips.
func (s *Setter) skipped(v *expr.Vec, i int32, row int) error {
	if s.Strict {
		return s.incorrect(v, i, row, true)
	}
	return s.wrong(ErrSkipped, sql.ErrInvalidValue.New(s.shown(), s.Col.Type),
		"Invalid TIMESTAMP value in column '%s' at row %d", s.Col.Desc.Name, row)
}

// incorrect is what is to be said of a date or time; ranged: it looks like one.
func (s *Setter) incorrect(v *expr.Vec, i int32, row int, ranged bool) error {
	switch {
	case s.Strict:
		typ := "datetime"
		if s.To.Kind == expr.Date {
			typ = "date"
		} else if s.To.Kind == expr.Duration {
			typ = "time"
		}
		return s.wrong(ErrIncorrect, sql.ErrInvalidValue.New(s.shown(), s.Col.Type),
			"Incorrect %s value: '%s' for column '%s' at row %d", typ, clipped(s.textOf(v, i)), s.Col.Desc.Name, row)
	case ranged:
		return s.outOfRange(row)
	}
	return s.truncated(row)
}

// moment is a value as a date with a time, by the session's clock. trailing: something follows it.
// If it is none (ok), ranged says that it looks like one.
func (s *Setter) moment(v *expr.Vec, i int32) (p int64, trailing, ok, ranged bool) {
	switch v.T.Kind {
	case expr.Date, expr.Datetime:
		return v.I[i], false, true, false
	case expr.Timestamp:
		if v.I[i] == 0 {
			return 0, false, true, false
		}
		return calendar.Shift(v.I[i], expr.Utc, s.env.Zone()), false, true, false
	case expr.Duration:
		today := calendar.FromGo(s.env.Now.In(s.env.Zone()))
		p, ok = calendar.AtClock(today, v.I[i])
		return p, false, ok, true
	case expr.Int, expr.Uint, expr.Decimal, expr.Float, expr.Year, expr.Bit:
		n, us, ok := expr.NumberParts(v, i)
		if !ok {
			return 0, false, false, true
		}
		t, _, ok := calendar.FromNumber(n)
		t.Micro = int(us)
		return calendar.Pack(t), false, ok && s.validDay(t), true
	}
	return s.momentOf(string(v.AppendText(nil, i)))
}

func (s *Setter) momentOf(text string) (p int64, trailing, ok, ranged bool) {
	x, ok := calendar.ParseDatetime(text)
	if !ok {
		return 0, false, false, x.Fields >= 3
	}
	if !s.validDay(x.T) {
		return 0, false, false, true
	}
	if p, ok = x.Cut(s.cuts()).Packed(); !ok {
		return 0, false, false, true
	}
	if x.Zoned {
		us := calendar.Micros(p) - int64(x.Offset)*1e6
		if p, ok = calendar.FromMicros(us); ok {
			p = calendar.Shift(p, expr.Utc, s.env.Zone())
		}
	}
	return p, x.Trailing, ok, true
}

func (s *Setter) validDay(t calendar.Time) bool {
	if t.Year == 0 && t.Month == 0 && t.Day == 0 {
		return true
	}
	return calendar.ValidDay(t.Year, t.Month, t.Day, t.Month == 0 || t.Day == 0)
}

// cuts reports whether TIME_TRUNCATE_FRACTIONAL has digits of a second cut that are too many.
func (s *Setter) cuts() bool { return s.env.Mode&expr.TruncateFractions != 0 }

// duration is a value for a TIME.
func (s *Setter) duration(v *expr.Vec, i int32, row int) (any, error) {
	var us int64
	in, ok := true, true
	switch v.T.Kind {
	case expr.Duration:
		us = v.I[i]
	case expr.Date, expr.Datetime, expr.Timestamp:
		p, _, _, _ := s.moment(v, i)
		us = calendar.ClockOf(p)
		s.note(row)
	case expr.Int, expr.Uint, expr.Decimal, expr.Float, expr.Year, expr.Bit:
		var n, frac int64
		if n, frac, ok = expr.NumberParts(v, i); ok {
			us, in, ok = calendar.DurationFromNumber(n)
			us += frac
		}
	default:
		us, _, in, ok = calendar.ParseDuration(string(v.AppendText(nil, i)), s.cuts())
	}
	if !ok || !in {
		most := us == calendar.MaxDuration || us == -calendar.MaxDuration
		if err := s.incorrect(v, i, row, ok && most || s.from.Numeric()); err != nil {
			return nil, err
		}
	}
	if !ok {
		us = 0
	}
	us = calendar.CutMicros(us, s.To.Scale, s.cuts())
	return types.Timespan(min(max(us, -calendar.MaxDuration), calendar.MaxDuration)), nil
}

// enum is a value for an ENUM: a member, or its number.
func (s *Setter) enum(v *expr.Vec, i int32, row int) (any, error) {
	var n uint64
	if v.T.Numeric() {
		d, err := s.numberOf(v, i, row, "integer")
		if err != nil {
			return nil, err
		}
		if x, ok := expr.UintOfDec(d); ok {
			n = x
		}
	} else {
		n, _ = s.To.Member(s.textOf(v, i))
	}
	if n == 0 || n > uint64(len(s.To.Values)) {
		n = 0
		if err := s.truncated(row); err != nil {
			return nil, err
		}
	}
	return uint16(n), nil
}

// set is a value for a SET: members, or their bits.
func (s *Setter) set(v *expr.Vec, i int32, row int) (any, error) {
	all := uint64(1)<<len(s.To.Values) - 1
	bits, wrong := uint64(0), false
	if v.T.Numeric() {
		d, err := s.numberOf(v, i, row, "integer")
		if err != nil {
			return nil, err
		}
		var ok bool
		bits, ok = expr.UintOfDec(d)
		wrong = !ok
	} else {
		var ok bool
		bits, ok = s.To.Members(s.textOf(v, i))
		wrong = !ok
	}
	if wrong || bits&^all != 0 {
		if err := s.truncated(row); err != nil {
			return nil, err
		}
	}
	return bits & all, nil
}

// bit is a value for a BIT.
func (s *Setter) bit(v *expr.Vec, i int32, row int) (any, error) {
	var n uint64
	over := false
	switch v.T.Kind {
	case expr.Text, expr.Bytes:
		text := strings.TrimLeft(v.S[i], "\x00")
		over = len(text) > 8
		for _, b := range []byte(text) {
			n = n<<8 | uint64(b)
		}
	case expr.Int, expr.Uint, expr.Bit, expr.Year, expr.Set, expr.Enum:
		n = uint64(v.I[i])
	default:
		d, _, _, err := s.decimalOf(v, i)
		if err != nil {
			return nil, err
		}
		x, ok := expr.UintOfDec(d)
		n, over = x, !ok
	}
	width := max(s.To.Length, 1)
	if over || width < 64 && n>>width != 0 {
		n = 1<<width - 1
		if s.Strict {
			return nil, s.tooLong(row)
		}
		if err := s.outOfRange(row); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// Zero is what a column that is NOT NULL holds if it gets no value.
func (s *Setter) Zero() (any, error) {
	switch s.To.Kind {
	case expr.Text:
		return "", nil
	case expr.Date, expr.Datetime, expr.Timestamp:
		return types.ZeroTime, nil
	case expr.Duration:
		return types.Timespan(0), nil
	case expr.Enum:
		return uint16(1), nil
	case expr.Set, expr.Bit:
		return uint64(0), nil
	case expr.Bytes:
		if s.Col.Type.Type() == sqltypes.Binary {
			return make([]byte, s.Col.Type.(sql.StringType).MaxByteLength()), nil
		}
		return []byte{}, nil
	case expr.JSON:
		return nil, &Late{"implicit default of JSON"}
	}
	return s.convert(int64(0))
}
