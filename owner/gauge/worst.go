package gauge

import "time"

// worstFor is how long a measurement counts at least; it counts at most twice as long.
const worstFor = 10 * time.Second

// Worst is the largest of the measurements of late. The zero value knows none.
type Worst struct {
	since     time.Time // when now began
	now, past time.Duration
}

// turn forgets what is old.
func (w *Worst) turn(at time.Time) {
	switch age := at.Sub(w.since); {
	case age >= 2*worstFor:
		w.past, w.now, w.since = 0, 0, at
	case age >= worstFor:
		w.past, w.now, w.since = w.now, 0, w.since.Add(worstFor)
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
