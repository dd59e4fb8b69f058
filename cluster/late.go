package cluster

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
)

// usualFor is for how long a round trip is remembered as what a path can do, at least. A path that
// has become longer for good counts as slow until then.
const usualFor = 2 * time.Minute

// usual is the least round trip to a peer of the last minutes. The zero value has none.
type usual struct {
	now, before time.Duration // of this stretch of usualFor and of the one before; 0: none
	since       time.Time     // when this one began
}

func (u *usual) add(now time.Time, d time.Duration) {
	if now.Sub(u.since) > usualFor {
		u.before, u.now, u.since = u.now, d, now
	}
	u.now = min(u.now, d)
}

func (u *usual) least() time.Duration {
	if u.before == 0 {
		return u.now
	}
	return min(u.now, u.before)
}

// late is by how much longer than usual a round trip to a peer takes, by the newest one and by most
// of the last ten: one that is late alone says nothing.
func (x *peer) late() time.Duration {
	return max(0, min(x.rtt.Last, x.rtt.SRTT)-x.usual.least())
}

// late is by how much longer than usual this node's round trips to a majority of the nodes take,
// and the median of what the others have said of theirs. Itself counts as one that is not late. A
// node that handles late what arrives finds all others late, while those find it late alone. It
// takes three nodes to tell the two apart.
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
			if x.rtt.Known() {
				d = x.late()
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
