package slottime

import (
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Names makes the slots of a gateway differ from each other, and from those of all others: a slot
// names its gateway in its lowest bits (REL-13). A process does not know the slots of its former
// life, so programs, which rely on that, wait until these have passed.
type Names struct {
	since time.Time // the start of the process
	mu    sync.Mutex
	given map[base.Timestamp]struct{} // all that lie above past
	past  base.Timestamp              // no slot is given at or below it any more
	sweep int                         // how many are remembered when past is raised
}

const (
	// Unit is the distance between slots of one gateway, in ns: room for the ids of all nodes.
	Unit = 1 << 16
	// leastSwept keeps a gateway with few slots from looking for those that have passed each time.
	leastSwept = 256
)

// NewNames is for a process that starts now.
func NewNames() *Names {
	return &Names{since: time.Now(), given: map[base.Timestamp]struct{}{}, sweep: leastSwept}
}

// Fresh reports whether slots of a former life of the process may still be ahead.
func (n *Names) Fresh() bool { return time.Since(n.since) < 2*Max }

// Next is the first slot at or above ts that was not given yet. Slots do not follow each other: one
// for near regions is not to wait until one for far ones has passed.
func (n *Names) Next(ts base.Timestamp, self base.NodeID) base.Timestamp {
	n.mu.Lock()
	defer n.mu.Unlock()
	ts = max(ts, n.past.Next())
	slot := ts&^(Unit-1) | base.Timestamp(self)&(Unit-1)
	if slot < ts {
		slot += Unit
	}
	for {
		if _, ok := n.given[slot]; !ok {
			break
		}
		slot += Unit
	}
	n.given[slot] = struct{}{}
	if len(n.given) > n.sweep {
		n.past = max(n.past, ts.Add(-2*Max)) // slots lie ahead of now, by Max at most
		for s := range n.given {
			if s <= n.past {
				delete(n.given, s)
			}
		}
		n.sweep = max(2*len(n.given), leastSwept)
	}
	return slot
}
