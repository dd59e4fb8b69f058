package cluster

import (
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/replica"
)

// readServers is what this node knows of all nodes as servers of snapshot reads, refreshed with
// every heartbeat: how far behind they are, how far away, how busy (policy/replica).
type readServers struct {
	*env
	progress Progress
	load     func() int            // of this node; may be nil
	usable   func() base.Timestamp // see consistency.usable

	mu  sync.Mutex
	tab *replica.Table
}

func newReadServers(e *env, p Progress, load func() int, usable func() base.Timestamp) *readServers {
	return &readServers{env: e, progress: p, load: load, usable: usable, tab: replica.NewTable()}
}

const (
	// slowNeighbour is the expected latency from which on a node of the own region competes with
	// those of others.
	slowNeighbour = 300 * time.Millisecond
	// staleNeighbour is how far behind such a node may be: farther than any distance, with a few
	// lost messages.
	staleNeighbour = time.Second
)

// refresh brings the facts of all nodes up to date.
func (c *readServers) refresh() {
	t := c.Topology()
	c.mu.Lock()
	defer c.mu.Unlock()
	known := map[base.NodeID]bool{}
	for _, n := range t.Nodes {
		if n.Gone {
			continue
		}
		known[n.ID] = true
		if n.ID == c.self {
			c.tab.Set(c.here(n))
		} else {
			c.tab.Set(c.there(n))
		}
	}
	for _, x := range c.tab.Nodes() {
		if !known[x.ID] {
			c.tab.Drop(x.ID)
		}
	}
}

// here is this node as a server of reads.
func (c *readServers) here(n base.Node) replica.Node {
	x := replica.Node{ID: n.ID, Region: n.Region}
	if c.load != nil {
		x.Load = c.load()
	}
	if done := c.progress.Complete(); done != 0 { // else it holds nothing
		x.Healthy, x.Staleness = true, max(c.clock.Latest().Sub(done), 0)
	}
	return x
}

// there is another node as a server of reads, as its heartbeats say.
func (c *readServers) there(n base.Node) replica.Node {
	x := replica.Node{ID: n.ID, Region: n.Region}
	var measured bool
	x.Latency, measured = c.peers.reach(n.ID)
	x.Staleness, x.Load = c.peers.facts(n.ID)
	x.Healthy = measured && x.Staleness > 0 && c.peers.silence(n.ID) < c.pace.SilentAfter
	return x
}

// ReplicaFor is the node to ask for a snapshot of a shard, other than this one and than not; 0 if
// none is known to hold it.
func (c *readServers) ReplicaFor(shard base.ShardID, ts base.Timestamp, not base.NodeID) base.NodeID {
	holders := c.Topology().ShardReplicas(shard)
	usable := c.usable()
	region := c.region()
	c.mu.Lock()
	defer c.mu.Unlock()
	nodes := c.tab.Nodes()
	for i := range nodes {
		if ts <= usable && nodes[i].Region == region {
			nodes[i].Staleness = 0 // that is what the consistency point says
		}
	}
	holds := func(id base.NodeID) bool { return id != c.self && id != not && slices.Contains(holders, id) }
	// A node of this region knows its rows as soon as any, and for those of other regions it waits
	// no longer than others, if it hears of them at all.
	age := max(c.clock.Latest().Sub(ts), 0)
	near := slices.DeleteFunc(slices.Clone(nodes), func(n replica.Node) bool {
		return n.Region != region || n.Staleness > max(age, staleNeighbour)
	})
	if n, ok := replica.Choose(near, replica.Query{Bound: time.Hour, Holds: holds}); ok && n.Cost() < slowNeighbour {
		return n.ID
	}
	n, _ := replica.Choose(nodes, replica.Query{Bound: age, Wait: c.pace.HeartbeatEvery / 2, Holds: holds})
	return n.ID
}

// Answered notes how long a node took to answer a read.
func (c *readServers) Answered(n base.NodeID, took time.Duration, err error) {
	rtt, _ := c.peers.reach(n)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tab.Answered(n, took-rtt, err != nil)
}

// Servers are the nodes as servers of reads, as this node sees them, and which of them are on the
// skyline of those that hold a shard other than the meta shard, which all hold.
func (c *readServers) Servers() (all []replica.Node, skyline []base.NodeID) {
	t := c.Topology()
	holds := map[base.NodeID]bool{}
	for s := range t.AllShards() {
		for _, n := range t.ShardReplicas(base.ShardID(s + 1)) {
			holds[n] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all = c.tab.Nodes()
	for _, n := range replica.Skyline(slices.DeleteFunc(slices.Clone(all), func(n replica.Node) bool { return !holds[n.ID] })) {
		skyline = append(skyline, n.ID)
	}
	return all, skyline
}
