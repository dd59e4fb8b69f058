package kv

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestPatience: a statement fails 4.5 s after it came if nobody answers; 2.8 s after the one that
// worked for it was lost; and does not begin anew when it is tried again.
func TestPatience(t *testing.T) {
	until := func(p *Patience) time.Duration {
		began := time.Now()
		for !p.Failed() {
			time.Sleep(10 * time.Millisecond)
		}
		return time.Since(began)
	}
	synctest.Test(t, func(t *testing.T) {
		p := NewPatience()
		if PatienceOf(WithPatience(t.Context(), p)) != p || PatienceOf(context.Background()) == p {
			t.Error("a context has another's patience")
		}
		if got := until(p); got != ReachIn {
			t.Errorf("it ended after %v", got)
		}
		p.Answered()
		if !p.Failed() || p.Left() != 0 {
			t.Error("it began anew")
		}
		p = NewPatience()
		time.Sleep(time.Minute) // for a lock
		p.Answered()
		if p.Left() != ReachAgain {
			t.Errorf("%v are left", p.Left())
		}
		if got := until(p); got != ReachAgain {
			t.Errorf("it ended %v after the leader was lost", got)
		}
		p = NewPatience()
		time.Sleep(2 * time.Second) // a leader that has lost its majority serves no longer
		p.Answered()
		if got := until(p); got > 2900*time.Millisecond {
			t.Errorf("a statement that waited for a lock for 2 s ended after %v more", got)
		}
		p = NewPatience()
		time.Sleep(time.Minute)
		if p.FailedSince(time.Now().Add(-2 * time.Second)); p.Left() != ReachAgain-2*time.Second {
			t.Errorf("%v are left after a wait of 2 s", p.Left())
		}
		p = NewPatience()
		time.Sleep(time.Minute)
		p.Failed()
		if p.FailedSince(time.Now().Add(-2 * time.Second)); p.Left() != ReachAgain-2*time.Second {
			t.Errorf("%v are left after a wait of 2 s that failed at its end", p.Left())
		}
		if p.FailedSince(time.Now()); p.Left() != ReachAgain-2*time.Second {
			t.Errorf("%v are left once more has failed", p.Left())
		}
		if got := until(ForAnother()); got != another {
			t.Errorf("a request of another node ended after %v", got)
		}
		p.Answered()
		p.Failed()
		time.Sleep(2 * time.Second)
		p.Answered()
		time.Sleep(4 * time.Second)
		if got := until(p); got != ReachAgain {
			t.Errorf("it ended %v after the second leader was lost", got)
		}
		p = NewPatience()
		p.Failed()
		time.Sleep(3 * time.Second)
		p.Answered()
		if got := until(p); got != ReachIn-3*time.Second {
			t.Errorf("it ended %v after it had waited for 3 s in vain", got)
		}
		p = NewPatience()
		time.Sleep(time.Minute)
		for i := range 5 { // leaders that come and go
			p.Failed()
			time.Sleep(time.Second)
			p.Answered()
			if want := min(ReachAgain, ReachIn-time.Duration(i+1)*time.Second); p.Left() != max(want, 0) {
				t.Errorf("%v are left after %d s in vain", p.Left(), i+1)
			}
		}
	})
}
