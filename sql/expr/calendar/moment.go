package calendar

import "time"

// Clocks that are set back show some times twice, and skip some when they are set forward. What
// such a time stands for is MySQL's choice: the first of two moments, and the moment at which the
// clock was set forward.

// reach is how far from a time, in seconds, the clock shows it or what it was set to: zones are up
// to 14 hours from UTC, and some have skipped a day.
const reach = 26 * 3600

// Moment is the moment that a packed value stands for in a zone. skipped: the clock of the zone
// never shows it. Zero dates are Go's zero time.
func Moment(p int64, loc *time.Location) (at time.Time, skipped bool) {
	t := Unpack(p)
	if t.Month == 0 || t.Day == 0 {
		return time.Time{}, false
	}
	shown := time.Date(t.Year, time.Month(t.Month), t.Day, t.Hour, t.Minute, t.Second, t.Micro*1000, time.UTC)
	if loc == time.UTC {
		return shown, false
	}
	before, after := around(shown, loc)
	first := shown.Add(-before).In(loc)
	if offset(first) == before {
		return first, false
	}
	if second := shown.Add(-after).In(loc); offset(second) == after {
		return second, false
	}
	// The offset of before leads behind the moment at which the clock was set forward.
	begin, _ := first.ZoneBounds()
	return begin, true
}

// Meant is Moment for a statement of the time now. Of a time that the clock shows twice it is the
// present, if the clock shows it in the second of now.
func Meant(p int64, loc *time.Location, now time.Time) (at time.Time, skipped bool) {
	at, skipped = Moment(p, loc)
	if later := now.Sub(at); loc == time.UTC || skipped || later < time.Second || later > 24*time.Hour {
		return at, skipped
	}
	present := offset(now.In(loc))
	again := at.Add(offset(at) - present)
	if later := now.Sub(again); later < 0 || later >= time.Second || offset(again) != present {
		return at, false
	}
	return again, false
}

// Last is the last moment at which the clock of a zone shows a packed value: another one than that
// of Moment if the clock was set back over it.
func Last(p int64, loc *time.Location) time.Time {
	at, skipped := Moment(p, loc)
	if loc == time.UTC || skipped || at.IsZero() {
		return at
	}
	shown := at.Add(offset(at))
	_, after := around(shown, loc)
	if second := shown.Add(-after).In(loc); offset(second) == after {
		return second
	}
	return at
}

// around are the offsets of a zone well before and well after its clock shows a time.
func around(shown time.Time, loc *time.Location) (before, after time.Duration) {
	return offset(shown.Add(-reach * time.Second).In(loc)), offset(shown.Add(reach * time.Second).In(loc))
}

// offset is how much later than UTC the clock of the moment's zone is.
func offset(t time.Time) time.Duration {
	_, s := t.Zone()
	return time.Duration(s) * time.Second
}
