package base

import "time"

// WorstFor is how long a measurement counts in [Worst] at least; it counts at most twice as long.
const WorstFor = 10 * time.Second

// Worst is the largest of the measurements of late. The zero value knows none. Times come from the
// caller and only grow.
type Worst struct {
	since     time.Time // when now began
	now, past time.Duration
}

// turn forgets what is old.
func (w *Worst) turn(at time.Time) {
	switch age := at.Sub(w.since); {
	case age >= 2*WorstFor:
		w.past, w.now, w.since = 0, 0, at
	case age >= WorstFor:
		w.past, w.now, w.since = w.now, 0, w.since.Add(WorstFor)
	}
}

// Add takes a measurement.
func (w *Worst) Add(at time.Time, d time.Duration) {
	w.turn(at)
	w.now = max(w.now, d)
}

// Most is the largest measurement.
func (w *Worst) Most(at time.Time) time.Duration {
	w.turn(at)
	return max(w.now, w.past)
}
