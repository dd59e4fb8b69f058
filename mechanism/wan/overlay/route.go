package overlay

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/plan"
)

// route decides over which relay to reach one node, if any. It is pure: time comes from the caller
// and only grows.
type route struct {
	relay base.NodeID // that is in use, or is looked at
	inUse bool
	rests plan.Health

	// the median of recent: one late probe says nothing, it was behind a lost packet
	gain   time.Duration
	recent []time.Duration // how much earlier the newest probes arrived over the relay
	since  time.Duration   // from when on it was worth it (not in use), or not (in use)
	timing bool            // since counts
	behind int             // probes in a row that were late over the relay in use

	rival      base.NodeID // another relay that looks better than the one in use
	rivalSince time.Duration
}

// decision is what a route says after it has looked at something.
type decision uint8

const (
	stay  decision = iota
	begin          // use the relay
	end            // it is not worth it any more
	fail           // it has become slow
)

// recentProbes is of how many the median counts.
const recentProbes = 7

// lateProbes is after how many probes in a row that a relay delivered later than the direct path,
// by the margin, it is given up.
const lateProbes = 2

func (p Params) margin(direct time.Duration) time.Duration {
	return max(p.MinGain, time.Duration(p.MinShare*float64(direct)))
}

// look chooses the relay to probe by the network map: one-way estimates over each candidate. It may
// say that another relay should be used than is.
func (r *route) look(now, direct time.Duration, over map[base.NodeID]time.Duration, p Params) decision {
	best, least := base.NodeID(0), direct-p.margin(direct)
	for id, d := range over {
		if (d < least || d == least && (best == 0 || id < best)) && r.rests.Usable(int(id), now) {
			best, least = id, d
		}
	}
	if !r.inUse {
		if best != r.relay {
			rests := r.rests
			*r = route{relay: best, rests: rests}
		}
		return stay
	}
	cur, known := over[r.relay]
	if best == 0 || best == r.relay || known && cur-least < p.margin(direct) {
		r.rival = 0
		return stay
	}
	if r.rival != best {
		r.rival, r.rivalSince = best, now
	}
	if now-r.rivalSince >= p.Window {
		return end
	}
	return stay
}

// sample takes the arrival of a probe: direct is how long it took on the direct path (one way,
// about), gain how much less over the relay.
func (r *route) sample(now, direct, gain time.Duration, p Params) decision {
	if len(r.recent) == recentProbes {
		r.recent = append(r.recent[:0], r.recent[1:]...)
	}
	r.recent = append(r.recent, gain)
	sorted := slices.Sorted(slices.Values(r.recent))
	r.gain = sorted[len(sorted)/2]
	margin := p.margin(direct)
	if !r.inUse {
		if !r.sustained(r.gain >= margin, now, p.Window) {
			return stay
		}
		return begin
	}
	if gain < -margin {
		if r.behind++; r.behind >= lateProbes {
			return fail
		}
	} else {
		r.behind = 0
	}
	if r.sustained(r.gain < margin/2, now, p.Window) {
		return end
	}
	return stay
}

func (r *route) sustained(is bool, now, window time.Duration) bool {
	if !is {
		r.timing = false
		return false
	}
	if !r.timing {
		r.timing, r.since = true, now
	}
	return now-r.since >= window
}

// lost notes that a probe has not come over the relay; true if that relay is in use.
func (r *route) lost(now time.Duration) bool {
	r.timing, r.recent = false, nil
	if !r.inUse {
		r.rests.Failed(int(r.relay), now)
	}
	return r.inUse
}

// used notes that the relay is in use from now on, or not any more.
func (r *route) used(on, failed bool, now time.Duration) {
	if failed {
		r.rests.Failed(int(r.relay), now)
	}
	was := *r
	*r = route{rests: r.rests}
	if on {
		r.relay, r.inUse, r.gain, r.recent = was.relay, true, was.gain, was.recent
	}
}
