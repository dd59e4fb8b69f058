package events

import (
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
)

func at(s string) time.Time {
	for _, f := range []string{"2006-01-02 15:04:05", "2006-01-02"} {
		if t, err := time.Parse(f, s); err == nil {
			return t
		}
	}
	return time.Time{}
}

func TestDue(t *testing.T) {
	for _, c := range []struct {
		every, starts, ends, once string
		altered, last, now        string
		at                        string
		run, over                 bool
	}{
		{every: "10 SECOND", starts: "2024-01-01", now: "2024-01-01 00:00:09", at: "2024-01-01", run: true},
		{every: "10 SECOND", starts: "2024-01-01", last: "2024-01-01", now: "2024-01-01 00:00:09", at: "2024-01-01"},
		{every: "10 SECOND", starts: "2024-01-01", last: "2024-01-01", now: "2024-01-01 00:00:10", at: "2024-01-01 00:00:10", run: true},
		{every: "10 SECOND", starts: "2024-01-02", now: "2024-01-01", at: ""},
		// One that was enabled between two times waits for the next one.
		{every: "1 HOUR", starts: "2024-01-01", altered: "2024-01-01 05:00:01", now: "2024-01-01 05:00:02", at: "2024-01-01 05:00:00"},
		// What nobody ran for long is left out.
		{every: "1 DAY", starts: "2024-01-01", last: "2024-01-01", now: "2024-01-03 00:05:01", at: "2024-01-03"},
		{every: "1 DAY", starts: "2024-01-01", last: "2024-01-01", now: "2024-01-03 00:04:59", at: "2024-01-03", run: true},
		{every: "1 MONTH", starts: "2024-01-31", last: "2024-01-31", now: "2024-02-29 00:00:01", at: "2024-02-29", run: true},
		{every: "1 MONTH", starts: "2024-01-31", last: "2024-02-29", now: "2024-03-31 00:00:01", at: "2024-03-31", run: true},
		{every: "1 YEAR", starts: "2024-02-29", last: "2024-02-29", now: "2044-02-29 00:00:01", at: "2044-02-29", run: true},
		{every: "'1:12' MONTH_HOUR", starts: "2024-01-01", last: "2024-01-01", now: "2024-02-01 12:00:00", at: "2024-02-01 12:00:00", run: true},
		{every: "10 SECOND", starts: "2024-01-01", ends: "2024-01-01 00:00:15", last: "2024-01-01", now: "2024-01-01 00:00:20",
			at: "2024-01-01 00:00:10", run: true},
		{every: "10 SECOND", starts: "2024-01-01", ends: "2024-01-01 00:00:15", last: "2024-01-01 00:00:10", now: "2024-01-01 00:00:20",
			at: "2024-01-01 00:00:10", over: true},
		{once: "2024-01-01", now: "2023-12-31", at: ""},
		{once: "2024-01-01", now: "2024-01-05", at: "2024-01-01", run: true},
		{once: "2024-01-01", last: "2024-01-01", now: "2024-01-05", at: "2024-01-01", over: true},
		{once: "2024-01-01", altered: "2024-01-02", now: "2024-01-05", at: "2024-01-01", over: true},
	} {
		e := &sql.EventDefinition{ExecuteEvery: c.every, Starts: at(c.starts), Ends: at(c.ends), HasEnds: c.ends != "",
			ExecuteAt: at(c.once), HasExecuteAt: c.once != "", LastAltered: at(c.altered)}
		got, run, over, err := due(e, at(c.last), at(c.now))
		if err != nil || !got.Equal(at(c.at)) || run != c.run || over != c.over {
			t.Errorf("%+v: %v, run %t, over %t, %v", c, got, run, over, err)
		}
	}
}

// TestSteps: the fast way to the last step agrees with going one by one.
func TestSteps(t *testing.T) {
	for _, s := range []step{{0, time.Second}, {0, 90 * time.Minute}, {1, 0}, {2, 36 * time.Hour}, {12, 0}} {
		from := at("2020-01-31 10:00:00")
		for _, days := range []int{0, 1, 28, 29, 59, 400, 2000} {
			end := from.AddDate(0, 0, days).Add(time.Minute)
			if s.rest == time.Second && days > 1 {
				continue
			}
			n := 0
			for !s.add(from, n+1).After(end) {
				n++
			}
			if got := s.times(from, end); got != n {
				t.Errorf("%+v, %d days: %d steps, want %d", s, days, got, n)
			}
		}
	}
}
