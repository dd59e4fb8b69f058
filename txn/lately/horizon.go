package lately

import (
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

const (
	// Margin is what is needed at least.
	Margin    = 20 * time.Millisecond
	maxMargin = 2 * time.Second
	// mostMargin bounds what a large transaction asks the meta group to close ahead of now: owners
	// take 5 s and more for a broken clock.
	mostMargin = 4 * time.Second

	perWrite = 20 * time.Microsecond
	// perWriteFirst is what owners mostly need, for a commit that is tried again. Where the meta
	// group is led here, more than a lease covers would be waited for.
	perWriteFirst = 4 * time.Microsecond
)

// Horizon: the schema horizon is how far above now a commit bounds its timestamp, at least: the
// time from
// asking an owner to the timestamp that it assigns. It is measured, by region, and a measurement is
// soon forgotten. Too short a horizon aborts a transaction of several groups. Too long a one makes
// a commit wait, but never longer than for the next closed timestamp of the meta group. A closed
// timestamp lies farthest ahead when it arrives, so a longer wait would gain nothing.
//
// A commit in one group that comes too late is tried again, with the whole horizon. So its first
// try uses at most twice the average of what was needed: on a busy machine a few commits take ten
// times as long, and the others need not wait for the meta group because of them.
type Horizon struct {
	mu   sync.Mutex
	need map[base.RegionID]*Recent
	// lead is how far ahead of now the closed timestamp of the meta group lay.
	lead Recent
}

// Get is the horizon for a commit in groups; first: of the first try of a commit that is tried
// again if it comes too late.
func (h *Horizon) Get(now time.Time, groups []base.GroupID, writes int, first bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	d, each := Margin, perWrite
	if first {
		each = perWriteFirst
	}
	for _, g := range groups {
		if n := h.need[g.Region()]; n != nil {
			need := n.Nearly(now)
			if first {
				need = min(need, 2*n.Usual(now))
			}
			d = max(d, need)
		}
	}
	return min(min(d, maxMargin)+time.Duration(writes)*each, mostMargin)
}

// Needed takes a measurement: how long after it was asked a group assigned a timestamp, or would
// have, had it not refused. A refusal counts twice, so that nearly does not leave it out.
func (h *Horizon) Needed(now time.Time, g base.GroupID, d time.Duration, refused bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.need[g.Region()]
	if n == nil {
		if h.need == nil {
			h.need = map[base.RegionID]*Recent{}
		}
		n = &Recent{}
		h.need[g.Region()] = n
	}
	if n.Add(now, d); refused {
		n.Add(now, d)
	}
}

// Led takes how far ahead of now the meta group was closed.
func (h *Horizon) Led(now time.Time, d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lead.Add(now, d)
}

// Useful is the part of a margin that a wait can gain: a little less than the farthest that a
// closed timestamp lay ahead lately.
func (h *Horizon) Useful(now time.Time, margin time.Duration) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if most := h.lead.Most(now); most > 0 {
		return min(margin, most-most/8)
	}
	return margin
}
