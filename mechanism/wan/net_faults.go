package wan

import (
	"errors"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
)

// cutSet says which paths are cut.
type cutSet struct {
	regions  map[regionPair]struct{}
	nodes    map[nodePair]struct{}
	isolated map[base.NodeID]struct{}
}

func (c *cutSet) any() bool { return len(c.regions)+len(c.nodes)+len(c.isolated) > 0 }

func set[K comparable](m *map[K]struct{}, k K, on bool) {
	if !on {
		delete(*m, k)
		return
	}
	if *m == nil {
		*m = map[K]struct{}{}
	}
	(*m)[k] = struct{}{}
}

// Cut cuts the paths between two regions, or between all pairs of nodes of one
// region if a == b. One-way messages that meet a cut are lost, unless
// NetOptions.Backlog is set; requests and answers wait for it to heal,
// NetOptions.StallAfter at most.
func (n *Network) Cut(a, b base.RegionID) { n.CutOneWay(a, b); n.CutOneWay(b, a) }

// CutOneWay cuts one direction.
func (n *Network) CutOneWay(from, to base.RegionID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	set(&n.cuts.regions, regionPair{from, to}, true)
}

// Heal undoes Cut and CutOneWay.
func (n *Network) Heal(a, b base.RegionID) {
	n.change(func() {
		set(&n.cuts.regions, regionPair{a, b}, false)
		set(&n.cuts.regions, regionPair{b, a}, false)
	})
}

// CutNodes cuts the path between two nodes, both ways.
func (n *Network) CutNodes(a, b base.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	set(&n.cuts.nodes, nodePair{a, b}, true)
	set(&n.cuts.nodes, nodePair{b, a}, true)
}

// HealNodes undoes CutNodes.
func (n *Network) HealNodes(a, b base.NodeID) {
	n.change(func() {
		set(&n.cuts.nodes, nodePair{a, b}, false)
		set(&n.cuts.nodes, nodePair{b, a}, false)
	})
}

// Isolate cuts a node off from all others.
func (n *Network) Isolate(id base.NodeID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	set(&n.cuts.isolated, id, true)
}

// Rejoin undoes Isolate.
func (n *Network) Rejoin(id base.NodeID) {
	n.change(func() { set(&n.cuts.isolated, id, false) })
}

// HealAll undoes all cuts and isolations.
func (n *Network) HealAll() { n.change(func() { n.cuts = cutSet{} }) }

// change heals something, and sends on what waited for it: the sender's next
// retransmission comes one timeout later.
func (n *Network) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	// In a fixed order, so that a seed repeats.
	pipes := make([]*pipe, 0, len(n.held))
	for p := range n.held {
		pipes = append(pipes, p)
	}
	slices.SortFunc(pipes, func(a, b *pipe) int { return a.compare(b) })
	now := n.now()
	for _, p := range pipes {
		if n.isCut(p.from, p.to) || len(p.held) == 0 {
			continue
		}
		wait := n.rto(p.path, p.back)
		if n.opt.Backlog {
			since := time.Duration(now - p.stuck)
			b, next := backoffAfter(wait, since)
			// a connection that breaks is made anew
			wait = min(next, max(n.opt.StallAfter-since, wait))
			if again := n.anew(p); b.stuck() && again < wait && !n.isCut(p.to, p.from) {
				p.conn.replace(now + int64(again))
				continue
			}
		}
		delete(n.held, p)
		held := p.held
		p.held = nil
		for _, h := range held {
			n.depart(p, h, now, wait)
		}
	}
}

// IsCut reports whether nothing passes from one node to the other.
func (n *Network) IsCut(from, to base.NodeID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	a, b := n.nodes[from], n.nodes[to]
	return a == nil || b == nil || n.isCut(&netEnd{a.self, a.region}, &netEnd{b.self, b.region})
}

// isCut reports whether nothing passes from one node to the other.
func (n *Network) isCut(from, to *netEnd) bool {
	if !n.cuts.any() {
		return false
	}
	c := &n.cuts
	if _, ok := c.isolated[from.id]; ok {
		return true
	}
	if _, ok := c.isolated[to.id]; ok {
		return true
	}
	if _, ok := c.nodes[nodePair{from.id, to.id}]; ok {
		return true
	}
	_, ok := c.regions[regionPair{from.region, to.region}]
	return ok
}

// Crash ends a node at once, as kill -9 does: everything in flight from and to
// it is lost, its transport fails, and peers whose Calls it has not answered
// learn that one one-way delay later (unless cut off from it: then when the
// call has waited StallAfter). The id can Join again.
func (n *Network) Crash(id base.NodeID) {
	n.mu.Lock()
	v := n.nodes[id]
	n.mu.Unlock()
	if v != nil && !v.closed.Swap(true) {
		v.leave(errCrashed)
		for _, p := range v.pools {
			p.close()
		}
	}
}

var (
	errCrashed = errors.New("connection reset by peer")
	errRefused = errors.New("connection refused")
	errStalled = errors.New("connection timed out")
)

// rto is TCP's retransmission timeout on a path.
func (n *Network) rto(there, back *path) time.Duration {
	return there.spec.Delay + back.spec.Delay + n.opt.MinRTO
}

// backoffAfter is the state of a connection that has sent in vain since a time ago, and how long it
// takes until TCP sends again.
func backoffAfter(rto, since time.Duration) (b backoff, next time.Duration) {
	at := rto
	for b.wait = rto; at < since; at += b.wait {
		b.tries++
		b.wait *= 2
	}
	return b, at - since
}

// anew is how long it takes until a stuck connection is replaced, see stuck.go: until it is looked
// at, an attempt beside it that may have begun too early, that which comes up, and the handshakes
// of the new one.
func (n *Network) anew(p *pipe) time.Duration {
	rtt := p.path.spec.Delay + p.back.spec.Delay
	return time.Duration(n.rnd.Int64N(int64(lookEvery+tryFor+2*rtt))) + 3*rtt
}

// replace breaks the connection, so that what it held is lost, and has the next one serve from a
// time on; Network.mu is held.
func (c *netConn) replace(from int64) {
	for _, p := range []*pipe{&c.fwd, &c.rev} {
		held := p.held
		p.held = nil
		delete(c.net.held, p)
		for _, h := range held {
			if h.typ == typeRequest || h.typ == typeResponse || h.typ == typeError || h.typ == typeRefused {
				c.unhold(p, h)
			} else {
				p.lose(h)
			}
		}
		p.last = max(p.last, from)
	}
	c.count.connects.Add(1)
}
