package plan

import "time"

// Damper says when the network has changed enough, for long enough, to plan
// again (section 4.2: a deviation of 20 % sustained over a window). Time comes
// from the caller and only grows.
type Damper struct {
	// Deviation is the relative change that counts; default 0.2.
	Deviation float64
	// Window is how long it must last; default 5 s, so that a plan made for a slow network is given
	// up within 10 s of its end: round trips are smoothed, too.
	Window time.Duration
	// Floor is the absolute change below which a latency has not changed; default 1 ms.
	Floor time.Duration

	base  *Facts
	since map[[2]int]time.Duration // pairs that deviate, and from when on
	bytes map[int]time.Duration    // nodes whose batches or uplinks deviate
}

// Planned sets the facts that the plan in force was made from.
func (d *Damper) Planned(f *Facts) {
	d.base, d.since, d.bytes = f, map[[2]int]time.Duration{}, map[int]time.Duration{}
}

// Observe reports whether to plan again: something has deviated at every
// observation of a whole window. A change of the nodes counts at once.
func (d *Damper) Observe(now time.Duration, f *Facts) bool {
	if d.base == nil || d.base.N() != f.N() {
		return true
	}
	dev, window, floor := d.Deviation, d.Window, d.Floor
	if dev == 0 {
		dev = 0.2
	}
	if window == 0 {
		window = 5 * time.Second
	}
	if floor == 0 {
		floor = time.Millisecond
	}
	due := false
	for i := range f.N() {
		for j := range f.N() {
			if i == j {
				continue
			}
			was, is := d.base.Latency[i][j], f.Latency[i][j]
			gap := max(is-was, was-is)
			due = sustained(d.since, [2]int{i, j}, gap >= floor && float64(gap) >= dev*float64(was), now, window) || due
		}
		far := off(d.base.batch(i), f.batch(i), dev) || off(rate(d.base, i), rate(f, i), dev)
		due = sustained(d.bytes, i, far, now, window) || due
	}
	return due || off(d.base.keep(), f.keep(), dev)
}

func rate(f *Facts, i int) float64 {
	if len(f.Uplink) == 0 {
		return 0
	}
	return f.Uplink[i]
}

func off(was, is, dev float64) bool { return max(is-was, was-is) > dev*was }

func sustained[K comparable](since map[K]time.Duration, k K, now bool, at, window time.Duration) bool {
	if !now {
		delete(since, k)
		return false
	}
	from, ok := since[k]
	if !ok {
		since[k], from = at, at
	}
	return at-from >= window
}
