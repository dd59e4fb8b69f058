package wan

import "time"

// RTT smooths the round-trip times measured to one peer, as RFC 6298 does: each
// sample moves the mean by 1/8 and the deviation by 1/4 of the way. Samples that
// are rare move it further, up to half of the way: else a path that was slow once
// would count as slow for as long as there are few samples. The zero value has no
// samples. It is pure; feed it from heartbeats.
type RTT struct {
	Last time.Duration // newest sample
	SRTT time.Duration // smoothed round trip
	Var  time.Duration // smoothed absolute deviation
	N    uint64        // samples

	// The minimum of the samples of this window and of the one before, so that a
	// path that became longer is noticed.
	cur, prev time.Duration
	at        time.Duration // of the newest sample, if Echo took it
}

// usual is the time between samples for which the shares of RFC 6298 are meant.
const usual = 100 * time.Millisecond

// rttWindow is the number of samples after which an old minimum is forgotten
// (at the latest after two windows).
const rttWindow = 128

// Add takes one sample; negative ones (a clock stepped) are ignored.
func (r *RTT) Add(d time.Duration) { r.add(d, 1) }

// add takes a sample that stands for so many, up to four.
func (r *RTT) add(d, n time.Duration) {
	if d < 0 {
		return
	}
	if r.N == 0 {
		r.SRTT, r.Var, r.cur, r.prev = d, d/2, d, d
	} else {
		dev := d - r.SRTT
		r.SRTT += dev * n / 8
		if dev < 0 {
			dev = -dev
		}
		r.Var += (dev - r.Var) * min(n, 2) / 4
		if r.N%rttWindow == 0 {
			r.prev, r.cur = r.cur, d
		}
		r.cur = min(r.cur, d)
	}
	r.Last = d
	r.N++
}

// Echo takes the sample of a returned probe: now and echo (the probe's send
// time) by the own monotonic clock, delay how long the peer kept it.
func (r *RTT) Echo(now, echo, delay time.Duration) {
	if echo > 0 && delay >= 0 {
		n := time.Duration(1)
		if r.at > 0 {
			n = min(max((now-r.at+usual/2)/usual, 1), 4)
		}
		r.at = now
		r.add(now-echo-delay, n)
	}
}

// Known reports whether there was any sample.
func (r *RTT) Known() bool { return r.N > 0 }

// Min is the smallest recent round trip: the path without queues.
func (r *RTT) Min() time.Duration { return min(r.cur, r.prev) }

// OneWay estimates the time to the peer: half the smoothed round trip, as
// nothing tells the two directions apart.
func (r *RTT) OneWay() time.Duration { return r.SRTT / 2 }

// Timeout is a bound that few answers exceed: SRTT + 4 Var, and at least floor more than SRTT.
func (r *RTT) Timeout(floor time.Duration) time.Duration {
	return r.SRTT + max(4*r.Var, floor)
}
