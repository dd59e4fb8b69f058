package owner

import (
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
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

// loads count requests by the node or region that sends them. They are counted where requests
// arrive, so that no message has to carry the counts.
type loads struct {
	mu  sync.RWMutex
	all map[Asker]*loadCount
}

type loadCount struct{ requests, writes, whole atomic.Uint64 }

// note counts a request, of which nothing is known to have failed.
func (l *loads) note(from Asker, write, whole bool) {
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

// countRequest counts a request, whose first key is given. A statement that was forwarded here made
// one trip, whatever it asks here; it counts with its commit.
func (r *Replica) countRequest(from base.NodeID, txn *wire.TxnMeta, write bool, key base.Key) {
	whole := r.cfg.Whole != nil && len(key) >= base.IndexPrefixLen && r.cfg.Whole(key)
	if from == r.cfg.Self && r.cfg.Region != nil {
		if g := base.RegionID(txn.GetGatewayRegion()); g != 0 && g != r.cfg.Region() {
			if write {
				r.load.note(Asker{Region: g}, true, whole)
			}
			return
		}
	}
	r.load.note(Asker{Node: from}, write, whole)
}

// Loads are the requests to this replica as its group's leader, by their sender.
func (r *Replica) Loads() map[Asker]Load {
	r.load.mu.RLock()
	defer r.load.mu.RUnlock()
	out := make(map[Asker]Load, len(r.load.all))
	for n, c := range r.load.all {
		w, whole := c.writes.Load(), c.whole.Load() // first: they are never more than the requests
		out[n] = Load{c.requests.Load(), w, whole}
	}
	return out
}
