package rig

import (
	"slices"
	"time"
)

// Outcome is what was measured of one transaction that has committed.
type Outcome struct {
	At           time.Duration // of its end, since the start of the load
	lat          time.Duration
	hops         int
	Writes       bool
	Region       int
	home, tag    int
	Coordination float64 // round trips besides that of the log
}

// Outcomes are the transactions of several clients, in no order.
type Outcomes []Outcome

// Where selects the transactions that f holds for.
func (s Outcomes) Where(f func(x *Outcome) bool) Outcomes {
	var out Outcomes
	for i := range s {
		if f(&s[i]) {
			out = append(out, s[i])
		}
	}
	return out
}

// Between selects the transactions that ended between two times since the start of the load.
func (s Outcomes) Between(from, to time.Duration) Outcomes {
	return s.Where(func(x *Outcome) bool { return x.At >= from && x.At < to })
}

// From selects the transactions of clients that belong to a region.
func (s Outcomes) From(region int) Outcomes {
	return s.Where(func(x *Outcome) bool { return x.home == region })
}

// Tagged selects the transactions of a group of clients.
func (s Outcomes) Tagged(tag int) Outcomes {
	return s.Where(func(x *Outcome) bool { return x.tag == tag })
}

// Rate is the number of transactions a second, given that s holds those of a time d.
func (s Outcomes) Rate(d time.Duration) float64 { return float64(len(s)) / d.Seconds() }

// MS is a quantile of the latencies in ms; 0 if there are none.
func (s Outcomes) MS(q float64) float64 {
	if len(s) == 0 {
		return 0
	}
	lats := make([]time.Duration, len(s))
	for i := range s {
		lats[i] = s[i].lat
	}
	slices.Sort(lats)
	return lats[min(len(lats)-1, int(q*float64(len(lats))))].Seconds() * 1e3
}

// Mean is the mean latency in ms; 0 if there are none.
func (s Outcomes) Mean() float64 {
	var sum time.Duration
	for i := range s {
		sum += s[i].lat
	}
	return sum.Seconds() * 1e3 / float64(max(1, len(s)))
}

// Share is the share of the transactions that f holds for.
func (s Outcomes) Share(f func(x *Outcome) bool) float64 {
	return float64(len(s.Where(f))) / float64(max(1, len(s)))
}

// MeanTrips is the mean of the WAN round trips of a transaction.
func (s Outcomes) MeanTrips() float64 {
	n := 0
	for i := range s {
		n += s[i].hops
	}
	return float64(n) / 2 / float64(max(1, len(s)))
}

// Least is the lowest rate in any window of the given length between two times.
func (s Outcomes) Least(from, to, window time.Duration) float64 {
	low := -1.0
	for t := from; t+window <= to; t += window / 4 {
		if r := s.Between(t, t+window).Rate(window); low < 0 || r < low {
			low = r
		}
	}
	return low
}

// Back is the time after from until the rate over half a second is at least was again. It is the
// whole time up to to if that never happens.
func (s Outcomes) Back(from, to time.Duration, was float64) time.Duration {
	const window = time.Second / 2
	for t := from; t+window <= to; t += window / 5 {
		if s.Between(t, t+window).Rate(window) >= was {
			return t - from
		}
	}
	return to - from
}
