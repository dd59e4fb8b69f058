package owner

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/wire"
)

// TestOracle: what the oracle issues is unique, grows, lies above what it was raised to and below
// its lease, and a successor's lies above all of it.
func TestOracle(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, q := leader(t)
		ctx := context.Background()
		var mu sync.Mutex
		seen := map[base.Timestamp]bool{}
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				last := base.Timestamp(0)
				for range 200 {
					ts, err := r.issue(ctx, last)
					mu.Lock()
					if err != nil || ts <= last || ts >= r.lead.LeaseEnd || seen[ts] {
						t.Errorf("%s after %s, twice %v, lease until %s: %v", ts, last, seen[ts], r.lead.LeaseEnd, err)
					}
					seen[ts], last = true, ts
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		if _, err := r.issue(ctx, r.clock.Latest().Add(time.Hour)); base.CodeOf(err) != base.CodeInvalid {
			t.Errorf("raised by an hour: %v", err)
		}
		// Beyond its lease it takes a longer one first.
		far := r.lead.LeaseEnd.Add(time.Second)
		got := make(chan base.Timestamp, 1)
		go func() {
			ts, err := r.issue(ctx, far)
			if err != nil {
				t.Error(err)
			}
			got <- ts
		}()
		synctest.Wait()
		if q.waiting() != 1 {
			t.Fatalf("%d proposals for a longer lease", q.waiting())
		}
		q.apply()
		top := <-got
		if top <= far || top >= r.lead.LeaseEnd {
			t.Errorf("raised to %s: %s, lease until %s", far, top, r.lead.LeaseEnd)
		}
		r.rep.Leases[2] = r.rep.Leases[1] // as the successor sees its predecessor's
		delete(r.rep.Leases, 1)
		r.lead = lead.Leadership{}
		r.Leading(2, 1)
		time.Sleep(clock.Stretched(r.cfg.Lease) + time.Millisecond)
		for range 2 { // a lease to close under, and one to serve under
			synctest.Wait()
			q.apply()
		}
		synctest.Wait()
		if ts, err := r.issue(ctx, 0); err != nil || ts <= top {
			t.Errorf("the successor issues %s after %s: %v", ts, top, err)
		}
	})
}

// TestLeaseByMonotonicClock is MODE-5: a holder stops when its monotonic clock says so,
// whatever its other clock reads; and the end of a lease that was logged without a bounded clock
// says nothing to a successor.
func TestLeaseByMonotonicClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := leader(t)
		r.lead.LeaseEnd = r.clock.Latest().Add(time.Hour)
		if _, ok := r.Serving(); !ok {
			t.Fatal("a leader with a lease does not serve")
		}
		time.Sleep(r.cfg.Lease)
		if _, ok := r.Serving(); ok {
			t.Error("it serves although the time of its lease is over")
		}
	})
	bubble(t, func(t *testing.T) {
		r, q := leader(t)
		r.cfg.NoEarlyClose = true // as in all groups but this one
		r.lead = lead.Leadership{}
		r.rep.Leases[2] = state.Lease{End: r.clock.Latest().Add(-time.Hour), Length: 2 * time.Second, Virtual: true,
			Learned: time.Now()}
		r.Leading(1, 1)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		early := q.waiting()
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
		if early != 0 || q.waiting() != 1 {
			t.Errorf("the new leader asked for a lease %d times before its predecessor's was over, "+
				"%d times soon after", early, q.waiting())
		}
		q.apply()
		synctest.Wait()
	})
}

// TestOrderClock: a step counts only if it follows the one in force, survives a restart, and the
// oracle is above what it has to be when it counts.
func TestOrderClock(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, q := leader(t)
		order := func(m clock.Mode, epoch uint64, raise base.Timestamp) error {
			done := make(chan error, 1)
			go func() {
				done <- r.OrderClock(context.Background(), &wire.ClockOrder{Mode: uint32(m), Epoch: epoch, Reason: "test"}, raise)
			}()
			synctest.Wait()
			q.apply()
			synctest.Wait()
			q.apply()
			return <-done
		}
		if now, _ := r.ClockSteps(); clock.Mode(now.Mode) != clock.GClock || now.Epoch != 1 {
			t.Errorf("a cluster begins with %v", now)
		}
		raise := r.lead.LeaseEnd.Add(5 * time.Second)
		if err := order(clock.Dual, 2, raise); err != nil {
			t.Fatal(err)
		}
		if ts, err := r.issue(context.Background(), 0); err != nil || ts <= raise || r.clock.Known() < raise {
			t.Errorf("the oracle issues %s, known are %s, not above %s: %v", ts, r.clock.Known(), raise, err)
		}
		for _, epoch := range []uint64{1, 2, 4} {
			if err := order(clock.GTM, epoch, 0); base.CodeOf(err) != base.CodeAborted {
				t.Errorf("epoch %d after 2: %v", epoch, err)
			}
		}
		for e := uint64(3); e < 3+2*state.MaxClockOrders; e++ {
			if err := order(clock.Mode(1+e%3), e, 0); err != nil {
				t.Fatal(err)
			}
		}
		before, steps := r.ClockSteps()
		if err := r.loadState(); err != nil {
			t.Fatal(err)
		}
		after, again := r.ClockSteps()
		if before.Epoch != after.Epoch || before.Mode != after.Mode || len(steps) != state.MaxClockOrders ||
			len(again) != state.MaxClockOrders {
			t.Errorf("in force %v, after a restart %v; %d and %d steps", before, after, len(steps), len(again))
		}
	})
}

// refusing is an oracle that refuses some times.
type refusing struct {
	times int
	at    base.Timestamp
}

func (o *refusing) Raise(_ context.Context, min base.Timestamp) (base.Timestamp, int, error) {
	if o.times--; o.times >= 0 {
		return 0, 0, base.Errorf(base.CodeInvalid, "the oracle cannot be raised")
	}
	o.at = max(o.at, min) + 1
	return o.at, 0, nil
}

// TestSettledAtLast: what is in the log is settled some time, though the oracle refuses at first.
// Else its rows would stay locked.
func TestSettledAtLast(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := leader(t)
		o := &refusing{times: 4, at: r.clock.Latest()}
		r.clock = clock.New(clock.NewSimulated(0, 1))
		r.clock.Wait(o)
		for i, m := range []clock.Mode{clock.GClock, clock.Dual, clock.GTM} {
			r.clock.Adopt(m, uint64(i+1), o.at)
		}
		r.clock.Grant(time.Now().Add(time.Hour))
		ts := o.at.Add(time.Millisecond)
		if err := r.commitWait(context.Background(), ts); base.CodeOf(err) != base.CodeInvalid {
			t.Fatalf("the oracle does not refuse: %v", err)
		}
		if !r.settled(ts) || !r.clock.Settled(ts) {
			t.Error("it is not settled")
		}
	})
}
