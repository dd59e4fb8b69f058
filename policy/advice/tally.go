package advice

import (
	"cmp"
	"maps"
	"slices"
)

// tally sums up uses by region and kind.
type tally struct {
	f  *Facts
	by map[[2]int]*sums
}

type sums struct {
	n             uint64
	before, after Figures   // sums
	was, will     []weighed // medians, and what is predicted
	slow, tail    []weighed // 99th percentiles
}

func newTally(f *Facts) *tally { return &tally{f, map[[2]int]*sums{}} }

// add counts a use, which will take what outcomes say, and send so many bytes.
func (t *tally) add(u *Use, after []outcome, bytes float64) {
	kind := Read
	if u.Kind != Read {
		kind = Write
	}
	k := [2]int{u.Region, int(kind)}
	s := t.by[k]
	if s == nil {
		s = &sums{}
		t.by[k] = s
	}
	n := float64(u.Count)
	c := mean(after)
	s.n += u.Count
	s.before.Mean += n * u.Mean
	s.before.Trips += n * u.Trips
	s.before.Bytes += n * u.Bytes
	s.after.Mean += n * c.ms
	s.after.Trips += n * c.trips
	s.after.Bytes += n * bytes
	s.was = append(s.was, weighed{u.P50, n})
	s.slow = append(s.slow, weighed{u.P99, n})
	for _, o := range after {
		s.will = append(s.will, weighed{o.ms, n * o.share})
		s.tail = append(s.tail, weighed{o.ms + o.tail, n * o.share})
	}
}

// effects are in the order of regions, reads first.
func (t *tally) effects() (out []Effect) {
	order := func(a, b [2]int) int { return cmp.Or(a[0]-b[0], a[1]-b[1]) }
	for _, k := range slices.SortedFunc(maps.Keys(t.by), order) {
		s := t.by[k]
		n := float64(s.n)
		for _, f := range []*Figures{&s.before, &s.after} {
			f.Mean, f.Trips, f.Bytes = f.Mean/n, f.Trips/n, f.Bytes/n
		}
		s.before.P50, s.after.P50 = quantile(s.was, 0.5), quantile(s.will, 0.5)
		s.before.P99, s.after.P99 = quantile(s.slow, 0.99), quantile(s.tail, 0.99)
		out = append(out, Effect{k[0], Kind(k[1]), s.n, s.before, s.after})
	}
	return out
}
