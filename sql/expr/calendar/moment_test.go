package calendar

import (
	"testing"
	"time"
	_ "time/tzdata"
)

// TestMoments: of a time that the clock shows twice the first moment, of one that it skips the
// moment at which it was set forward. MariaDB 10.11 chooses the same.
func TestMoments(t *testing.T) {
	for _, c := range []struct {
		zone, shown, at string
		skipped         bool
		last            string // "": the same
	}{
		{"Europe/Berlin", "2023-10-29 02:30:00", "2023-10-29 00:30:00", false, "2023-10-29 01:30:00"},
		{"Europe/Berlin", "2023-10-29 01:59:59", "2023-10-28 23:59:59", false, ""},
		{"Europe/Berlin", "2023-10-29 03:00:00", "2023-10-29 02:00:00", false, ""},
		{"Europe/Berlin", "2023-03-26 02:30:00", "2023-03-26 01:00:00", true, ""},
		{"Europe/Berlin", "2023-03-26 01:59:59", "2023-03-26 00:59:59", false, ""},
		{"Europe/Berlin", "2023-03-26 03:00:00", "2023-03-26 01:00:00", false, ""},
		{"America/New_York", "2024-11-03 01:30:00", "2024-11-03 05:30:00", false, "2024-11-03 06:30:00"},
		{"America/New_York", "2024-03-10 02:00:00", "2024-03-10 07:00:00", true, ""},
		{"Australia/Lord_Howe", "2024-04-07 01:45:00", "2024-04-06 14:45:00", false, "2024-04-06 15:15:00"},
		{"Pacific/Apia", "2011-12-30 12:00:00", "2011-12-30 10:00:00", true, ""},
		{"Asia/Kathmandu", "2024-01-01 05:45:00", "2024-01-01 00:00:00", false, ""},
	} {
		loc, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := ParseDatetime(c.shown)
		p, _ := x.Packed()
		at, skipped := Moment(p, loc)
		if got := at.UTC().Format(time.DateTime); got != c.at || skipped != c.skipped {
			t.Errorf("%s in %s: %s (skipped %v), want %s", c.shown, c.zone, got, skipped, c.at)
		}
		want := c.last
		if want == "" {
			want = c.at
		}
		if got := Last(p, loc).UTC().Format(time.DateTime); got != want {
			t.Errorf("%s in %s for the last time: %s, want %s", c.shown, c.zone, got, want)
		}
	}
}

// TestMeant: a time that the clock shows twice is the present where the clock shows it now.
func TestMeant(t *testing.T) {
	for _, c := range []struct{ zone, shown, now, at string }{
		{"Europe/Berlin", "2023-10-29 02:30:00", "2023-10-29 01:30:00.7", "2023-10-29 01:30:00"},
		{"Europe/Berlin", "2023-10-29 02:30:00", "2023-10-29 00:30:00.7", "2023-10-29 00:30:00"},
		{"Europe/Berlin", "2023-10-29 02:30:00", "2023-10-29 01:30:01", "2023-10-29 00:30:00"},
		{"Europe/Berlin", "2023-10-29 02:30:00", "2023-10-29 01:29:59.9", "2023-10-29 00:30:00"},
		{"Europe/Berlin", "2023-10-29 01:30:00", "2023-10-29 00:30:00", "2023-10-28 23:30:00"},
		{"Europe/Berlin", "2023-03-26 02:30:00", "2023-03-26 01:30:00", "2023-03-26 01:00:00"},
		{"Australia/Lord_Howe", "2024-04-07 01:45:00", "2024-04-06 15:15:00", "2024-04-06 15:15:00"},
		{"UTC", "2024-04-07 01:45:00", "2024-04-07 01:45:00", "2024-04-07 01:45:00"},
	} {
		loc, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		now, err := time.Parse(time.DateTime, c.now)
		if err != nil {
			t.Fatal(err)
		}
		x, _ := ParseDatetime(c.shown)
		p, _ := x.Packed()
		if at, _ := Meant(p, loc, now); at.UTC().Format(time.DateTime) != c.at {
			t.Errorf("%s in %s at %s: %s, want %s", c.shown, c.zone, c.now, at.UTC(), c.at)
		}
	}
}
