// Package gauge has what a replica measures while it serves: who asks it for how much, how long its
// commits take, how old its closed timestamp is, and what it has counted. Nothing here locks a row
// or reads one.
package gauge

import (
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
)

// Load counts what a node's clients ask of a leader, since the leader's process began: each request
// pays the way there, and each write the replication besides. Whole are the requests for rows of
// tables that are homed as a whole.
type Load struct{ Requests, Writes, Whole uint64 }

// Asker is a node that asks, or a region whose statements were forwarded to the leader's node as a
// whole.
type Asker struct {
	Node   base.NodeID
	Region base.RegionID
}

// Loads count requests by the node or region that sends them. They are counted where requests
// arrive, so that no message has to carry the counts.
type Loads struct {
	mu  sync.RWMutex
	all map[Asker]*loadCount
}

type loadCount struct{ requests, writes, whole atomic.Uint64 }

// Note counts a request, of which nothing is known to have failed.
func (l *Loads) Note(from Asker, write, whole bool) {
	l.mu.RLock()
	c := l.all[from]
	l.mu.RUnlock()
	if c == nil {
		l.mu.Lock()
		if l.all == nil {
			l.all = map[Asker]*loadCount{}
		}
		if c = l.all[from]; c == nil {
			c = new(loadCount)
			l.all[from] = c
		}
		l.mu.Unlock()
	}
	c.requests.Add(1)
	if write {
		c.writes.Add(1)
	}
	if whole {
		c.whole.Add(1)
	}
}

// All are the requests so far, by their sender.
func (l *Loads) All() map[Asker]Load {
	l.mu.RLock()
	defer l.mu.RUnlock()
	out := make(map[Asker]Load, len(l.all))
	for n, c := range l.all {
		w, whole := c.writes.Load(), c.whole.Load() // first: they are never more than the requests
		out[n] = Load{c.requests.Load(), w, whole}
	}
	return out
}
