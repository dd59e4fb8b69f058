package events

import (
	"time"

	"github.com/dolthub/go-mysql-server/sql"
)

// late is how late an event that recurs may still be run.
const late = 5 * time.Minute

// latest is the newest time, up to now, at which an event is to be run; zero if there is none yet.
// more says whether there are later ones.
func latest(e *sql.EventDefinition, now time.Time) (at time.Time, more bool, err error) {
	if e.HasExecuteAt {
		if e.ExecuteAt.After(now) {
			return time.Time{}, true, nil
		}
		return e.ExecuteAt, false, nil
	}
	every, err := sql.EventOnScheduleEveryIntervalFromString(e.ExecuteEvery)
	if err != nil {
		return time.Time{}, false, err
	}
	end := now
	if e.HasEnds && e.Ends.Before(end) {
		end = e.Ends
	}
	step := stepOf(every)
	if !step.longer() || e.HasEnds && e.Ends.Before(e.Starts) {
		return time.Time{}, false, nil
	}
	if e.Starts.After(end) {
		return time.Time{}, true, nil
	}
	n := step.times(e.Starts, end)
	next := step.add(e.Starts, n+1)
	return step.add(e.Starts, n), !e.HasEnds || !next.After(e.Ends), nil
}

// due reports whether an event is to be run now, for the time at. over says that it is not, and
// never will be. last is the time for which it was run last.
func due(e *sql.EventDefinition, last, now time.Time) (at time.Time, run, over bool, err error) {
	at, more, err := latest(e, now)
	if err != nil {
		return at, false, false, err
	}
	run = !at.IsZero() && at.After(last) && !at.Before(e.LastAltered.Truncate(time.Second)) &&
		(e.HasExecuteAt || now.Sub(at) <= late)
	return at, run, !more && !run, nil
}

// step is an interval: months are as long as the calendar says.
type step struct {
	months int
	rest   time.Duration
}

func stepOf(e *sql.EventOnScheduleEveryInterval) step {
	return step{int(12*e.Years + e.Months), time.Duration(e.Days)*24*time.Hour + time.Duration(e.Hours)*time.Hour +
		time.Duration(e.Minutes)*time.Minute + time.Duration(e.Seconds)*time.Second}
}

// longer reports whether a step leads to a later time.
func (s step) longer() bool { return s.months >= 0 && s.rest >= 0 && (s.months > 0 || s.rest > 0) }

// add is n steps after a time. A day that a month does not have is its last one.
func (s step) add(t time.Time, n int) time.Time {
	if s.months > 0 {
		y, m, d := t.Date()
		first := time.Date(y, m+time.Month(n*s.months), 1, t.Hour(), t.Minute(), t.Second(), 0, t.Location())
		days := first.AddDate(0, 1, -1).Day()
		t = first.AddDate(0, 0, min(d, days)-1)
	}
	return t.Add(time.Duration(n) * s.rest)
}

// times is how many steps lead from a time to the last one up to end, which is not before it.
func (s step) times(t, end time.Time) int {
	const longestMonth = 31 * 24 * time.Hour
	n := int(end.Sub(t) / (time.Duration(s.months)*longestMonth + s.rest))
	for !s.add(t, n+1).After(end) {
		n++
	}
	return n
}
