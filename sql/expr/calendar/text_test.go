package calendar

import (
	"math"
	"testing"
	"time"
)

// TestDurationFromNumber: the digits of a number are hours, minutes and seconds; one that is too
// large is the edge of the range, the least integer as well, which has no opposite.
func TestDurationFromNumber(t *testing.T) {
	const most = (838*time.Hour + 59*time.Minute + 59*time.Second) / time.Microsecond
	for _, x := range []struct {
		n, us int64
		in    bool
	}{
		{101, 61e6, true}, {-101, -61e6, true}, {8385959, int64(most), true}, {8390000, int64(most), false},
		{math.MaxInt64, int64(most), false}, {-math.MaxInt64, -int64(most), false}, {math.MinInt64, -int64(most), false},
	} {
		if us, in, _ := DurationFromNumber(x.n); us != x.us || in != x.in {
			t.Errorf("%d: %d, within the range %t; want %d, %t", x.n, us, in, x.us, x.in)
		}
	}
}
