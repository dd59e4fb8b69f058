package replica

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Hedge says when a read whose answer does not come is asked of a second node. It bounds what that
// adds to the load: a twentieth of the reads, and ten at once after a quiet time. The zero value
// knows nobody yet. Not safe for concurrent use.
type Hedge struct {
	nodes map[base.NodeID]*answers
	spent float64 // second requests, less what the reads since have paid back
}

const (
	hedgeShare = 1.0 / 20 // second requests for each read
	hedgeBurst = 10       // of them at once

	// A node's usual time is known after answersKnown answers, and is of the newest answersKept.
	answersKnown, answersKept = 16, 64
	// leastHedge is for the noise of a busy machine, freshHedge for a node whose usual time is not
	// known.
	leastHedge, freshHedge, mostHedge = 20 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond
)

// answers are the times that a node took of late to answer, beyond the round trip.
type answers struct {
	last  [answersKept]time.Duration
	n     int
	usual time.Duration // the 95th percentile of them; 0: not known
}

func (a *answers) add(d time.Duration) {
	a.last[a.n%answersKept] = d
	if a.n++; a.n%answersKnown == 0 {
		s := slices.Clone(a.last[:min(a.n, answersKept)])
		slices.Sort(s)
		a.usual = max(s[len(s)*95/100], 1)
	}
}

// Sent counts a read that may be asked of a second node, and tells for how long the answer of the
// first one is awaited before, whose round trip is rtt: as long as it takes with 95 of 100 reads.
func (h *Hedge) Sent(n base.NodeID, rtt time.Duration) time.Duration {
	h.spent = max(h.spent-hedgeShare, 0)
	if a := h.nodes[n]; a != nil && a.usual > 0 {
		return rtt + min(max(a.usual, leastHedge), mostHedge)
	}
	return rtt + freshHedge
}

// Spend reports whether one more read may be asked of a second node now.
func (h *Hedge) Spend() bool {
	if h.spent+1 > hedgeBurst {
		return false
	}
	h.spent++
	return true
}

// Took notes that a node took so long beyond its round trip to answer, or that its answer was
// awaited for so long in vain.
func (h *Hedge) Took(n base.NodeID, beyond time.Duration) {
	if h.nodes == nil {
		h.nodes = map[base.NodeID]*answers{}
	}
	a := h.nodes[n]
	if a == nil {
		a = &answers{}
		h.nodes[n] = a
	}
	a.add(max(beyond, 0))
}
