package base

import "time"

// LeastFor is for how long a measurement counts in [Least] at least; it counts at most twice as
// long.
const LeastFor = 2 * time.Minute

// Least is the least of the measurements of late. The zero value knows none. Times come from the
// caller and only grow.
type Least struct {
	now, past time.Duration // of this stretch of LeastFor and of the one before; 0: none
	since     time.Time     // when this one began
}

// Add takes a measurement.
func (l *Least) Add(at time.Time, d time.Duration) {
	if at.Sub(l.since) > LeastFor {
		l.past, l.now, l.since = l.now, d, at
	}
	l.now = min(l.now, d)
}

// Least is the least measurement; 0 if there is none.
func (l *Least) Least() time.Duration {
	if l.past == 0 {
		return l.now
	}
	return min(l.now, l.past)
}
