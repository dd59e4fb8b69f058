package calendar

import (
	"math"
	"strconv"
)

func append2(b []byte, n int) []byte { return append(b, byte('0'+n/10%10), byte('0'+n%10)) }

// AppendDate writes YYYY-MM-DD.
func AppendDate(b []byte, p int64) []byte {
	t := Unpack(p)
	b = append2(append2(b, t.Year/100), t.Year%100)
	b = append2(append(b, '-'), t.Month)
	return append2(append(b, '-'), t.Day)
}

// AppendDatetime writes YYYY-MM-DD hh:mm:ss with fsp digits of the second.
func AppendDatetime(b []byte, p int64, fsp int) []byte {
	b = append(AppendDate(b, p), ' ')
	t := Unpack(p)
	return appendClock(append2(b, t.Hour), t.Minute, t.Second, t.Micro, fsp)
}

func appendClock(b []byte, m, s, us, fsp int) []byte {
	b = append2(append(b, ':'), m)
	b = append2(append(b, ':'), s)
	return appendFraction(b, us, fsp)
}

func appendFraction(b []byte, us, fsp int) []byte {
	if fsp <= 0 {
		return b
	}
	b = append(b, '.')
	for i := range fsp {
		b = append(b, byte('0'+us/int(pow10[5-i])%10))
	}
	return b
}

// AppendDuration writes [-]hh:mm:ss with fsp digits of the second.
func AppendDuration(b []byte, us int64, fsp int) []byte {
	if us < 0 {
		b = append(b, '-')
		us = -us
	}
	s := int(us / second)
	if h := s / 3600; h < 100 {
		b = append2(b, h)
	} else {
		b = strconv.AppendInt(b, int64(h), 10)
	}
	return appendClock(b, s/60%60, s%60, int(us%second), fsp)
}

// Number is YYYYMMDDhhmmss; the date alone is YYYYMMDD.
func Number(p int64, date bool) int64 {
	t := Unpack(p)
	n := int64(t.Year)*10000 + int64(t.Month)*100 + int64(t.Day)
	if date {
		return n
	}
	return n*1000000 + int64(t.Hour)*10000 + int64(t.Minute)*100 + int64(t.Second)
}

// DurationNumber is hhmmss, with a sign.
func DurationNumber(us int64) int64 {
	if us < 0 {
		return -DurationNumber(-us)
	}
	s := us / second
	return s/3600*10000 + s/60%60*100 + s%60
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func space(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

func punct(c byte) bool {
	return c > ' ' && c < 0x7f && !digit(c) && !(c >= 'a' && c <= 'z') && !(c >= 'A' && c <= 'Z')
}

// Parsed is what a string says about a date or time.
type Parsed struct {
	T Time
	// Fields is how many parts were given: 3 for a date, up to 7 with a fraction.
	Fields int
	// Nano is the seventh digit of the fraction, times 100: what rounding looks at.
	Nano int
	// Digits are those of the fraction.
	Digits int
	// Trailing says that something is left that means nothing.
	Trailing bool
	// Offset is the time zone in seconds, if Zoned.
	Offset int
	Zoned  bool
}

// Cut is the value with what is less than a microsecond cut, if cut is set.
func (p Parsed) Cut(cut bool) Parsed {
	if cut {
		p.Nano = 0
	}
	return p
}

// Packed is the parsed value, rounded to microseconds.
func (p Parsed) Packed() (int64, bool) {
	v := Pack(p.T)
	if p.Nano < 500 {
		return v, true
	}
	if p.T.Micro < 999999 {
		return v + 1, true
	}
	return FromMicros(Micros(v) + 1)
}

type scanner struct {
	s   string
	pos int
}

func (s *scanner) end() bool { return s.pos >= len(s.s) }
func (s *scanner) cur() byte { return s.s[s.pos] }
func (s *scanner) left() int { return len(s.s) - s.pos }
func (s *scanner) skipSpace() {
	for !s.end() && space(s.cur()) {
		s.pos++
	}
}

// number reads at most width digits (0: all).
func (s *scanner) number(width int) (n, digits int) {
	start := s.pos
	for !s.end() && digit(s.cur()) && (width == 0 || s.pos-start < width) {
		if n < 1e8 {
			n = n*10 + int(s.cur()-'0')
		}
		s.pos++
	}
	return n, s.pos - start
}

// ParseDatetime reads a date with or without a time as MySQL does: any punctuation separates the
// parts, none at all is possible, years may have two digits. False if it is not one. Whether the
// day is in the calendar is for the caller to see: ValidDay.
func ParseDatetime(text string) (Parsed, bool) {
	s := &scanner{s: text}
	s.skipSpace()
	if s.end() || !digit(s.cur()) {
		return Parsed{}, false
	}
	run := s.pos
	for run < len(text) && (digit(text[run]) || text[run] == 'T') {
		run++
	}
	compact := run == len(text) || text[run] == '.'
	width := 4
	if n := run - s.pos; compact && n != 4 && n != 8 && n < 14 {
		width = 2
	}
	var v, lens [7]int
	zero := true
	i := 0
	last := s.pos
	for i < 7 && !s.end() && digit(s.cur()) {
		w := 0
		switch {
		case i == 6:
			w = 6
		case compact:
			w = width
		}
		v[i], lens[i] = s.number(w)
		if v[i] > 999999 {
			return Parsed{}, false
		}
		zero = zero && v[i] == 0
		width = 2
		last = s.pos
		i++
		if s.end() || i == 7 {
			break
		}
		var ok bool
		if last, ok = s.separator(i-1, compact); !ok {
			break
		}
	}
	s.pos = last
	return finishDatetime(s, v, lens, i, zero)
}

// separator skips what stands after a field. It returns the place up to which the text is used,
// and false if no field can follow.
func (s *scanner) separator(field int, compact bool) (int, bool) {
	switch {
	case field == 2 && s.cur() == 'T':
		s.pos++
		return s.pos, true
	case field == 5:
		if s.cur() != '.' {
			return s.pos, false
		}
		s.pos++
		return s.pos, true
	case compact:
		return s.pos, true
	}
	for !s.end() && (punct(s.cur()) || field == 2 && space(s.cur())) {
		if field >= 3 && (s.cur() == '+' || s.cur() == '-') && s.zone() {
			return s.pos, false
		}
		s.pos++
	}
	return s.pos, true
}

// zone reports whether an offset of a time zone stands here.
func (s *scanner) zone() bool {
	r := s.s[s.pos:]
	return len(r) >= 6 && digit(r[1]) && digit(r[2]) && r[3] == ':' && digit(r[4]) && digit(r[5])
}

func finishDatetime(s *scanner, v, lens [7]int, fields int, zero bool) (Parsed, bool) {
	p := Parsed{Fields: fields, Digits: lens[6]}
	if lens[6] > 0 && lens[6] < 6 {
		v[6] *= int(pow10[6-lens[6]])
	}
	if lens[0] == 2 && !zero {
		if v[0] < 70 {
			v[0] += 2000
		} else {
			v[0] += 1900
		}
	}
	p.T = Time{v[0], v[1], v[2], v[3], v[4], v[5], v[6]}
	if fields < 3 || v[0] > 9999 || v[1] > 12 || v[2] > 31 || v[3] > 23 || v[4] > 59 || v[5] > 59 {
		return p, false
	}
	if lens[6] == 6 && !s.end() && digit(s.cur()) {
		p.Nano = 100 * int(s.cur()-'0')
		s.number(0)
	}
	if fields > 3 && !s.end() && (s.cur() == '+' || s.cur() == '-') && s.zone() {
		r := s.s[s.pos:]
		h, m := int(r[1]-'0')*10+int(r[2]-'0'), int(r[4]-'0')*10+int(r[5]-'0')
		p.Offset, p.Zoned = h*3600+m*60, true
		if r[0] == '-' {
			p.Offset = -p.Offset
		}
		s.pos += 6
	}
	s.skipSpace()
	p.Trailing = !s.end()
	return p, true
}

// ParseDuration reads a TIME: [-][days ]hh:mm:ss.ffffff, a number hhmmss, or a date with a time.
// It clips to the largest TIME; in reports whether nothing was clipped or left over. cut says that
// what is less than a microsecond is cut, and not rounded.
func ParseDuration(text string, cut bool) (us int64, digits int, in, ok bool) {
	s := &scanner{s: text}
	s.skipSpace()
	if s.left() >= 12 {
		if p, ok := ParseDatetime(text); ok && p.Fields > 3 {
			v, ok := p.Cut(cut).Packed()
			return ClockOf(v), p.Digits, !p.Trailing, ok
		}
	}
	neg := false
	if !s.end() && s.cur() == '-' {
		neg = true
		s.pos++
	}
	if s.end() || !digit(s.cur()) {
		return 0, 0, false, false
	}
	f, ok := s.clockFields()
	if !ok || f[2] > 59 || f[3] > 59 {
		return 0, 0, false, false
	}
	frac, nano, digits := s.fraction()
	in = true
	s.skipSpace()
	if !s.end() {
		in = false
	}
	us = (int64(f[0])*24+int64(f[1]))*3600*second + int64(f[2]*60+f[3])*second + int64(frac)
	if nano >= 500 && !cut {
		us++
	}
	if us > MaxDuration {
		us, in = MaxDuration, false
	}
	if neg {
		us = -us
	}
	return us, digits, in, true
}

// clockFields reads days, hours, minutes and seconds.
func (s *scanner) clockFields() (f [4]int, ok bool) {
	n, digits := s.number(0)
	if digits > 9 {
		return f, false
	}
	mark := s.pos
	s.skipSpace()
	state := 0
	switch {
	case s.left() > 1 && s.pos != mark && digit(s.cur()):
		f[0], state = n, 1
	case s.left() > 1 && s.cur() == ':' && digit(s.s[s.pos+1]):
		f[1], state = n, 2
		s.pos++
	default:
		s.pos = mark
		return [4]int{0, n / 10000, n / 100 % 100, n % 100}, true
	}
	for {
		f[state], _ = s.number(0)
		state++
		if state == 4 || s.left() < 2 || s.cur() != ':' || !digit(s.s[s.pos+1]) {
			return f, true
		}
		s.pos++
	}
}

func (s *scanner) fraction() (us, nano, digits int) {
	if s.end() || s.cur() != '.' {
		return 0, 0, 0
	}
	s.pos++
	us, digits = s.number(6)
	us *= int(pow10[6-digits])
	if digits == 6 && !s.end() && digit(s.cur()) {
		nano = 100 * int(s.cur()-'0')
		s.number(0)
	}
	return us, nano, digits
}

// FromNumber reads YYYYMMDD, YYMMDD, YYYYMMDDhhmmss or YYMMDDhhmmss. date reports a date without
// a time.
func FromNumber(n int64) (t Time, date, ok bool) {
	date = true
	switch {
	case n < 0 || n > 99991231235959:
		return t, false, false
	case n == 0:
		return t, false, true
	case n >= 10000101000000:
		date = false
	case n < 101:
		return t, false, false
	case n <= 691231:
		n = (n + 20000000) * 1000000
	case n < 700101:
		return t, false, false
	case n <= 991231:
		n = (n + 19000000) * 1000000
	case n <= 99991231:
		n *= 1000000
	case n < 101000000:
		return t, false, false
	case n <= 691231235959:
		n, date = n+20000000000000, false
	case n < 700101000000:
		return t, false, false
	case n <= 991231235959:
		n, date = n+19000000000000, false
	default:
		return t, false, false
	}
	d, c := int(n/1000000), int(n%1000000)
	t = Time{d / 10000, d / 100 % 100, d % 100, c / 10000, c / 100 % 100, c % 100, 0}
	return t, date, t.Month <= 12 && t.Day <= 31 && t.Hour <= 23 && t.Minute <= 59 && t.Second <= 59
}

// DurationFromNumber reads hhmmss; larger numbers are a date with a time. It clips as
// ParseDuration.
func DurationFromNumber(n int64) (us int64, in, ok bool) {
	if n < 0 {
		us, in, ok = DurationFromNumber(-max(n, -math.MaxInt64)) // there is no -MinInt64
		return -us, in, ok
	}
	if n > 8385959 {
		if n >= 10000000000 {
			if t, _, ok := FromNumber(n); ok {
				return ClockOf(Pack(t)), true, true
			}
		}
		return MaxDuration, false, true
	}
	if n/100%100 > 59 || n%100 > 59 {
		return 0, false, false
	}
	return (n/10000*3600 + n/100%100*60 + n%100) * second, true, true
}
