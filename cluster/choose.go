package cluster

import (
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/replica"
)

// choices is what this node knows of the others as servers of reads, refreshed with every pulse.
type choices struct {
	mu  sync.Mutex
	tab *replica.Table
}

// refreshChoices brings the facts of all nodes up to date.
func (c *Cluster) refreshChoices() {
	t := c.Topology()
	c.choices.mu.Lock()
	defer c.choices.mu.Unlock()
	known := map[base.NodeID]bool{}
	for _, n := range t.Nodes {
		if n.Gone {
			continue
		}
		known[n.ID] = true
		x := replica.Node{ID: n.ID, Region: n.Region}
		if n.ID == c.o.Self {
			if c.o.Load != nil {
				x.Load = c.o.Load()
			}
			if done := c.o.Replicas.Complete(); done != 0 { // else it holds nothing
				x.Healthy, x.Staleness = true, max(c.o.Clock.Latest().Sub(done), 0)
			}
		} else {
			var ok bool
			x.Latency, ok = c.peers.rtt(n.ID)
			x.Staleness, x.Load = c.peers.facts(n.ID)
			x.Healthy = ok && x.Staleness > 0 && c.peers.silence(n.ID) < c.o.SilentAfter
		}
		c.choices.tab.Set(x)
	}
	for _, x := range c.choices.tab.Nodes() {
		if !known[x.ID] {
			c.choices.tab.Drop(x.ID)
		}
	}
}

// ReplicaFor is the node to ask for a snapshot of a shard, other than this one; 0 if nobody is known to hold it.
func (c *Cluster) ReplicaFor(shard base.ShardID, ts base.Timestamp) base.NodeID {
	holders := c.Topology().ShardReplicas(shard)
	c.point.mu.Lock()
	usable := c.point.p.Usable()
	c.point.mu.Unlock()
	region := c.region()
	c.choices.mu.Lock()
	defer c.choices.mu.Unlock()
	nodes := c.choices.tab.Nodes()
	for i := range nodes {
		if ts <= usable && nodes[i].Region == region {
			nodes[i].Staleness = 0 // that is what the consistency point says
		}
	}
	holds := func(id base.NodeID) bool { return id != c.o.Self && slices.Contains(holders, id) }
	// A node of this region knows its rows as soon as any, and for those of other regions it waits no longer than others, if it hears
	// of them at all.
	age := max(c.o.Clock.Latest().Sub(ts), 0)
	near := slices.DeleteFunc(slices.Clone(nodes), func(n replica.Node) bool { return n.Region != region || n.Staleness > max(age, staleNeighbour) })
	if n, ok := replica.Choose(near, replica.Query{Bound: time.Hour, Holds: holds}); ok && n.Cost() < slowNeighbour {
		return n.ID
	}
	n, _ := replica.Choose(nodes, replica.Query{Bound: age, Wait: c.o.PulseEvery / 2, Holds: holds})
	return n.ID
}

// slowNeighbour is the expected latency from which on a node of the own region competes with those of others.
const slowNeighbour = 300 * time.Millisecond

// staleNeighbour is how far behind such a node may be: farther than any distance, with a few lost words.
const staleNeighbour = time.Second

// Answered notes how long a node took to answer a read.
func (c *Cluster) Answered(n base.NodeID, took time.Duration, err error) {
	rtt, _ := c.peers.rtt(n)
	c.choices.mu.Lock()
	defer c.choices.mu.Unlock()
	c.choices.tab.Answered(n, took-rtt, err != nil)
}

// Servers are the nodes as servers of reads, as this node sees them, and which of them are on the skyline of those that hold
// a shard other than the meta shard, which all hold.
func (c *Cluster) Servers() (all []replica.Node, skyline []base.NodeID) {
	t := c.Topology()
	holds := map[base.NodeID]bool{}
	for s := range t.AllShards() {
		for _, n := range t.ShardReplicas(base.ShardID(s + 1)) {
			holds[n] = true
		}
	}
	c.choices.mu.Lock()
	defer c.choices.mu.Unlock()
	all = c.choices.tab.Nodes()
	for _, n := range replica.Skyline(slices.DeleteFunc(slices.Clone(all), func(n replica.Node) bool { return !holds[n.ID] })) {
		skyline = append(skyline, n.ID)
	}
	return all, skyline
}
