package cluster

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// What other regions hold of asynchronous groups is told with pulses. A vote of a crossing transaction waits for that word (docs/protocol.md D1),
// and with it all whom its locks hold up; so its leader asks for it, and gets it as soon as it is true.

const (
	copiesFrom  = 2               // how many nodes are asked
	copiesWait  = 2 * time.Second // how long one waits to have what it was asked for; pulses go on
	mostWishes  = 512             // of others, at a time
	copiesAlive = 3 * time.Second // who has said so long nothing of a group is not asked
)

// AskHeld asks the nearest nodes that hold copies of an asynchronous group to say so when they have its log up to index, and all that commits in its region
// at or below closed. Nothing rests on that they do.
func (c *Cluster) AskHeld(g base.GroupID, index uint64, closed base.Timestamp) {
	t := c.Topology()
	if !t.Votes(g.Region(), t.RegionOf(c.o.Self)) {
		return // its own copy will do
	}
	type copyOf struct {
		node base.NodeID
		rtt  time.Duration
	}
	var near []copyOf
	c.held.mu.Lock()
	for n := range c.held.at[g] {
		if !t.Votes(g.Region(), t.RegionOf(n)) {
			near = append(near, copyOf{node: n})
		}
	}
	c.held.mu.Unlock()
	near = slices.DeleteFunc(near, func(x copyOf) bool { return c.peers.silence(x.node) >= copiesAlive })
	for i := range near {
		near[i].rtt, _ = c.peers.rtt(near[i].node)
	}
	slices.SortFunc(near, func(a, b copyOf) int { return cmp.Or(cmp.Compare(a.rtt, b.rtt), cmp.Compare(a.node, b.node)) })
	m := &wire.Copies{Node: uint32(c.o.Self), Group: uint32(g), Index: index, Closed: uint64(closed)}
	for _, x := range near[:min(copiesFrom, len(near))] {
		_ = c.o.Transport.Send(x.node, wire.KindCopies, m) // lost: pulses tell
	}
}

func (c *Cluster) onCopiesWord(from base.NodeID, body []byte) {
	var m wire.Copies
	if err := m.UnmarshalVT(body); err != nil || base.NodeID(m.Node) != from {
		c.o.Logger.Warn("malformed word of copies dropped", "from", from, "err", err)
		return
	}
	if len(m.Held) > 0 {
		c.onHeld(from, m.Held)
	}
	if m.Group == 0 || c.life.Err() != nil {
		return
	}
	if c.wishes.Add(1) > mostWishes {
		c.wishes.Add(-1)
		return
	}
	go func() { // it ends with c.life
		defer c.wishes.Add(-1)
		c.tellCopies(from, &m)
	}()
}

// tellCopies says what is held here once that is what was wished for.
func (c *Cluster) tellCopies(to base.NodeID, m *wire.Copies) {
	ctx, cancel := context.WithTimeout(c.life, copiesWait)
	defer cancel()
	t, g := c.Topology(), base.GroupID(m.Group)
	if t.Votes(g.Region(), t.RegionOf(c.o.Self)) || !c.o.Replicas.AwaitHeld(ctx, g, m.Index, 0) {
		return
	}
	for _, x := range t.AsyncGroups(g.Region()) {
		if !c.o.Replicas.AwaitHeld(ctx, x, 0, base.Timestamp(m.Closed)) {
			break // others may have it
		}
	}
	_ = c.o.Transport.Send(to, wire.KindCopies, &wire.Copies{Node: uint32(c.o.Self), Held: c.heldOf(g.Region(), t)})
}
