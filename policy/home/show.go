package home

import (
	"cmp"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// Heat is what is known of a row.
type Heat struct {
	Home   base.RegionID `json:"home"`
	Heat   Heats         `json:"heat"`
	Last   base.RegionID `json:"last"` // who was last here
	Run    int           `json:"run"`  // how many times in a row
	Stay   Duration      `json:"stay"` // how much longer it has to stay
	Quick  int           `json:"quick_moves"`
	Pinned bool          `json:"pinned"`
	With   int           `json:"with"` // correlated rows
}

// HeatRow is a row of Top.
type HeatRow struct {
	Key base.Key // nil if only its hash is known: rows that are not recorded for mining
	Heat
}

func (t *stripe) show(r row, now uint32, s *settings) Heat {
	r.settle(now, s.decay)
	x := Heat{
		Home: r.home, Heat: r.heats(), Last: r.asker, Run: int(r.run),
		Stay: Duration(r.stay(now, s)) << tickShift, Quick: int(r.quick), Pinned: r.flags&flagPinned != 0,
	}
	if r.vec != 0 {
		x.With = int(t.vecs[r.vec-1].partner)
	}
	return x
}

// Heat is what is known of a row; false if nothing.
func (p *Policy) Heat(key base.Key, at base.Timestamp) (Heat, bool) {
	h := p.hash(key)
	t := p.stripe(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.find(h)
	if r == nil {
		return Heat{}, false
	}
	return t.show(*r, ticksOf(at), p.set.Load()), true
}

// Top are the n hottest rows, hottest first. It looks at every row, one stripe
// at a time.
func (p *Policy) Top(n int, at base.Timestamp) []HeatRow {
	type ranked struct {
		hash  uint64
		total float64
		row   HeatRow
	}
	var all []ranked
	order := func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.total, a.total), cmp.Compare(a.hash, b.hash))
	}
	s, now := p.set.Load(), ticksOf(at)
	for i := range p.stripes {
		t := &p.stripes[i]
		t.mu.Lock()
		mine := make([]ranked, 0, len(t.rows))
		for _, r := range t.rows {
			r.settle(now, s.decay)
			mine = append(mine, ranked{hash: r.hash, total: r.total()})
		}
		slices.SortFunc(mine, order)
		mine = mine[:max(0, min(n, len(mine)))]
		for j := range mine {
			r := t.rows[t.index[mine[j].hash]]
			mine[j].row.Heat = t.show(r, now, s)
			if r.vec != 0 {
				mine[j].row.Key = t.vecs[r.vec-1].key.Clone()
			}
		}
		t.mu.Unlock()
		all = append(all, mine...)
	}
	slices.SortFunc(all, order)
	out := make([]HeatRow, 0, max(0, min(n, len(all))))
	for _, x := range all[:cap(out)] {
		out = append(out, x.row)
	}
	return out
}

// Stats are counters since the start, and sizes now.
type Stats struct {
	Accesses   uint64 `json:"accesses"`   // counted
	Ignored    uint64 `json:"ignored"`    // of regions that cannot exist
	Moves      uint64 `json:"moves"`      // answered (or reported, in a dry run)
	Prefetched uint64 `json:"prefetched"` // rows proposed to go along
	Evicted    uint64 `json:"evicted"`    // rows forgotten for want of room
	Minings    uint64 `json:"minings"`
	Pairs      uint64 `json:"pairs"`    // found or confirmed
	Rows       int    `json:"rows"`     // known
	Recorded   int    `json:"recorded"` // for mining
	Bytes      int64  `json:"bytes"`    // of both
}

// Stats sums up.
func (p *Policy) Stats() (x Stats) {
	for i := range p.stripes {
		t := &p.stripes[i]
		t.mu.Lock()
		x.Accesses += t.stats.Accesses
		x.Moves += t.stats.Moves
		x.Prefetched += t.stats.Prefetched
		x.Evicted += t.stats.Evicted
		x.Rows += len(t.rows)
		x.Recorded += len(t.vecs)
		x.Bytes += int64(len(t.rows)*rowBytes + t.bytes)
		t.mu.Unlock()
	}
	x.Ignored, x.Minings, x.Pairs = p.ignored.Load(), p.miner.minings.Load(), p.miner.pairs.Load()
	return x
}
