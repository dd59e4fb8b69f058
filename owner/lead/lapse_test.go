package lead

import (
	"strings"
	"testing"
	"time"
)

func ended(w *Lapse) string {
	select {
	case <-w.Ended:
		return w.Why.Error()
	default:
		return ""
	}
}

// TestWaitsEndWithTheLease: not at once, as a lease may only be renewed late, and not because it
// was missed while nobody waited.
func TestWaitsEndWithTheLease(t *testing.T) {
	var w Lapses
	now := time.Unix(1, 0)
	look := func(d time.Duration, leased bool) { now = now.Add(d); w.Look(now, leased) }
	look(0, false)
	look(time.Minute, false)
	a := w.Begin()
	look(lapseAfter, false)
	look(lapseAfter-1, false)
	look(1, true) // renewed
	look(1, false)
	look(lapseAfter-1, false)
	if ended(a) != "" {
		t.Fatalf("ended although the lease was renewed: %v", a.Why)
	}
	look(1, false)
	if !strings.Contains(ended(a), "lease") {
		t.Fatal("waits on without a lease")
	}
	if b := w.Begin(); ended(b) != "" {
		t.Fatal("a wait that begins afterwards ended with those before")
	}
}

// TestWaitsEnd: with a lease, a wait that began at any time ends between longest and twice that.
func TestWaitsEnd(t *testing.T) {
	const tick = time.Second
	for _, other := range []time.Duration{0, 7 * tick, 29 * tick, 59 * tick} { // another wait begins that often
		for begin := time.Duration(0); begin < 150*tick; begin += tick {
			var w Lapses
			var a *Lapse
			start := time.Unix(1, 0)
			for at := time.Duration(0); a == nil || ended(a) == ""; at += tick {
				if other != 0 && at%other == 0 {
					w.Begin()
				}
				if at == begin {
					a = w.Begin()
				}
				w.Look(start.Add(at), true)
				if over := at - begin; a != nil && (ended(a) != "" && over < longest || over > 2*longest+tick) {
					t.Fatalf("others every %v, begun after %v: after %v ended %q", other, begin, over, ended(a))
				}
			}
		}
	}
}
