package health

import (
	"log/slog"
	"testing"
	"time"
)

// TestOrganPatience: an organ counts as well again after its patience, which doubles with each
// relapse, is bounded, and comes down again while the organ is well.
func TestOrganPatience(t *testing.T) {
	now := time.Unix(1000, 0)
	var o organ
	// until looks each 100 ms until the organ is in a state, and says how long that took.
	until := func(want State, bad bool) time.Duration {
		t.Helper()
		for d := time.Duration(0); d < time.Hour; d += 100 * time.Millisecond {
			o.observe(now, bad, "test")
			if o.state == want {
				return d
			}
			now = now.Add(100 * time.Millisecond)
		}
		t.Fatalf("the organ never is %v", want)
		return 0
	}
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 160} {
		until(Sick, true)
		if got := until(Well, false); got != want*time.Second {
			t.Errorf("it counts as well after %v, want %v s", got, int(want))
		}
	}
	for range 6000 { // ten minutes of health
		now = now.Add(100 * time.Millisecond)
		o.observe(now, false, "")
	}
	if d := now.Sub(o.since); d < 10*time.Minute {
		t.Errorf("after ten minutes of health it says that it has been well for %v", d)
	}
	until(Sick, true)
	if got := until(Well, false); got != 5*time.Second {
		t.Errorf("after ten minutes of health it counts as well after %v", got)
	}
}

// TestOneSicknessIsNoRelapse: each sync of a slow disk takes half a second, and between two it
// seems well. When it is mended, the node gets its leads back after the least patience.
func TestOneSicknessIsNoRelapse(t *testing.T) {
	now := time.Unix(1000, 0)
	var o organ
	look := func(bad bool) {
		now = now.Add(100 * time.Millisecond)
		o.observe(now, bad, "test")
	}
	for range 10 {
		for range 3 {
			look(true)
		}
		for range 3 {
			look(false)
		}
	}
	for mended := now; o.state != Well; look(false) {
		if d := now.Sub(mended); d > leastPatience {
			t.Fatalf("the organ does not count as well %v after its sickness; its patience is %v", d, o.patience)
		}
	}
}

// TestLateAnswers: a node that most others confirm late, while they confirm each other in time, is
// not to lead. If all are late, the network is slow.
func TestLateAnswers(t *testing.T) {
	const late = 2 * TooOld
	for _, c := range []struct {
		own, others time.Duration
		sick        bool
	}{
		{TooOld, 0, false}, {late, 0, true}, {late, late / 3, true}, {late, late / 2, false}, {late, late, false}, {0, late, false},
	} {
		m := NewMonitor(100*time.Millisecond, slog.New(slog.DiscardHandler))
		v := m.Tick(time.Unix(1000, 0), Facts{Late: c.own, OthersLate: c.others, Heard: 3, Nodes: 3})
		if v.Leave != c.sick || (v.Unfit == Process) != c.sick {
			t.Errorf("confirmations are late by %v, those of others by %v: %+v", c.own, c.others, v)
		}
	}
}
