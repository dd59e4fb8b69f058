package calendar

import (
	"strconv"
	"strings"
)

// Names in English, which is what lc_time_names is here.
var (
	Months = []string{"January", "February", "March", "April", "May", "June", "July", "August", "September",
		"October", "November", "December"}
	Weekdays = []string{"Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
)

// Format is DATE_FORMAT, or TIME_FORMAT of a duration (hours may be above 23, there is no date).
// False if the format needs a part that is 0, so that the result is NULL.
func Format(b []byte, format string, t Time, duration bool) ([]byte, bool) {
	for i := 0; i < len(format); i++ {
		c := format[i]
		if c != '%' || i+1 == len(format) {
			b = append(b, c)
			continue
		}
		i++
		var ok bool
		if b, ok = formatClock(b, format[i], t); ok {
			continue
		}
		if duration {
			if b, ok = formatNoDate(b, format[i]); !ok {
				return b, false
			}
			continue
		}
		if b, ok = formatDate(b, format[i], t); ok {
			continue
		}
		if strings.IndexByte("MbWawcCDVvXxUuj", format[i]) >= 0 {
			return b, false
		}
		b = append(b, format[i])
	}
	return b, true
}

func pad(b []byte, n, width int) []byte {
	s := strconv.Itoa(n)
	for range width - len(s) {
		b = append(b, '0')
	}
	return append(b, s...)
}

func formatClock(b []byte, c byte, t Time) ([]byte, bool) {
	h12 := (t.Hour%24+11)%12 + 1
	half := func() []byte {
		if t.Hour%24 < 12 {
			return append(b, "AM"...)
		}
		return append(b, "PM"...)
	}
	switch c {
	case 'H':
		return pad(b, t.Hour, 2), true
	case 'k':
		return pad(b, t.Hour, 1), true
	case 'h', 'I':
		return pad(b, h12, 2), true
	case 'l':
		return pad(b, h12, 1), true
	case 'i':
		return pad(b, t.Minute, 2), true
	case 's', 'S':
		return pad(b, t.Second, 2), true
	case 'f':
		return pad(b, t.Micro, 6), true
	case 'p':
		return half(), true
	case 'T':
		return appendClock(pad(b, t.Hour, 2), t.Minute, t.Second, 0, 0), true
	case 'r':
		b = append(appendClock(pad(b, h12, 2), t.Minute, t.Second, 0, 0), ' ')
		return half(), true
	}
	return b, false
}

// formatNoDate is what TIME_FORMAT makes of the parts of a date.
func formatNoDate(b []byte, c byte) ([]byte, bool) {
	switch c {
	case 'Y':
		return append(b, "0000"...), true
	case 'y', 'm', 'd':
		return append(b, "00"...), true
	case 'c', 'e':
		return append(b, '0'), true
	case 'M', 'b', 'W', 'a', 'w', 'D', 'V', 'v', 'X', 'x', 'U', 'u', 'j':
		return b, false
	}
	return append(b, c), true
}

func formatDate(b []byte, c byte, t Time) ([]byte, bool) {
	switch c {
	case 'Y':
		return pad(b, t.Year, 4), true
	case 'y':
		return pad(b, t.Year%100, 2), true
	case 'm':
		return pad(b, t.Month, 2), true
	case 'c':
		return pad(b, t.Month, 1), true
	case 'd':
		return pad(b, t.Day, 2), true
	case 'e':
		return pad(b, t.Day, 1), true
	case 'D':
		return append(pad(b, t.Day, 1), ordinal(t.Day)...), true
	case 'M', 'b':
		if t.Month == 0 {
			return b, false
		}
		if c == 'b' {
			return append(b, Months[t.Month-1][:3]...), true
		}
		return append(b, Months[t.Month-1]...), true
	}
	if t.Month == 0 && t.Year == 0 {
		return b, false
	}
	return formatWeek(b, c, t)
}

func formatWeek(b []byte, c byte, t Time) ([]byte, bool) {
	wd := Weekday(DayNumber(t.Year, t.Month, t.Day))
	week := func(mode int) int {
		w, _ := Week(Pack(t), mode)
		return w
	}
	year := func(mode int) int {
		_, y := Week(Pack(t), mode)
		return y
	}
	switch c {
	case 'W':
		return append(b, Weekdays[wd]...), true
	case 'a':
		return append(b, Weekdays[wd][:3]...), true
	case 'w':
		return pad(b, (wd+1)%7, 1), true
	case 'j':
		return pad(b, DayNumber(t.Year, t.Month, t.Day)-DayNumber(t.Year, 1, 1)+1, 3), true
	case 'U':
		return pad(b, week(0), 2), true
	case 'u':
		return pad(b, week(1), 2), true
	case 'V':
		return pad(b, week(2), 2), true
	case 'v':
		return pad(b, week(3), 2), true
	case 'X':
		return pad(b, year(2), 4), true
	case 'x':
		return pad(b, year(3), 4), true
	}
	return b, false
}

func ordinal(d int) string {
	if d < 10 || d > 19 {
		switch d % 10 {
		case 1:
			return "st"
		case 2:
			return "nd"
		case 3:
			return "rd"
		}
	}
	return "th"
}

// FormatParts says what a format of STR_TO_DATE asks for.
func FormatParts(format string) (date, clock, micros bool) {
	for i := 0; i+1 < len(format); i++ {
		if format[i] != '%' {
			continue
		}
		i++
		switch {
		case format[i] == 'f':
			clock, micros = true, true
		case strings.IndexByte("HISThiklprs", format[i]) >= 0:
			clock = true
		case strings.IndexByte("MVUXYWabcjmvuxywdeD", format[i]) >= 0:
			date = true
		}
	}
	return date, clock, micros
}

// dateParser is the state of STR_TO_DATE.
type dateParser struct {
	scanner
	t                           Time
	half                        byte // 'A', 'P' or 0
	h12                         bool
	doy, wd, week               int
	weekYear                    int
	sunday, weekOfYear, hasWeek bool
}

// Parse is STR_TO_DATE. False if the text does not fit the format.
func Parse(text, format string) (t Time, ok bool) {
	p := &dateParser{scanner: scanner{s: text}, wd: -1, week: -1, weekYear: -1}
	for i := 0; i < len(format); i++ {
		p.skipSpace()
		if p.end() {
			break
		}
		c := format[i]
		switch {
		case c == '%' && i+1 < len(format):
			i++
			if !p.field(format[i]) {
				return t, false
			}
		case space(c):
		case p.cur() != c:
			return t, false
		default:
			p.pos++
		}
	}
	return p.finish()
}

func (p *dateParser) int(width int, v *int) bool {
	n, digits := p.number(width)
	*v = n
	return digits > 0
}

func (p *dateParser) field(c byte) bool {
	switch c {
	case 'Y':
		n, digits := p.number(4)
		p.t.Year = n
		if digits <= 2 {
			p.t.Year = century(n)
		}
		return digits > 0
	case 'y':
		ok := p.int(2, &p.t.Year)
		p.t.Year = century(p.t.Year)
		return ok
	case 'm', 'c':
		return p.int(2, &p.t.Month)
	case 'd', 'e':
		return p.int(2, &p.t.Day)
	case 'D':
		ok := p.int(2, &p.t.Day)
		p.pos = min(p.pos+2, len(p.s))
		return ok
	case 'M', 'b':
		n := p.name(Months, c == 'b')
		p.t.Month = n + 1
		return n >= 0
	}
	return p.clockField(c)
}

func (p *dateParser) clockField(c byte) bool {
	switch c {
	case 'h', 'I', 'l':
		p.h12 = true
		return p.int(2, &p.t.Hour)
	case 'H', 'k':
		return p.int(2, &p.t.Hour)
	case 'i':
		return p.int(2, &p.t.Minute)
	case 's', 'S':
		return p.int(2, &p.t.Second)
	case 'f':
		n, digits := p.number(6)
		p.t.Micro = n * int(pow10[6-digits])
		return digits > 0
	case 'p':
		if p.left() < 2 || p.s[p.pos+1]|0x20 != 'm' || strings.IndexByte("aApP", p.cur()) < 0 {
			return false
		}
		p.half = p.cur() &^ 0x20
		p.pos += 2
		return true
	case 'T':
		return p.nested("%H:%i:%S")
	case 'r':
		return p.nested("%h:%i:%S %p")
	}
	return p.weekField(c)
}

func (p *dateParser) nested(format string) bool {
	for i := 0; i < len(format) && !p.end(); i++ {
		p.skipSpace()
		if p.end() {
			return true
		}
		switch {
		case format[i] == '%':
			i++
			if !p.field(format[i]) {
				return false
			}
		case format[i] == ' ':
		case p.cur() != format[i]:
			return false
		default:
			p.pos++
		}
	}
	return true
}

func (p *dateParser) weekField(c byte) bool {
	switch c {
	case 'j':
		return p.int(3, &p.doy)
	case 'W', 'a':
		p.wd = p.name(Weekdays, c == 'a')
		return p.wd >= 0
	case 'w':
		n := 0
		if !p.int(1, &n) || n > 6 {
			return false
		}
		p.wd = (n + 6) % 7
		return true
	case 'U', 'u', 'V', 'v':
		p.sunday, p.weekOfYear, p.hasWeek = c == 'U' || c == 'V', c == 'V' || c == 'v', true
		return p.int(2, &p.week) && p.week <= 53
	case 'X', 'x':
		return p.int(4, &p.weekYear)
	case '.':
		for !p.end() && punct(p.cur()) {
			p.pos++
		}
		return true
	case '@':
		for !p.end() && p.cur()|0x20 >= 'a' && p.cur()|0x20 <= 'z' {
			p.pos++
		}
		return true
	case '#':
		p.number(0)
		return true
	}
	if p.cur() != c {
		return false
	}
	p.pos++
	return true
}

func century(n int) int {
	if n < 70 {
		return n + 2000
	}
	if n < 100 {
		return n + 1900
	}
	return n
}

func (p *dateParser) name(list []string, short bool) int {
	for i, n := range list {
		if short {
			n = n[:3]
		}
		if p.left() >= len(n) && strings.EqualFold(p.s[p.pos:p.pos+len(n)], n) {
			p.pos += len(n)
			return i
		}
	}
	return -1
}

func (p *dateParser) finish() (Time, bool) {
	t := p.t
	if p.h12 {
		if t.Hour > 12 || t.Hour < 1 {
			return t, false
		}
		t.Hour %= 12
		if p.half == 'P' {
			t.Hour += 12
		}
	} else if p.half != 0 {
		return t, false
	}
	if p.doy > 0 {
		t.Year, t.Month, t.Day = FromDayNumber(DayNumber(t.Year, 1, 1) + p.doy - 1)
	}
	if p.hasWeek && p.wd >= 0 && !p.applyWeek(&t) {
		return t, false
	}
	p.skipSpace()
	return t, t.Month <= 12 && t.Day <= 31 && t.Hour <= 23 && t.Minute <= 59 && t.Second <= 59
}

func (p *dateParser) applyWeek(t *Time) bool {
	y := t.Year
	if p.weekOfYear {
		if p.weekYear < 0 {
			return false
		}
		y = p.weekYear
	} else if p.weekYear >= 0 {
		return false
	}
	n := DayNumber(y, 1, 1)
	wd0 := Weekday(n)
	if p.sunday {
		wd0 = (wd0 + 1) % 7
		if wd0 != 0 {
			n += 7 - wd0
		}
		n += (p.week-1)*7 + (p.wd+1)%7
	} else {
		if wd0 <= 3 {
			n -= wd0
		} else {
			n += 7 - wd0
		}
		n += (p.week-1)*7 + p.wd
	}
	if n <= 0 || n >= 3652500 {
		return false
	}
	t.Year, t.Month, t.Day = FromDayNumber(n)
	return true
}
