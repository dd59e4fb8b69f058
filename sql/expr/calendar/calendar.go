// Package calendar computes with dates and times as MySQL does: with zero dates, days that are
// not in the calendar, its lenient parsing, its intervals and weeks.
//
// A date with a time is one number, packed as in MySQL: from the high bits year*13+month, day,
// hour, minute, second and microseconds. Packed values compare like what they stand for. A date
// is packed with time 0. A time of day or a duration (MySQL's TIME) is a number of microseconds.
package calendar

import (
	"time"
)

// Time is a date with a time, taken apart.
type Time struct {
	Year, Month, Day, Hour, Minute, Second, Micro int
}

// Bounds.
const (
	// MaxDuration is 838:59:59, the largest TIME, in microseconds.
	MaxDuration = (838*3600 + 59*60 + 59) * int64(1e6)
	maxDay      = 3652424 // day number of 9999-12-31
	second      = int64(1e6)
	day         = 86400 * second
)

// Pack makes a number of a date with a time.
func Pack(t Time) int64 {
	ym := int64(t.Year)*13 + int64(t.Month)
	ymd := ym<<5 | int64(t.Day)
	hms := int64(t.Hour)<<12 | int64(t.Minute)<<6 | int64(t.Second)
	return (ymd<<17|hms)<<24 | int64(t.Micro)
}

// Unpack takes a packed value apart.
func Unpack(p int64) Time {
	us := int(p & (1<<24 - 1))
	hms := int(p >> 24 & (1<<17 - 1))
	ymd := int(p >> 41)
	ym := ymd >> 5
	return Time{ym / 13, ym % 13, ymd & 31, hms >> 12, hms >> 6 & 63, hms & 63, us}
}

// DateOf is the packed value without its time.
func DateOf(p int64) int64 { return p &^ (1<<41 - 1) }

// ClockOf is the time of day of a packed value, in microseconds.
func ClockOf(p int64) int64 {
	hms := p >> 24 & (1<<17 - 1)
	return ((hms>>12)*3600+(hms>>6&63)*60+hms&63)*second + p&(1<<24-1)
}

// YearOf is the year of a packed value.
func YearOf(p int64) int64 { return p >> 46 / 13 }

// MonthOf is the month of a packed value.
func MonthOf(p int64) int64 { return p >> 46 % 13 }

// DayOf is the day of a packed value.
func DayOf(p int64) int64 { return p >> 41 & 31 }

// FromGo packs a moment as its clock shows it.
func FromGo(t time.Time) int64 {
	y, m, d := t.Date()
	h, mi, s := t.Clock()
	return Pack(Time{y, int(m), d, h, mi, s, t.Nanosecond() / 1000})
}

// ToGo is the moment that a packed value stands for in a zone; see Moment. Zero dates are Go's zero
// time.
func ToGo(p int64, loc *time.Location) time.Time {
	t, _ := Moment(p, loc)
	return t
}

// Shift is the packed value in one zone of what is packed in another one.
func Shift(p int64, from, to *time.Location) int64 {
	if from == to || MonthOf(p) == 0 || DayOf(p) == 0 {
		return p
	}
	return FromGo(ToGo(p, from).In(to))
}

var monthDays = [...]int{0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// Leap reports whether a year has a 29th of February.
func Leap(y int) bool { return y%4 == 0 && (y%100 != 0 || y%400 == 0 && y != 0) }

// DaysIn is the number of days of a month; 31 for month 0.
func DaysIn(y, m int) int {
	if m == 2 && Leap(y) {
		return 29
	}
	if m == 0 {
		return 31
	}
	return monthDays[m]
}

func daysInYear(y int) int {
	if Leap(y) {
		return 366
	}
	return 365
}

// DayNumber is MySQL's TO_DAYS: 1 for the 1st of January of year 0.
func DayNumber(y, m, d int) int {
	if y == 0 && m == 0 {
		return 0
	}
	n := 365*y + 31*(m-1) + d
	if m <= 2 {
		y--
	} else {
		n -= (m*4 + 23) / 10
	}
	return n + y/4 - (y/100+1)*3/4
}

// FromDayNumber is MySQL's FROM_DAYS: the zero date below 366.
func FromDayNumber(n int) (y, m, d int) {
	if n <= 365 || n >= 3652500 {
		return 0, 0, 0
	}
	y = n * 100 / 36525
	doy := n - y*365 - (y-1)/4 + ((y-1)/100+1)*3/4
	for doy > daysInYear(y) {
		doy -= daysInYear(y)
		y++
	}
	m = 1
	for doy > DaysIn(y, m) {
		doy -= DaysIn(y, m)
		m++
	}
	return y, m, doy
}

// Weekday is 0 for Monday.
func Weekday(dayNumber int) int { return (dayNumber + 5) % 7 }

// ValidDay reports whether a date is in the calendar; zero says whether month or day may be 0.
func ValidDay(y, m, d int, zero bool) bool {
	if y < 0 || y > 9999 || m < 0 || m > 12 || d < 0 || d > 31 {
		return false
	}
	if m == 0 || d == 0 {
		return zero
	}
	return d <= DaysIn(y, m)
}

// Complete reports whether neither month nor day is 0.
func Complete(p int64) bool { return MonthOf(p) != 0 && DayOf(p) != 0 }

// Micros counts the microseconds since day 0.
func Micros(p int64) int64 {
	t := Unpack(p)
	return int64(DayNumber(t.Year, t.Month, t.Day))*day + ClockOf(p)
}

// FromMicros is the reverse of Micros; false outside of what MySQL can show.
func FromMicros(us int64) (int64, bool) {
	n := us / day
	if us < 0 || n > maxDay {
		return 0, false
	}
	y, m, d := FromDayNumber(int(n))
	return Pack(Time{Year: y, Month: m, Day: d}) + packClock(us%day), true
}

func packClock(us int64) int64 {
	s := us / second
	return (s/3600<<12|s/60%60<<6|s%60)<<24 | us%second
}

// AtClock is a date with a duration added.
func AtClock(date, us int64) (int64, bool) {
	return FromMicros(Micros(DateOf(date)) + us)
}

// Week is MySQL's WEEK(date, mode), with the year that the week belongs to.
func Week(p int64, mode int) (week, year int) {
	mode &= 7
	if mode&1 == 0 {
		mode ^= 4
	}
	t := Unpack(p)
	monday, inYear, first := mode&1 != 0, mode&2 != 0, mode&4 != 0
	n, n0 := DayNumber(t.Year, t.Month, t.Day), DayNumber(t.Year, 1, 1)
	wd := Weekday(n0)
	if !monday {
		wd = (wd + 1) % 7
	}
	late := func() bool { return first && wd != 0 || !first && wd >= 4 }
	year = t.Year
	if t.Month == 1 && t.Day <= 7-wd {
		if !inYear && late() {
			return 0, year
		}
		inYear = true
		year--
		n0 -= daysInYear(year)
		wd = (wd + 53*7 - daysInYear(year)) % 7
	}
	days := n - (n0 - wd)
	if late() {
		days = n - (n0 + 7 - wd)
	}
	if inYear && days >= 52*7 {
		wd = (wd + daysInYear(year)) % 7
		if !late() {
			return 1, year + 1
		}
	}
	return days/7 + 1, year
}

var pow10 = [...]int64{1, 10, 100, 1000, 10000, 100000, 1000000}

// RoundMicros rounds microseconds to digits of a second, half away from zero.
func RoundMicros(us int64, fsp int) int64 {
	unit := pow10[6-fsp]
	if unit == 1 {
		return us
	}
	if us < 0 {
		return -RoundMicros(-us, fsp)
	}
	return (us + unit/2) / unit * unit
}

// Round rounds a packed value to digits of a second. It may reach the next day; false if there is
// none.
func Round(p int64, fsp int) (int64, bool) {
	us := p & (1<<24 - 1)
	r := RoundMicros(us, fsp)
	if r < second {
		return p - us + r, true
	}
	p -= us
	if !Complete(p) {
		return p, true
	}
	return FromMicros(Micros(p) + second)
}

// CutMicros cuts microseconds to digits of a second, towards zero, or rounds them.
func CutMicros(us int64, fsp int, cut bool) int64 {
	if cut {
		return us - us%pow10[6-fsp]
	}
	return RoundMicros(us, fsp)
}

// Cut cuts a packed value to digits of a second, or rounds it as [Round] does.
func Cut(p int64, fsp int, cut bool) (int64, bool) {
	if us := p & (1<<24 - 1); cut {
		return p - us%pow10[6-fsp], true
	}
	return Round(p, fsp)
}
