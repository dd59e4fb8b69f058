package base

import (
	"math/rand"
	"testing"
	"time"
)

// TestWorst compares with a list of all measurements: those of WorstFor count, those of before
// twice that do not.
func TestWorst(t *testing.T) {
	for seed := range int64(20) {
		r := rand.New(rand.NewSource(seed))
		type measured struct {
			at time.Time
			d  time.Duration
		}
		var w Worst
		var all []measured
		at := time.Time{}.Add(time.Duration(r.Intn(2)) * time.Hour)
		most := func(within time.Duration) (d time.Duration) {
			for _, m := range all {
				if at.Sub(m.at) < within {
					d = max(d, m.d)
				}
			}
			return d
		}
		for step := range 500 {
			pause := []time.Duration{200 * time.Millisecond, time.Second, WorstFor, 4 * WorstFor}[r.Intn(4)]
			if r.Intn(8) > 0 {
				pause = 200 * time.Millisecond
			}
			at = at.Add(time.Duration(r.Int63n(int64(pause))))
			if r.Intn(3) == 0 {
				// Few are large, so that forgetting one of them shows.
				d := time.Duration(r.ExpFloat64() * float64(time.Second))
				w.Add(at, d)
				all = append(all, measured{at, d})
			}
			got, least, largest := w.Most(at), most(WorstFor), most(2*WorstFor)
			if got < least || got > largest {
				t.Fatalf("seed %d, step %d: the worst is %v, want %v to %v", seed, step, got, least, largest)
			}
		}
	}
}
