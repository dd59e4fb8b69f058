package geolm

import (
	"io"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/bench/rig"
	"github.com/godwitdb/godwit/policy/leader"
)

func TestDraw(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var n [3]float64
	for range 10_000 {
		n[draught(r, []float64{.5, .3, .2})]++
	}
	for i, want := range []float64{.5, .3, .2} {
		if math.Abs(n[i]/10_000-want) > .02 {
			t.Errorf("node %d gets %.3f of the requests", i, n[i]/10_000)
		}
	}
}

func TestPrecisionRecall(t *testing.T) {
	// Requests take 10 ms with node 0 as leader and 20 ms with node 1; from 10 s on the other way
	// round.
	var fixed []*leadGroup
	for n := range 2 {
		g := &leadGroup{first: n, done: make([][]leadSample, 1)}
		for at := time.Duration(0); at < 30*time.Second; at += 100 * time.Millisecond {
			lat := 10 * time.Millisecond
			if (at < 10*time.Second) == (n == 1) {
				lat *= 2
			}
			g.done[0] = append(g.done[0], leadSample{at, lat})
		}
		fixed = append(fixed, g)
	}
	at := func(sec, from, to int) leadMove { return leadMove{time.Duration(sec) * time.Second, from, to} }
	for name, c := range map[string]struct {
		moves                []leadMove
		right, wrong, missed int
	}{
		"it follows":             {[]leadMove{at(11, 0, 1)}, 1, 0, 0},
		"it stays":               {nil, 0, 0, 2},
		"it is too late":         {[]leadMove{at(20, 0, 1)}, 1, 0, 1},
		"there and back":         {[]leadMove{at(11, 0, 1), at(14, 1, 0)}, 1, 1, 1},
		"nothing comes after it": {[]leadMove{at(11, 0, 1), at(29, 1, 0)}, 1, 0, 0},
	} {
		g := &leadGroup{moves: c.moves}
		if right, wrong, missed := precisionRecall([]*leadGroup{g}, fixed, 10*time.Second,
			30*time.Second); right != c.right || wrong != c.wrong || missed != c.missed {
			t.Errorf("%s: %d right, %d wrong, %d missed", name, right, wrong, missed)
		}
	}
}

// TestLeadWorld runs a real group in virtual time. Its first leader is where few requests come
// from, and the policy moves the lead. Before and after, requests take what the distances say.
func TestLeadWorld(t *testing.T) {
	b := &geolm{rig.Params{Dir: t.TempDir(), Log: io.Discard}}
	popularity := func(time.Duration) []float64 { return []float64{.6, .4, 0} }
	stays := cell{{first: 2, fixed: true, writes: at(0), clients: 4, popularity: popularity}}
	moves := cell{{first: 2, writes: at(0), clients: 4, popularity: popularity}}
	writes := cell{{first: 0, fixed: true, writes: at(1), clients: 4, popularity: popularity}}
	if err := b.play(t.Context(), "test", 3, 20*time.Second, 0, cities(3, 40, 100, 60), stays, moves, writes); err != nil {
		t.Fatal(err)
	}
	if m := moves[0].moves; len(m) != 1 || m[0].from != 2 || m[0].to != 0 {
		t.Fatalf("moves %+v", m)
	}
	moved := moves[0].moves[0].at
	if window := 50 * leadBeat; moved < window-leadBeat || moved > window+2*leadBeat {
		t.Errorf("it moved after %v, not after the hold-down and a window", moved)
	}
	for _, c := range []struct {
		name     string
		c        cell
		from, to time.Duration
		want     float64
	}{
		{"stays", stays, 0, 20 * time.Second, .6*100 + .4*60},
		{"before", moves, 0, moved, .6*100 + .4*60},
		{"after", moves, moved + time.Second, 20 * time.Second, .4 * 40},
		{"writes wait for the quorum", writes, 0, 20 * time.Second, 40 + .4*40},
	} {
		if got := summary(c.c, c.from, c.to).mean; math.Abs(got-c.want) > .1*c.want {
			t.Errorf("%s: requests take %.1f ms, want %.1f", c.name, got, c.want)
		}
	}
	// Two acknowledgements of three: the estimate by the quorum is right.
	if e := predicted(writes, leader.Quorum, 5*time.Second); e > 10 {
		t.Errorf("equation 4 errs by %.1f %%", e)
	}
}
