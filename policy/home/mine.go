package home

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
)

const (
	maxPartners = 4
	// neighbours bounds how many rows of a mining table one row is compared with,
	// which keeps mining at O(n log n) whatever the transactions look like.
	neighbours = 32
	// sparse: two accesses of a row must lie this many lookaheads apart on
	// average, or else rows would meet by chance; the lookahead shrinks until
	// they do.
	sparse = 8
	// txnSlots remember the tick of as many running transactions.
	txnSlots = 4096
)

// mined is a row in the mining table: the ticks of min_freq accesses. A tick is
// the sequence number of a transaction, so the rows of one transaction share it.
type mined struct {
	hash uint64
	n    int
	ts   [maxFreq]uint32
}

// miner collects full vectors of all stripes and compares them.
type miner struct {
	ticks atomic.Uint32
	slots [txnSlots]atomic.Uint64 // upper half of the hash of a transaction, its tick
	epoch atomic.Uint32           // of the mining table now being filled
	open  atomic.Uint32           // the tick when that began
	since atomic.Uint32           // ticks of time, | 1, when its first row came; 0: it is empty

	mu    sync.Mutex
	table []mined
	spare []mined

	minings, pairs atomic.Uint64
}

// tick is the sequence number of a transaction. Two threads of one transaction
// may take two; that costs at worst one match.
func (m *miner) tick(txn uint64) uint32 {
	if txn == 0 {
		return m.ticks.Add(1)
	}
	slot := &m.slots[txn%txnSlots]
	if v := slot.Load(); uint32(v>>32) == uint32(txn>>32) {
		return uint32(v)
	}
	n := m.ticks.Add(1)
	slot.Store(txn>>32<<32 | uint64(n))
	return n
}

// observe notes the tick of an access in the row's vector, under the lock of
// its stripe. It reports whether out holds a full vector (or, with n = 0,
// whether the mining table has waited for long enough).
func (p *Policy) observe(t *stripe, r *row, key base.Key, txn uint64, now uint32, s *settings, out *mined) bool {
	if r.vec == 0 && !t.addVec(r, key, s) {
		return false
	}
	v := &t.vecs[r.vec-1]
	v.chances = 1
	if v.partner > 0 {
		v.chances = 3
	}
	tick := p.miner.tick(txn)
	epoch := p.miner.epoch.Load()
	if v.epoch == epoch {
		// One vector a row and table. All rows of a table start their next one together, so that
		// partners that got out of step fall into step again.
		since := p.miner.since.Load()
		return since != 0 && elapsed(now, since) > s.mineEvery
	}
	if v.n == 0 && int32(tick-p.miner.open.Load()) <= 0 || v.n > 0 && v.ts[v.n-1] == tick {
		// a transaction that runs while the table changes must not put its rows out of step
		return false
	}
	v.ts[v.n] = tick
	v.n++
	if int(v.n) < min(s.MinFreq, maxFreq) {
		return false
	}
	*out = mined{hash: r.hash, n: int(v.n), ts: v.ts}
	v.n, v.epoch = 0, epoch
	return true
}

// submit puts a full vector into the mining table, and mines if that is full
// or old.
func (p *Policy) submit(x *mined, now uint32, s *settings) {
	m := &p.miner
	m.mu.Lock()
	if x.n > 0 {
		if len(m.table) == 0 {
			m.since.Store(now | 1)
		}
		m.table = append(m.table, *x)
	}
	since := m.since.Load()
	if since == 0 || len(m.table) < s.MiningRows && elapsed(now, since) <= s.mineEvery {
		m.mu.Unlock()
		return
	}
	batch := m.table
	m.table, m.spare = m.spare[:0], nil
	m.since.Store(0)
	m.open.Store(m.ticks.Load())
	m.epoch.Add(1)
	m.mu.Unlock()

	m.minings.Add(1)
	for _, q := range pairs(batch, m.ticks.Load(), s.Lookahead, s.Confidence) {
		m.pairs.Add(1)
		p.link(q[0], q[1])
		p.link(q[1], q[0])
	}
	m.mu.Lock()
	if cap(batch) <= 2*s.MiningRows {
		m.spare = batch[:0]
	}
	m.mu.Unlock()
}

// pairs finds the rows of a table that are used together (Mithril, as in
// PolyBase section 5.1): sorted by their first access, each is compared with
// those that begin within the lookahead. It reorders the table.
func pairs(table []mined, now uint32, lookahead int, confidence float64) (out [][2]uint64) {
	first := func(x *mined) int32 { return int32(x.ts[0] - now) } // ticks wrap
	slices.SortFunc(table, func(a, b mined) int {
		return cmp.Or(cmp.Compare(first(&a), first(&b)), cmp.Compare(a.hash, b.hash))
	})
	for i := range table {
		a := &table[i]
		reach := a.reach(lookahead)
		for j := i + 1; j < len(table) && j <= i+neighbours; j++ {
			b := &table[j]
			if int(first(b)-first(a)) > reach {
				break
			}
			if a.together(b, min(reach, b.reach(lookahead)), confidence) {
				out = append(out, [2]uint64{a.hash, b.hash})
			}
		}
	}
	return out
}

// reach is the lookahead that fits how densely the row is used.
func (a *mined) reach(lookahead int) int {
	if a.n < 2 {
		return lookahead
	}
	gap := int(a.ts[a.n-1]-a.ts[0]) / (a.n - 1)
	return min(lookahead, gap/sparse)
}

// together reports whether enough accesses of two rows lie within the
// lookahead of each other, each matched once and in order.
func (a *mined) together(b *mined, lookahead int, confidence float64) bool {
	if a.hash == b.hash || int(a.ts[0]-b.ts[0]) > lookahead && int(b.ts[0]-a.ts[0]) > lookahead {
		return false
	}
	hits, i, j := 0, 0, 0
	for i < a.n && j < b.n {
		d := int(int32(a.ts[i] - b.ts[j]))
		switch {
		case d > lookahead:
			j++
		case d < -lookahead:
			i++
		default:
			hits++
			i++
			j++
		}
	}
	return float64(hits) >= math.Ceil(confidence*float64(max(a.n, b.n)))
}

// link makes b a partner of a, as the most recently confirmed one.
func (p *Policy) link(a, b uint64) {
	t := p.stripe(a)
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.find(a)
	if r == nil || r.vec == 0 {
		return
	}
	v := &t.vecs[r.vec-1]
	i := slices.Index(v.with[:v.partner], b)
	if i < 0 {
		v.partner = min(v.partner+1, maxPartners)
		i = int(v.partner) - 1
	}
	copy(v.with[1:i+1], v.with[:i])
	v.with[0] = b
}

// follow lists the rows that go along with a row: its partners, theirs, and so
// on, nearest first, as far as they may.
func (p *Policy) follow(h uint64, partners [maxPartners]uint64, why *Reason, now uint32, s *settings) (keys []base.Key) {
	queue := make([]uint64, 0, 4*maxPartners)
	seen := append(make([]uint64, 0, 4*maxPartners), h)
	push := func(list []uint64) {
		for _, x := range list {
			if x != 0 && len(seen) < 4*maxPrefetch && !slices.Contains(seen, x) {
				seen = append(seen, x)
				queue = append(queue, x)
			}
		}
	}
	push(partners[:])
	for len(queue) > 0 && len(keys) < s.Prefetch {
		x := queue[0]
		queue = queue[1:]
		t := p.stripe(x)
		t.mu.Lock()
		if r := t.find(x); r != nil && r.vec != 0 {
			r.settle(now, s.decay)
			if s.goesAlong(r, why, now) {
				v := &t.vecs[r.vec-1]
				keys = append(keys, v.key.Clone())
				next := v.with
				t.stats.Prefetched++
				push(next[:])
			}
		}
		t.mu.Unlock()
	}
	return keys
}

// along are the keys of those partners that live in a home.
func (p *Policy) along(partners [maxPartners]uint64, in base.RegionID) (keys []base.Key) {
	for _, x := range partners {
		if x == 0 {
			break
		}
		t := p.stripe(x)
		t.mu.Lock()
		if r := t.find(x); r != nil && r.vec != 0 && r.home == in {
			keys = append(keys, t.vecs[r.vec-1].key.Clone())
		}
		t.mu.Unlock()
	}
	return keys
}

// goesAlong: a partner follows if it lives in the same home, may move, and its
// home does not use it far more than the row that it follows.
func (s *settings) goesAlong(r *row, why *Reason, now uint32) bool {
	return r.home == why.Home && r.flags&flagPinned == 0 && r.stay(now, s) == 0 &&
		r.of(r.home) <= float64(s.MinHeat)+s.Margin*why.Heat.Of(why.Home)
}
