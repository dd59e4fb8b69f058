package health

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
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

// TestFarNode: a node that is far from most nodes, which are near each other, is not to lead. If
// all are far from each other, or nobody knows, it may.
func TestFarNode(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for _, c := range []struct {
		name  string
		trips [][]int // ms; below 0: not known
		own   time.Duration
		sick  bool
	}{
		{"near", [][]int{{0, 60, 90}, {60, 0, 30}, {90, 30, 0}}, ms(60), false},
		{"far from both", [][]int{{0, 900, 800}, {900, 0, 30}, {800, 30, 0}}, ms(800), true},
		{"far from one", [][]int{{0, 900, 60}, {900, 0, 30}, {60, 30, 0}}, ms(60), false},
		{"all are far", [][]int{{0, 900, 800}, {900, 0, 700}, {800, 700, 0}}, ms(800), false},
		{"the others do not say", [][]int{{0, 900, 800}, {900, 0, -1}, {800, -1, 0}}, ms(800), false},
		{"it does not know", [][]int{{0, -1, -1}, {900, 0, 30}, {800, 30, 0}}, 0, false},
		{"a majority is far, of four", [][]int{{0, 30, 900, 900}, {30, 0, 900, 900}, {900, 900, 0, 30}, {900, 900, 30, 0}}, ms(900), false},
	} {
		var nodes []int
		for n := range c.trips {
			nodes = append(nodes, n)
		}
		between := func(a, b int) time.Duration { return ms(c.trips[a][b]) }
		f := Facts{Trip: Trip(nodes, 0, between, 0), Heard: 3, Nodes: 3}
		if f.Trip != c.own {
			t.Errorf("%s: a trip of %v, want %v", c.name, f.Trip, c.own)
		}
		var others []time.Duration
		for _, n := range nodes[1:] {
			others = append(others, Trip(nodes, n, between, time.Hour))
		}
		slices.Sort(others)
		f.OthersTrip = others[len(others)/2]
		v := NewMonitor(100*time.Millisecond, slog.New(slog.DiscardHandler)).Tick(time.Unix(1000, 0), f)
		if v.Leave != c.sick || (v.Unfit == Process) != c.sick {
			t.Errorf("%s: %+v of %+v", c.name, v, f)
		}
	}
}

// TestChanges: a monitor remembers its verdicts with their reasons, the newest of them.
func TestChanges(t *testing.T) {
	m := NewMonitor(100*time.Millisecond, slog.New(slog.DiscardHandler))
	now := time.Unix(1000, 0)
	tick := func(f Facts, n int) {
		for range n {
			now = now.Add(100 * time.Millisecond)
			f.Heard, f.Nodes = 3, 3
			m.Tick(now, f)
		}
	}
	tick(Facts{}, 1)
	tick(Facts{Late: 2 * TooOld}, 3)
	tick(Facts{}, 60)
	var got []string
	for _, c := range m.Status().Changes {
		got = append(got, fmt.Sprintf("%s %s -> %s, leads leave: %v: %s", c.Organ, c.From, c.To, c.Leaves, c.Why))
	}
	if len(got) != 3 || !strings.HasPrefix(got[0], "process well -> sick, leads leave: true: ") || strings.HasSuffix(got[0], ": ") ||
		!strings.HasPrefix(got[1], "process sick -> recovering") || got[2] != "process recovering -> well, leads leave: true: it has been well for 5s" {
		t.Errorf("the verdicts are %q", got)
	}
	for range 60 {
		tick(Facts{Late: 2 * TooOld}, 1)
		tick(Facts{}, 1)
	}
	if all := m.Status().Changes; len(all) != maxChanges || !all[len(all)-1].At.Equal(now) {
		t.Errorf("%d verdicts are kept, the newest of %v", len(all), all[len(all)-1].At)
	}
}
