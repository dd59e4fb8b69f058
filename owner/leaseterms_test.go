package owner

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner/lead"
)

// renewed proposes a lease of r and returns it as the log has it.
func renewed(t *testing.T, r *Replica, q *quiet) (until time.Time, length time.Duration) {
	t.Helper()
	r.renew()
	if q.waiting() != 1 {
		t.Fatalf("%d entries are proposed, want a lease", q.waiting())
	}
	q.apply()
	return r.lead.Until, r.rep.Leases[1].Length
}

// TestLeaseTerms is TIME-1a: a lease is as short as round trips and the renewals of late allow.
func TestLeaseTerms(t *testing.T) {
	for _, c := range []struct {
		name           string
		group          base.GroupID
		rtt, late      time.Duration
		hold           time.Duration
		length, renews time.Duration
	}{
		{"regions 90 ms apart", 17, 90 * time.Millisecond, 0, 0, 1470 * time.Millisecond, 490 * time.Millisecond},
		{"one data centre", 17, time.Millisecond, 0, 0, 1203 * time.Millisecond, 401 * time.Millisecond},
		{"no round trip is known", 17, 0, 0, 0, 3 * time.Second, time.Second},
		{"a way that has become slow", 17, 660 * time.Millisecond, 0, 0, 1800 * time.Millisecond, 600 * time.Millisecond},
		{"a node that is late", 17, 400 * time.Millisecond, 0, 0, 1800 * time.Millisecond, 600 * time.Millisecond},
		{"a busy machine", 17, 90 * time.Millisecond, 300 * time.Millisecond, 0, 1650 * time.Millisecond, 550 * time.Millisecond},
		{"a stalled machine", 17, 90 * time.Millisecond, 1500 * time.Millisecond, 0, 1800 * time.Millisecond,
			600 * time.Millisecond},
		{"the meta group", 0, 90 * time.Millisecond, 0, 1600 * time.Millisecond, 2050 * time.Millisecond, 250 * time.Millisecond},
		{"the meta group over a slow WAN", 0, 660 * time.Millisecond, 0, 3 * time.Second, 3 * time.Second,
			250 * time.Millisecond},
	} {
		r, _ := leader(t)
		now := time.Now()
		r.id = c.group
		r.clock.Adopt(clock.GClock, 1, 0)
		r.cfg.Farthest = func() (path, trip time.Duration) { return min(c.rtt, 90*time.Millisecond), c.rtt }
		r.cfg.Hold = func() time.Duration { return c.hold }
		r.renewals.Add(now, c.late)
		if length, age := r.leaseTerms(now); length != c.length || age.Round(time.Millisecond) != c.renews {
			t.Errorf("%s: leases of %v, renewed after %v; want %v and %v", c.name, length, age, c.length, c.renews)
		}
		if c.group != base.MetaGroup {
			continue
		}
		// Timestamps come from the leader now, and nobody can go by what it promises without it.
		short := r.cfg.LeaseOver(min(c.rtt, 90*time.Millisecond), c.rtt, 0)
		r.clock.Adopt(clock.Dual, 2, r.clock.Latest())
		if length, age := r.leaseTerms(now); length != short || length >= c.length || age.Round(time.Millisecond) != c.renews {
			t.Errorf("%s: leases of %v, renewed after %v in dual mode; want %v and %v", c.name, length, age, short, c.renews)
		}
	}
}

// TestBusyMachine: leases that are granted late become longer at once, and shorter again once the
// machine has been quiet for a while.
func TestBusyMachine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, q := leader(t)
		r.cfg.Farthest = func() (path, trip time.Duration) { return 90 * time.Millisecond, 90 * time.Millisecond }
		for range 5 { // leases of before
			time.Sleep(time.Second)
			r.renew()
			q.apply()
		}
		renewals := func(n int, takes time.Duration) time.Duration {
			for n > 0 {
				time.Sleep(tickInterval)
				if r.renew(); q.waiting() > 0 {
					time.Sleep(takes)
					q.apply()
					n--
				}
			}
			return r.rep.Leases[1].Length
		}
		renewals(60, 90*time.Millisecond)
		quiet := renewals(1, 90*time.Millisecond)
		renewals(1, 700*time.Millisecond)
		busy := renewals(1, 90*time.Millisecond)
		if after := renewals(60, 90*time.Millisecond); quiet > 1600*time.Millisecond ||
			busy < 1800*time.Millisecond || after > 1600*time.Millisecond {
			t.Errorf("leases of %v, on the busy machine of %v, afterwards of %v", quiet, busy, after)
		}
	})
}

// TestLeasesDoNotShrink is TIME-1a: a leader has a long lease, and is given a shorter one at once,
// as when the oracle asks for one. Who knows only of the later one waits for no longer than that
// is, so it must not end before the one under which the leader still serves.
func TestLeasesDoNotShrink(t *testing.T) {
	for _, broken := range []bool{false, true} {
		bubble(t, func(t *testing.T) {
			r, q := leader(t)
			r.cfg.LeasesShrink = broken
			r.lead.ForgetRequest()
			serves, _ := renewed(t, r, q)
			r.cfg.Farthest = func() (path, trip time.Duration) { return 90 * time.Millisecond, 90 * time.Millisecond }
			time.Sleep(lead.TermsFor)
			r.lead.ForgetRequest()
			learned := time.Now()
			_, length := renewed(t, r, q)
			if ends := learned.Add(clock.Stretched(length)); ends.Before(serves) != broken {
				t.Errorf("broken %v: a lease of %v ends %v before the one before it", broken, length, serves.Sub(ends))
			}
		})
	}
}
