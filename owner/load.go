package owner

import (
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
)

// Load counts what a node's clients ask of a leader, since the leader's process began: each request pays the way there, and each
// write the replication besides.
type Load struct{ Requests, Writes uint64 }

// loads count by the node that asks. They are counted where requests arrive, so that no message has to tell of them.
type loads struct {
	mu  sync.RWMutex
	all map[base.NodeID]*loadCount
}

type loadCount struct{ requests, writes atomic.Uint64 }

// note counts a request, of which nothing is known to have failed.
func (l *loads) note(from base.NodeID, write bool) {
	l.mu.RLock()
	c := l.all[from]
	l.mu.RUnlock()
	if c == nil {
		l.mu.Lock()
		if l.all == nil {
			l.all = map[base.NodeID]*loadCount{}
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
}

// Loads are the requests to this replica as its group's leader, by the node that asked.
func (r *Replica) Loads() map[base.NodeID]Load {
	r.load.mu.RLock()
	defer r.load.mu.RUnlock()
	out := make(map[base.NodeID]Load, len(r.load.all))
	for n, c := range r.load.all {
		w := c.writes.Load() // first: it is never more than the requests
		out[n] = Load{c.requests.Load(), w}
	}
	return out
}
