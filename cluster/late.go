package cluster

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/health"
)

// lateTicks is at how many ticks in turn a confirmation must be late: one that is late alone says
// nothing.
const lateTicks = 5

// heardLately is for how long a node may say nothing before silence is all that is known of it.
const heardLately = time.Second

// late is by how much longer than usual a peer has not confirmed a heartbeat, by what it said last,
// at each of the last ticks. It is called once a tick. mono is now by the monotonic clock. While a
// path is cut that carries heartbeats there nothing is confirmed, however well the peer is: once a
// detour has begun, what was before does not count, nor the time until it can confirm what made the
// detour.
func (c *contact) late(now time.Time, mono time.Duration) time.Duration {
	if !c.detour.IsZero() && now.Sub(c.detour) < 2*c.usual.Least() {
		clear(c.aged[:])
		return 0
	}
	copy(c.aged[1:], c.aged[:])
	c.aged[0] = 0
	if silence := now.Sub(c.heard); c.confirmed > 0 && silence < heardLately {
		c.aged[0] = max(0, mono-silence-c.confirmed-c.usual.Least())
	}
	return slices.Min(c.aged[:])
}

// silentLong is the silence after which a node is told of as late, too: longer than a detour takes
// to be found, unless it is known that there is none. A node that hears the leader, and is not
// heard by it, learns so that the others do not hear it at all.
const silentLong = 1500 * time.Millisecond

// late is by how much longer than usual a majority of the nodes take to confirm heartbeats, and the
// median of what the others have said of theirs. Itself counts as one that is not late, and so does
// one that nothing is heard of. A node that handles late what arrives finds all others late, while
// those find it late alone. It takes three nodes to tell the two apart. It is called once a tick.
func (p *peers) late(nodes []base.NodeID) (own, others time.Duration) {
	if len(nodes) < 3 {
		return 0, 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var by, said []time.Duration
	for _, n := range nodes {
		d := time.Duration(0)
		if x := p.all[n]; n != p.self && x != nil {
			said = append(said, x.lateness)
			d = x.contact.late(p.now(), p.mono())
			silence := p.now().Sub(x.contact.heard)
			if x.lateBy = d; !x.contact.heard.IsZero() && (silence > silentLong || x.contact.parted && silence > heardLately) {
				x.lateBy = silence
			}
		}
		by = append(by, d)
	}
	slices.Sort(by)
	if len(said) > 0 {
		slices.Sort(said)
		others = said[(len(said)-1)/2]
	}
	return by[len(by)/2], others
}

// finds are the nodes that are late, as far as this node can tell: by more than least, and by more
// than times what most others are. One that is late itself finds all others late, and so says
// nothing. It is called behind late.
func (p *peers) finds(nodes []base.NodeID, least time.Duration, times time.Duration) (found []base.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range nodes {
		x := p.all[n]
		if n == p.self || x == nil || x.lateBy <= least {
			continue
		}
		var rest []time.Duration
		for _, m := range nodes {
			if y := p.all[m]; m != n && m != p.self && y != nil {
				rest = append(rest, y.lateBy)
			}
		}
		slices.Sort(rest)
		if len(rest) > 0 && x.lateBy > times*rest[len(rest)/2] {
			found = append(found, n)
		}
	}
	p.found = found
	return found
}

// foundLate are the nodes that most of the others find late, this node among these.
func (p *peers) foundLate(nodes []base.NodeID) (late []base.NodeID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.found {
		by := 1
		for _, m := range nodes {
			x := p.all[m]
			if m != n && m != p.self && x != nil && p.now().Sub(x.contact.heard) < heardLately && slices.Contains(x.finds, n) {
				by++
			}
		}
		if 2*by > len(nodes)-1 {
			late = append(late, n)
			if p.now().Sub(p.all[n].contact.heard) < heardLately {
				p.all[n].unfit |= health.Process // until its next heartbeat; it may not know it yet
			}
		}
	}
	return late
}
