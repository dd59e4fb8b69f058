// Package lately estimates how long something takes from what it took lately.
package lately

import "time"

// An estimate of what is needed must come down as it goes up (docs/design.md, "What goes up comes
// down"). A measurement counts for Lasts, at most twice as long, and then it is forgotten,
// whether another one follows it or not. Only in the mean its weight fades with the measurements
// that follow; it is forgotten once none has come for that long.
const (
	Lasts = 2 * time.Second
	// enough measurements are enough to leave the largest one out: a single pause of a
	// process says nothing of the next commit.
	enough = 8
)

// Recent estimates how long something takes from what it took lately. The zero value knows nothing.
type Recent struct {
	since     time.Time // when now began
	now, past top
	mean      time.Duration // moving average: each measurement weighs 1/8
}

// top is the number of measurements and the two largest.
type top struct {
	n             int
	first, second time.Duration
}

func (t *top) add(d time.Duration) {
	t.n++
	if d > t.first {
		t.first, t.second = d, t.first
	} else {
		t.second = max(t.second, d)
	}
}

// turn forgets what is old.
func (r *Recent) turn(now time.Time) {
	switch age := now.Sub(r.since); {
	case age >= 2*Lasts:
		r.past, r.now, r.since, r.mean = top{}, top{}, now, 0
	case age >= Lasts:
		r.past, r.now, r.since = r.now, top{}, r.since.Add(Lasts)
	}
}

// Add takes a measurement.
func (r *Recent) Add(now time.Time, d time.Duration) {
	r.turn(now)
	if r.now.n+r.past.n == 0 {
		r.mean = d
	}
	r.mean += (d - r.mean) / 8
	r.now.add(d)
}

// Usual is the moving average of the measurements.
func (r *Recent) Usual(now time.Time) time.Duration {
	r.turn(now)
	return r.mean
}

// Most is the largest measurement.
func (r *Recent) Most(now time.Time) time.Duration {
	r.turn(now)
	return max(r.now.first, r.past.first)
}

// Nearly is what nearly all measurements do not exceed.
func (r *Recent) Nearly(now time.Time) time.Duration {
	r.turn(now)
	if r.now.n+r.past.n < enough {
		return r.Most(now)
	}
	both := r.now
	both.add(r.past.first)
	both.add(r.past.second)
	return both.second
}
