package cluster

import (
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/placement"
	"github.com/godwitdb/godwit/wire"
)

// This file says where to send a request: which node leads a group, which hold it, how far away
// they are.

// Directory knows which node leads each group, from the announcements of the leaders themselves. It
// may be behind; a node that is asked in error says which one is right.
type Directory struct {
	mu    sync.RWMutex
	leads map[base.GroupID]announcement
}

// announcement is what a leader said of its group last.
type announcement struct {
	node        base.NodeID
	term        uint64
	incarnation uint32 // of the group
	closed      base.Timestamp
	heard       time.Time
}

// NewDirectory knows no leader yet.
func NewDirectory() *Directory { return &Directory{leads: map[base.GroupID]announcement{}} }

// Heard records a leader's announcement. Those of older terms and incarnations are ignored: they
// may arrive after newer ones, from a node that has lost the lead without knowing.
func (d *Directory) Heard(from base.NodeID, l *wire.GroupLead, now time.Time) {
	g := base.GroupID(l.Group)
	d.mu.Lock()
	defer d.mu.Unlock()
	if old, ok := d.leads[g]; ok && (old.incarnation > l.Incarnation || old.incarnation == l.Incarnation && old.term > l.Term) {
		return
	}
	d.leads[g] = announcement{from, l.Term, l.Incarnation, base.Timestamp(l.Closed), now}
}

// Leader is the node last heard to lead a group; 0 if none was.
func (d *Directory) Leader(g base.GroupID) base.NodeID {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.leads[g].node
}

// Incarnation is that of the group as last heard.
func (d *Directory) Incarnation(g base.GroupID) uint32 {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.leads[g].incarnation
}

// Closed is the newest closed timestamp heard of a group, and when.
func (d *Directory) Closed(g base.GroupID) (base.Timestamp, time.Time) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	l := d.leads[g]
	return l.closed, l.heard
}

// Directory is which node leads what.
func (e *env) Directory() *Directory { return e.dir }

// Leader is the node to send a group's requests to: the leader that the replica here knows, else
// the one that announced itself last, else the node that should lead.
func (e *env) Leader(g base.GroupID) base.NodeID {
	if g := e.groups.Group(g); g != nil {
		if n, _ := g.Leader(); n != 0 {
			return n
		}
	}
	if n := e.dir.Leader(g); n != 0 {
		return n
	}
	return e.Preferred(g)
}

// Preferred is the node that should lead a group now: the best of those that were heard of lately.
func (e *env) Preferred(g base.GroupID) base.NodeID {
	return placement.Preferred(e.Topology(), g, func(n base.NodeID) bool { return e.Live(n) && e.Fit(n) })
}

// Replicas are the nodes that hold a replica of a group.
func (e *env) Replicas(g base.GroupID) []base.NodeID {
	return e.Topology().ShardReplicas(g.Shard())
}

// Alone reports whether this node is the whole cluster.
func (e *env) Alone() bool { return len(e.Topology().ShardReplicas(base.MetaShard)) == 1 }

// region is that of this node.
func (e *env) region() base.RegionID { return e.Topology().RegionOf(e.self) }

// MetaLead is how far ahead of now the meta group closes timestamps, so that a closed timestamp
// arrives everywhere before the present reaches it: the closed timestamp's trip to the gateway, a
// commit's trip from there to an owner, two heartbeats and some slack, and as far as owners assign
// commit timestamps ahead of now. A cluster of one node needs none.
func (e *env) MetaLead() time.Duration {
	if e.Alone() {
		return 0
	}
	return e.peers.longest() + 2*e.pace.HeartbeatEvery + 50*time.Millisecond + e.CommitLead()
}

// CatalogHold is how far ahead of now the meta group's leader promises that the catalog does not
// change (OWN-17): as long as it takes the others to take it for dead, to elect another one, which
// begins with the next tick and takes two round trips to a majority, and to hear from that.
func (e *env) CatalogHold() time.Duration {
	return e.pace.SilentAfter + e.pace.HeartbeatEvery + e.peers.longest() + e.MetaLead()
}

// CommitLead is how far ahead of now an owner of the cluster assigns commit timestamps, at most.
func (e *env) CommitLead() time.Duration {
	return max(e.peers.commitLead(), e.leads.CommitLead())
}

// RTT is the round trip to a node; 0 if unknown or this node.
func (e *env) RTT(id base.NodeID) time.Duration {
	d, _ := e.peers.rtt(id)
	return d
}

// Between is the round trip between two nodes by the network map; negative if it is not known here.
func (e *env) Between(a, b base.NodeID) time.Duration { return e.peers.between(e.self, a, b) }

// Farthest is the longest smoothed round trip to a node heard of lately.
func (e *env) Farthest() time.Duration { return e.peers.longest() }

// FarthestPath is the longest of what the paths to nodes heard of lately took at least.
func (e *env) FarthestPath() time.Duration { return e.peers.longestPath() }

// QuorumRTT is the round trip from this node to the nearest majority of a group's replicas, but for
// read replicas of a placement; 0 if unknown.
func (e *env) QuorumRTT(g base.GroupID) time.Duration {
	const unknown = time.Hour
	var all []time.Duration
	for _, n := range e.Topology().VotersOf(g.Shard()) {
		if n == e.self {
			all = append(all, 0)
		} else if d, ok := e.peers.rtt(n); ok {
			all = append(all, d)
		} else {
			all = append(all, unknown)
		}
	}
	slices.Sort(all)
	if len(all) == 0 || all[len(all)/2] == unknown {
		return 0
	}
	return all[len(all)/2]
}

// Live reports whether a node was heard of lately.
func (e *env) Live(id base.NodeID) bool {
	return id == e.self || e.peers.silence(id) < deadAfter
}

// Gone reports whether the process of a node that gave a sign of life at since has
// most likely died since then: its heartbeats have stopped, or another process sends them.
func (e *env) Gone(id base.NodeID, since time.Time) bool {
	return id != e.self && e.peers.gone(id, since, e.pace.SilentAfter)
}
