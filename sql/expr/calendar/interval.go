package calendar

import (
	"strconv"
	"strings"
)

// Interval is a span of months and of microseconds, of which one is 0.
type Interval struct {
	Months int64
	Micros int64
	// Clock says that the unit has a part below a day, so that a date becomes a date with a time.
	Clock bool
	// Fraction says that the unit has microseconds.
	Fraction bool
}

type unit struct {
	parts  int // how many numbers its text has
	months bool
	clock  bool
	micro  bool
	size   int64 // of a unit with one part
	sizes  []int64
}

const minute, hour = 60 * second, 3600 * second

var units = map[string]unit{
	"microsecond":        {parts: 1, clock: true, micro: true, size: 1},
	"second":             {parts: 1, clock: true, size: second},
	"minute":             {parts: 1, clock: true, size: minute},
	"hour":               {parts: 1, clock: true, size: hour},
	"day":                {parts: 1, size: day},
	"week":               {parts: 1, size: 7 * day},
	"month":              {parts: 1, months: true, size: 1},
	"quarter":            {parts: 1, months: true, size: 3},
	"year":               {parts: 1, months: true, size: 12},
	"year_month":         {parts: 2, months: true, sizes: []int64{12, 1}},
	"second_microsecond": {parts: 2, clock: true, micro: true, sizes: []int64{second, 1}},
	"minute_microsecond": {parts: 3, clock: true, micro: true, sizes: []int64{minute, second, 1}},
	"minute_second":      {parts: 2, clock: true, sizes: []int64{minute, second}},
	"hour_microsecond":   {parts: 4, clock: true, micro: true, sizes: []int64{hour, minute, second, 1}},
	"hour_second":        {parts: 3, clock: true, sizes: []int64{hour, minute, second}},
	"hour_minute":        {parts: 2, clock: true, sizes: []int64{hour, minute}},
	"day_microsecond":    {parts: 5, clock: true, micro: true, sizes: []int64{day, hour, minute, second, 1}},
	"day_second":         {parts: 4, clock: true, sizes: []int64{day, hour, minute, second}},
	"day_minute":         {parts: 3, clock: true, sizes: []int64{day, hour, minute}},
	"day_hour":           {parts: 2, clock: true, sizes: []int64{day, hour}},
}

// KnownUnit reports whether INTERVAL takes a unit (in lower case), whether it is a plain number
// of something, and what Interval says about Clock and Fraction.
func KnownUnit(name string) (single, clock, fraction, ok bool) {
	u, ok := units[name]
	return u.parts == 1, u.clock, u.micro, ok
}

// NumberInterval is INTERVAL n unit for a unit of one part. SECOND takes microseconds, too.
func NumberInterval(name string, n, micros int64) (Interval, bool) {
	u := units[name]
	iv := Interval{Clock: u.clock, Fraction: u.micro}
	v, ok := mul(n, u.size)
	if !ok {
		return iv, false
	}
	if u.months {
		iv.Months = v
		return iv, true
	}
	iv.Micros = v
	if name == "second" && micros != 0 {
		iv.Micros += micros
		iv.Fraction = true
	}
	return iv, true
}

func mul(a, b int64) (int64, bool) {
	c := a * b
	return c, a == 0 || c/a == b && c > -1<<62 && c < 1<<62
}

// TextInterval is INTERVAL 'text' unit for a unit of several parts: numbers with anything between
// them. If there are fewer numbers than parts, the leading parts are 0.
func TextInterval(name, text string) (Interval, bool) {
	u := units[name]
	iv := Interval{Clock: u.clock, Fraction: u.micro}
	text = strings.TrimLeft(text, " \t\n\r")
	neg := strings.HasPrefix(text, "-")
	nums, last, ok := numbers(strings.TrimPrefix(text, "-"), u.parts)
	if !ok {
		return iv, false
	}
	if u.micro && len(nums) > 0 && last < 6 {
		// '1.5' SECOND_MICROSECOND: what follows the last point is a fraction.
		nums[len(nums)-1] *= pow10[6-last]
	}
	skip := u.parts - len(nums)
	total := int64(0)
	for i, n := range nums {
		v, ok := mul(n, u.sizes[skip+i])
		if !ok {
			return iv, false
		}
		total += v
	}
	if neg {
		total = -total
	}
	if u.months {
		iv.Months = total
	} else {
		iv.Micros = total
	}
	return iv, true
}

// numbers reads at most n numbers, and the digits of the last one.
func numbers(s string, n int) (out []int64, last int, ok bool) {
	for i := 0; i < len(s) && len(out) < n; {
		for i < len(s) && !digit(s[i]) {
			i++
		}
		start := i
		for i < len(s) && digit(s[i]) {
			i++
		}
		if start == i {
			break
		}
		v, err := strconv.ParseInt(s[start:i], 10, 64)
		if err != nil {
			return nil, 0, false
		}
		out, last = append(out, v), i-start
	}
	return out, last, true
}

// Add adds an interval to a packed value; false if the result is not a date between the years 0
// and 9999.
func Add(p int64, iv Interval) (int64, bool) {
	if iv.Months == 0 {
		if iv.Micros%day == 0 && !iv.Clock {
			return addDays(p, iv.Micros/day)
		}
		us := Micros(p) + iv.Micros
		if us < 0 {
			return 0, false
		}
		return FromMicros(us)
	}
	t := Unpack(p)
	m := int64(t.Year)*12 + int64(t.Month) - 1 + iv.Months
	if m < 0 || m >= 120000 {
		return 0, false
	}
	t.Year, t.Month = int(m/12), int(m%12)+1
	t.Day = min(t.Day, DaysIn(t.Year, t.Month))
	return Pack(t), true
}

func addDays(p, n int64) (int64, bool) {
	t := Unpack(p)
	d := int64(DayNumber(t.Year, t.Month, t.Day)) + n
	if d < 0 || d > maxDay {
		return 0, false
	}
	t.Year, t.Month, t.Day = FromDayNumber(int(d))
	return Pack(t), true
}

// MonthsBetween is TIMESTAMPDIFF in months: whole ones from a to b.
func MonthsBetween(a, b int64) int64 {
	if a > b {
		return -MonthsBetween(b, a)
	}
	x, y := Unpack(a), Unpack(b)
	n := int64(y.Year-x.Year)*12 + int64(y.Month-x.Month)
	// The day and the time of a month: what is left of the packed value.
	const rest = 1<<46 - 1
	if a&rest > b&rest {
		n--
	}
	return n
}
