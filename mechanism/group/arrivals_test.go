package group

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestArrivals: an entry has the time at which it came, or a later one if there are too many; never
// an earlier one, also if entries come in place of others.
func TestArrivals(t *testing.T) {
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 0))
		var a arrivals
		came := map[uint64]uint64{} // tick by index
		start := time.Now()
		last, applied, exact := uint64(0), uint64(0), 0
		for tick := uint64(1); tick < 5000; tick++ {
			first := last + 1
			if r.IntN(10) == 0 {
				first = applied + 1 + r.Uint64N(last-applied+1)
			}
			last = first + r.Uint64N(3)
			a.add(first, last, tick, start.Add(time.Duration(tick)))
			for i := first; i <= last; i++ {
				came[i] = tick
			}
			if r.IntN(int(1+seed)) == 0 {
				to := applied + r.Uint64N(last-applied+1)
				for i := applied + 1; i <= to; i++ {
					x, ok := a.of(i)
					if !ok || x.tick < came[i] || x.at != start.Add(time.Duration(x.tick)) {
						t.Fatalf("seed %d: entry %d came at %d, and is said to have come at %d (%v)", seed, i, came[i], x.tick, ok)
					}
					if x.tick == came[i] {
						exact++
					} else if len(a) < maxArrivals/2 {
						t.Fatalf("seed %d: entry %d came at %d, and is said to have come at %d", seed, i, came[i], x.tick)
					}
				}
				applied = to
				a.applied(applied)
			}
			if len(a) > maxArrivals {
				t.Fatalf("seed %d: %d arrivals are kept", seed, len(a))
			}
		}
		if exact == 0 {
			t.Errorf("seed %d: no arrival was right", seed)
		}
	}
	if _, ok := (arrivals{}).of(7); ok {
		t.Error("the arrival of an entry that nobody noted is known")
	}
}
