package txn

import "time"

// An estimate of what is needed must come down as it goes up (docs/design.md, "What goes up comes
// down"). A measurement counts for recentFor, at most twice as long, and then it is forgotten,
// whether another one follows it or not. Only in the mean its weight fades with the measurements
// that follow; it is forgotten once none has come for that long.
const (
	recentFor = 2 * time.Second
	// recentEnough measurements are enough to leave the largest one out: a single pause of a
	// process says nothing of the next commit.
	recentEnough = 8
)

// recent estimates how long something takes from what it took lately. The zero value knows nothing.
type recent struct {
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
func (r *recent) turn(now time.Time) {
	switch age := now.Sub(r.since); {
	case age >= 2*recentFor:
		r.past, r.now, r.since, r.mean = top{}, top{}, now, 0
	case age >= recentFor:
		r.past, r.now, r.since = r.now, top{}, r.since.Add(recentFor)
	}
}

// add takes a measurement.
func (r *recent) add(now time.Time, d time.Duration) {
	r.turn(now)
	if r.now.n+r.past.n == 0 {
		r.mean = d
	}
	r.mean += (d - r.mean) / 8
	r.now.add(d)
}

// usual is the moving average of the measurements.
func (r *recent) usual(now time.Time) time.Duration {
	r.turn(now)
	return r.mean
}

// most is the largest measurement.
func (r *recent) most(now time.Time) time.Duration {
	r.turn(now)
	return max(r.now.first, r.past.first)
}

// nearly is what nearly all measurements do not exceed.
func (r *recent) nearly(now time.Time) time.Duration {
	r.turn(now)
	if r.now.n+r.past.n < recentEnough {
		return r.most(now)
	}
	both := r.now
	both.add(r.past.first)
	both.add(r.past.second)
	return both.second
}
