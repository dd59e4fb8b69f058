package geolm

import (
	"math"
	"slices"
	"time"

	"github.com/godwitdb/godwit/policy/leader"
)

// between returns the latencies of all requests that ended within a time, sorted.
func (g *leadGroup) between(from, to time.Duration) []time.Duration {
	var out []time.Duration
	for _, c := range g.done {
		for _, s := range c {
			if s.at >= from && s.at < to {
				out = append(out, s.lat)
			}
		}
	}
	slices.Sort(out)
	return out
}

// meanMs is the mean of latencies, in ms; NaN if there are none.
func meanMs(all []time.Duration) float64 {
	var sum time.Duration
	for _, d := range all {
		sum += d
	}
	return sum.Seconds() * 1e3 / float64(len(all))
}

func quantileMs(all []time.Duration, q float64) float64 {
	if len(all) == 0 {
		return math.NaN()
	}
	return all[min(len(all)-1, int(q*float64(len(all))))].Seconds() * 1e3
}

// leadResult is the mean over the groups of a variant, which differ in the first leader.
type leadResult struct {
	mean, p99 float64 // ms
	rate      float64 // requests a second
	moves     float64
}

func summary(gs []*leadGroup, from, to time.Duration) (r leadResult) {
	n := float64(len(gs))
	for _, g := range gs {
		all := g.between(from, to)
		r.mean += meanMs(all) / n
		r.p99 += quantileMs(all, .99) / n
		r.rate += float64(len(all)) / (to - from).Seconds() / n
		for _, m := range g.moves {
			if m.at >= from && m.at < to {
				r.moves += 1 / n
			}
		}
	}
	return r
}

// precisionRecall judges the moves of some groups by the latencies in the groups whose leader was
// fixed, one for each node. A move is right if requests took less with the new leader than with the
// old one, for one slice of the trace from then on. A move is missed in a slice in which the lead
// stayed although another leader was better by 5 %.
func precisionRecall(moving, fixed []*leadGroup, slice, length time.Duration) (right, wrong, missed int) {
	took := func(node int, from, to time.Duration) float64 { return meanMs(fixed[node].between(from, to)) }
	for _, g := range moving {
		at := g.first
		k := 0
		for from := time.Duration(0); from+slice <= length; from += slice {
			first := k
			now := at
			for ; k < len(g.moves) && g.moves[k].at < from+slice; k++ {
				m := g.moves[k]
				if to := m.at + slice; to <= length {
					if took(m.to, m.at, to) < took(m.from, m.at, to) {
						right++
					} else {
						wrong++
					}
				}
				at = m.to
			}
			if k > first {
				continue
			}
			best := math.Inf(1)
			for n := range fixed {
				best = min(best, took(n, from, from+slice))
			}
			if best < .95*took(now, from, from+slice) {
				missed++
			}
		}
	}
	return right, wrong, missed
}

// predicted is the mean error of equation 4, in percent of the latency of requests in the second
// that followed.
func predicted(fixed []*leadGroup, c leader.Commit, from time.Duration) float64 {
	var sum float64
	n := 0
	for _, g := range fixed {
		m := g.model[c]
		next := from
		for i, at := range m.at {
			if at < next {
				continue
			}
			next = at + time.Second
			if took := meanMs(g.between(at, at+time.Second)); took > 0 {
				sum += math.Abs(m.cost[i].Seconds()*1e3-took) / took
				n++
			}
		}
	}
	return 100 * sum / float64(n)
}
