package lead

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestTerms is TIME-1a: a lease is as short as round trips and the renewals of late allow.
func TestTerms(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name             string
		rtt, took, holds time.Duration
		length, age      time.Duration
	}{
		{"regions 90 ms apart", 90 * ms, 140 * ms, 0, 940 * ms, 300 * ms},
		{"one data centre", ms, 30 * ms, 0, 851 * ms, 300 * ms},
		{"no round trip is known", 0, 0, 0, 3000 * ms, 1000 * ms},
		{"a slow WAN", 660 * ms, 700 * ms, 0, 1510 * ms, 300 * ms},
		{"a busy machine", 90 * ms, 500 * ms, 0, 1300 * ms, 300 * ms},
		{"a leader that hardly gets on", 90 * ms, 5000 * ms, 0, 3000 * ms, 300 * ms},
		{"the meta group", 90 * ms, 140 * ms, 1600 * ms, 1900 * ms, 250 * ms},
		{"the meta group over a slow WAN", 660 * ms, 700 * ms, 3000 * ms, 3000 * ms, 250 * ms},
	} {
		var l OwnLease
		l.renewals.add(c.took)
		length, age := l.Terms(Basis{Least: 800 * ms, Most: 3000 * ms, Farthest: c.rtt, Hold: c.holds, HoldAge: 250 * ms})
		if length != c.length || age != c.age {
			t.Errorf("%s: leases of %v, renewed after %v; want %v and %v", c.name, length, age, c.length, c.age)
		}
	}
}

// TestLateness: a renewal is as late as it is granted after it was due, whatever became of the
// length of leases meanwhile.
func TestLateness(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		name                string
		before, after, asks time.Duration
		want                time.Duration
	}{
		{"as ever", 900 * ms, 900 * ms, 300 * ms, 100 * ms},
		{"asked for late", 900 * ms, 900 * ms, 800 * ms, 600 * ms},
		{"leases become longer", 900 * ms, 2000 * ms, 50 * ms, 100 * ms},
		{"leases become shorter", 3000 * ms, 900 * ms, 2400 * ms, 100 * ms},
	} {
		var l OwnLease
		now := time.Unix(1, 0)
		l.Request(base.Timestamp(1), now, c.before, 300*ms)
		l.Granted(base.Timestamp(1), now)
		now = now.Add(c.asks)
		l.Request(base.Timestamp(2), now, c.after, 300*ms)
		l.Granted(base.Timestamp(2), now.Add(100*ms))
		// the holder counts with a clock that may run slow
		if got := l.renewals.took; (got - c.want).Abs() > 5*ms {
			t.Errorf("%s: %v late, want %v", c.name, got, c.want)
		}
	}
}
