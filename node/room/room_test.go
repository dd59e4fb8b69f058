package room

import (
	"testing"
	"time"
)

// TestForecast: what is used at a steady pace is used up in time; what was used long ago, or came
// back, does not count.
func TestForecast(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		name string
		free func(hours float64) float64 // GiB
		span time.Duration
		want time.Duration
	}{
		{"nothing is known yet", func(h float64) float64 { return 100 - 10*h }, 20 * time.Minute, 0},
		{"10 GiB an hour", func(h float64) float64 { return 100 - 10*h }, 4 * time.Hour, 6 * time.Hour},
		{"none is used", func(float64) float64 { return 100 }, 4 * time.Hour, 0},
		{"some came back", func(h float64) float64 { return 100 + h }, 4 * time.Hour, 0},
		{"a load that ended 7 h ago", func(h float64) float64 { return max(100-10*h, 70) }, 10 * time.Hour, 0},
		{"full", func(h float64) float64 { return max(20-10*h, 0) }, 3 * time.Hour, time.Second},
	} {
		f, now := &Forecast{}, time.Unix(0, 0)
		var got time.Duration
		for at := time.Duration(0); at <= c.span; at += 10 * time.Second {
			got = f.Note(now.Add(at), int64(c.free(at.Hours())*gib))
		}
		if d := (got - c.want).Abs(); d > c.want/50 {
			t.Errorf("%s: full in %v, want %v", c.name, got, c.want)
		}
		if len(f.samples) > noted {
			t.Errorf("%s: %d samples are kept", c.name, len(f.samples))
		}
	}
}
