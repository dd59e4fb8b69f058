package owner

import (
	"testing"
	"time"

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

// TestBusyMachine: leases that are granted late become longer at once, by as much as they were
// late, and shorter again once the machine has been quiet for a while.
func TestBusyMachine(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, q := leader(t)
		r.cfg.Farthest = func() time.Duration { return 90 * time.Millisecond }
		for range 5 { // leases of before
			time.Sleep(time.Second)
			r.renew()
			q.apply()
		}
		renewals := func(n int, takes time.Duration) time.Duration {
			for n > 0 {
				time.Sleep(lead.RenewEvery)
				if r.renew(); q.waiting() > 0 {
					time.Sleep(takes)
					q.apply()
					n--
				}
			}
			return r.rep.Leases[1].Length
		}
		quiet := renewals(30, 90*time.Millisecond)
		renewals(1, 700*time.Millisecond)
		busy := renewals(1, 90*time.Millisecond)
		if after := renewals(15, 90*time.Millisecond); quiet > time.Second || busy < quiet+500*time.Millisecond ||
			busy > quiet+700*time.Millisecond || after > time.Second {
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
			r.cfg.Farthest = func() time.Duration { return 90 * time.Millisecond }
			time.Sleep(termsFor)
			r.lead.ForgetRequest()
			learned := time.Now()
			_, length := renewed(t, r, q)
			if ends := learned.Add(clock.Stretched(length)); ends.Before(serves) != broken {
				t.Errorf("broken %v: a lease of %v ends %v before the one before it", broken, length, serves.Sub(ends))
			}
		})
	}
}
