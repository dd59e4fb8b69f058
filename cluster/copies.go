package cluster

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// An asynchronous group commits in the region in which it votes. What it promises to others must
// survive the loss of that region, so its leader needs to know what nodes elsewhere hold.
// Heartbeats carry that. A vote of a crossing transaction waits for it (docs/protocol.md, REPL-1),
// and with the vote all transactions that its locks hold up; so the leader asks the nearest copies,
// and they answer as soon as they can.

const (
	copiesFrom  = 2               // how many nodes are asked
	copiesWait  = 2 * time.Second // how long a copy waits to have what it was asked for; heartbeats go on
	mostWaiting = 512             // questions of others, at a time
	copiesAlive = 3 * time.Second // a node that was silent for so long is not asked
	// aloneFor is how long a process that hears of no other region takes for granted that it was
	// not promoted over while it was away.
	aloneFor = 10 * time.Second
	heldPoll = 5 * time.Millisecond
)

// copies is what is known of the copies of asynchronous groups outside of the regions in which they
// vote.
type copies struct {
	*env
	local     Copies
	waiting   atomic.Int64 // questions of others that wait for an answer
	confirmed atomic.Bool  // see Confirmed

	mu sync.Mutex
	at map[base.GroupID]map[base.NodeID]copyAt
	// promotions is the number of them that the topology had.
	promotions int
}

// copyAt says how much a replica has: everything up to a log index, and all that commits at or
// below a timestamp.
type copyAt struct {
	index  uint64
	closed base.Timestamp
}

func newCopies(e *env, local Copies) *copies {
	return &copies{env: e, local: local, at: map[base.GroupID]map[base.NodeID]copyAt{}}
}

// # What heartbeats carry

// heldHere is what this node has of the asynchronous groups of other regions.
func (c *copies) heldHere(t *base.Topology) (out []*wire.GroupHeld) {
	mine := t.RegionOf(c.self)
	for _, r := range t.Regions {
		if t.Votes(r.ID, mine) {
			continue
		}
		out = append(out, c.heldOf(r.ID, t)...)
	}
	return out
}

// heldOf is what this node has of the asynchronous groups of one region.
func (c *copies) heldOf(region base.RegionID, t *base.Topology) (out []*wire.GroupHeld) {
	for _, g := range t.AsyncGroups(region) {
		if index, closed, inc := c.local.HeldHere(g); index > 0 {
			out = append(out, &wire.GroupHeld{Group: uint32(g), Index: index, Closed: uint64(closed), Incarnation: inc})
		}
	}
	return out
}

// heard takes what another node holds. What it says of another incarnation than the one in force
// is of no use.
func (c *copies) heard(from base.NodeID, hs []*wire.GroupHeld) {
	t := c.Topology()
	if t.Async == 0 {
		return
	}
	c.mu.Lock()
	if c.promotions != len(t.Promotions) {
		// What was said of earlier incarnations no longer holds.
		c.at, c.promotions = map[base.GroupID]map[base.NodeID]copyAt{}, len(t.Promotions)
	}
	for _, h := range hs {
		g := base.GroupID(h.Group)
		if h.Incarnation != t.Incarnation(g) {
			continue
		}
		if c.at[g] == nil {
			c.at[g] = map[base.NodeID]copyAt{}
		}
		c.at[g][from] = copyAt{h.Index, base.Timestamp(h.Closed)}
	}
	c.mu.Unlock()
	c.local.HeldChanged()
}

// HeldOf is what other regions hold of an asynchronous group, as far as this node has heard: one of
// their nodes has its log up to index, and of all asynchronous groups of its region some node
// elsewhere has all that commits at or below cut. What lies at or below the cut survives the loss
// of the region.
func (c *copies) HeldOf(g base.GroupID) (index uint64, cut base.Timestamp) {
	t := c.Topology()
	if index, _, inc := c.local.HeldHere(g); index > 0 && inc != t.Incarnation(g) {
		return 0, 0 // what is here of it has not begun anew yet: nothing may rest on that
	}
	own := !t.Votes(g.Region(), t.RegionOf(c.self))
	cut = base.MaxTimestamp
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range t.AsyncGroups(g.Region()) {
		var best copyAt
		if own {
			if index, closed, inc := c.local.HeldHere(x); inc == t.Incarnation(x) {
				best = copyAt{index, closed}
			}
		}
		for n, h := range c.at[x] {
			if t.Votes(g.Region(), t.RegionOf(n)) {
				continue // from before its region voted
			}
			best.index, best.closed = max(best.index, h.index), max(best.closed, h.closed)
		}
		if cut = min(cut, best.closed); x == g {
			index = best.index
		}
	}
	return index, cut
}

// AwaitHeld waits until other regions hold all that asynchronous groups have committed until now.
func (c *copies) AwaitHeld(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, topologyTimeout)
	defer cancel()
	now := c.clock.Latest()
	for {
		t := c.Topology()
		behind := ""
		for _, r := range t.Regions {
			if gs := t.AsyncGroups(r.ID); len(gs) > 0 && len(t.Regions) > 1 {
				if _, cut := c.HeldOf(gs[0]); cut < now {
					behind = r.Name
				}
			}
		}
		if behind == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return base.Errorf(base.CodeUnavailable,
				"no other region has confirmed in time what the asynchronous tables of region %s hold", behind)
		case <-time.After(heldPoll):
		}
	}
}

// # Asking the nearest copies

// Sees reports whether what this node has of an asynchronous group is a copy elsewhere.
func (c *copies) Sees(g base.GroupID) bool {
	t := c.Topology()
	return !t.Votes(g.Region(), t.RegionOf(c.self))
}

// AskHeld asks the nearest nodes that hold copies of an asynchronous group to say so when they have
// its log up to index, and all that commits in its region at or below closed. Nothing rests on that
// they do.
func (c *copies) AskHeld(g base.GroupID, index uint64, closed base.Timestamp) {
	t := c.Topology()
	if c.Sees(g) {
		return // its own copy will do
	}
	type copyOf struct {
		node base.NodeID
		rtt  time.Duration
	}
	var near []copyOf
	c.mu.Lock()
	for n := range c.at[g] {
		if !t.Votes(g.Region(), t.RegionOf(n)) {
			near = append(near, copyOf{node: n})
		}
	}
	c.mu.Unlock()
	near = slices.DeleteFunc(near, func(x copyOf) bool { return c.peers.silence(x.node) >= copiesAlive })
	for i := range near {
		near[i].rtt, _ = c.peers.rtt(near[i].node)
	}
	slices.SortFunc(near, func(a, b copyOf) int { return cmp.Or(cmp.Compare(a.rtt, b.rtt), cmp.Compare(a.node, b.node)) })
	m := &wire.Copies{Node: uint32(c.self), Group: uint32(g), Index: index, Closed: uint64(closed)}
	for _, x := range near[:min(copiesFrom, len(near))] {
		_ = c.transport.Send(x.node, wire.KindCopies, m) // lost: heartbeats go on
	}
}

func (c *copies) onMessage(from base.NodeID, body []byte) {
	var m wire.Copies
	if err := m.UnmarshalVT(body); err != nil || base.NodeID(m.Node) != from {
		c.log.Warn("malformed message about copies dropped", "from", from, "err", err)
		return
	}
	if len(m.Held) > 0 {
		c.heard(from, m.Held)
	}
	if m.Group == 0 || c.work.ctx.Err() != nil {
		return
	}
	if c.waiting.Add(1) > mostWaiting {
		c.waiting.Add(-1)
		return
	}
	go func() { // it ends with the Cluster's work
		defer c.waiting.Add(-1)
		c.answer(from, &m)
	}()
}

// answer says what is held here once that is what was asked for.
func (c *copies) answer(to base.NodeID, m *wire.Copies) {
	ctx, cancel := context.WithTimeout(c.work.ctx, copiesWait)
	defer cancel()
	t, g := c.Topology(), base.GroupID(m.Group)
	if t.Votes(g.Region(), t.RegionOf(c.self)) || !c.local.AwaitHeld(ctx, g, m.Index, 0) {
		return
	}
	for _, x := range t.AsyncGroups(g.Region()) {
		if !c.local.AwaitHeld(ctx, x, 0, base.Timestamp(m.Closed)) {
			break // other nodes may have it
		}
	}
	_ = c.transport.Send(to, wire.KindCopies, &wire.Copies{Node: uint32(c.self), Held: c.heldOf(g.Region(), t)})
}

// # Having been away

// Confirmed reports whether another region has told this process a topology that is no newer than
// its own, or none can be heard: groups whose region was given up for lost have a new incarnation
// elsewhere.
func (c *copies) Confirmed() bool {
	return c.confirmed.Load() || c.peers.mono() > aloneFor
}

// confirm takes the version of the topology that a node knows.
func (c *copies) confirm(from base.NodeID, version uint64) {
	if t := c.Topology(); !c.confirmed.Load() && version <= t.Version && t.RegionOf(from) != t.RegionOf(c.self) {
		c.confirmed.Store(true)
		c.local.HeldChanged()
	}
}

// Async reports whether the groups of a shard replicate to other regions asynchronously.
func (c *copies) Async(s base.ShardID) bool {
	t := c.Topology()
	return t.IsAsync(s) && len(t.Regions) > 1
}

// Away reports whether what this node says of an asynchronous group must survive the loss of the
// region in which the group votes: it is elsewhere, or voters that move to it have not arrived.
func (c *copies) Away(g base.GroupID) bool {
	t := c.Topology()
	return t.RegionOf(c.self) != t.Seat(g.Region()) || t.Moving(g.Region())
}
