package home

import (
	"math/bits"
	"math/rand/v2"
	"sync"

	"github.com/godwitdb/godwit/base"
)

// Times are kept as 32-bit ticks of 2^20 ns (about 1 ms), compared modulo 2^32.
const (
	tickShift = 20
	// backward is how far a clock may step back without being taken for one
	// that has gone round: about a minute.
	backward = 1 << 16
)

func ticksOf(t base.Timestamp) uint32 { return uint32(t >> tickShift) }

// elapsed is the time from then to now: 0 if the clock went back a little, the
// maximum if then lies so far away that the order is lost.
func elapsed(now, then uint32) uint32 {
	d := int32(now - then)
	switch {
	case d >= 0:
		return uint32(d)
	case d >= -backward:
		return 0
	}
	return 1<<32 - 1
}

const (
	stripes = 32
	// rowBytes is what a row costs: itself, and its share of a Go map.
	rowBytes = 104 + 48
	// vecCost is what a recorded row costs besides its key.
	vecCost = 152
	// sample is how many rows are compared to find a cold one.
	sample = 8
	// maxKey is the longest key that is kept for prefetching.
	maxKey = 1 << 10
	// maxQuick bounds the count of quick moves (and so the doubling of stays).
	maxQuick = 15
)

// row is the heat of one row.
type row struct {
	hash    uint64
	seen    [base.MaxRegions]uint32 // ticks of the last access, or of the last halving
	moved   uint32                  // ticks of the last move, if flagMoved
	vec     uint32                  // 1 + index of its vector; 0: none
	txn     uint32                  // tag of the transaction that was last here; 0: none
	changes uint16
	heat    [base.MaxRegions]uint8 // Morris registers
	home    base.RegionID
	asker   base.RegionID // who was last here,
	run     uint8         // and how many times in a row
	quick   uint8         // moves that followed quickly on one another
	flags   uint8
}

const (
	flagMoved   = 1 << iota // moved is set
	flagPinned              // the caller said so last time
	flagWritten             // the transaction txn has written
	flagAdopt               // changes is not known: take the label's word
)

// settle halves what has not been used for decay.
func (r *row) settle(now, decay uint32) {
	for i, v := range r.heat {
		if v == 0 {
			continue
		}
		if e := elapsed(now, r.seen[i]); e > decay {
			n := (e - 1) / decay
			r.heat[i] = decayed(v, n)
			r.seen[i] += n * decay
		}
	}
}

// touch stamps an access; a clock that went back a little changes nothing.
func (r *row) touch(f base.RegionID, now uint32) {
	if r.heat[f-1] == 0 || elapsed(now, r.seen[f-1]) != 0 {
		r.seen[f-1] = now
	}
}

func (r *row) of(f base.RegionID) float64 { return estimate[r.heat[f-1]] }

func (r *row) total() (n float64) {
	for _, v := range r.heat {
		n += estimate[v]
	}
	return n
}

// age halves all counters, so that old accesses weigh less than new ones also
// where none is ever idle.
func (r *row) age() {
	for i, v := range r.heat {
		r.heat[i] = half[v]
	}
}

// stay is how much longer the row has to stay, in ticks.
func (r *row) stay(now uint32, s *settings) uint32 {
	if r.flags&flagMoved == 0 {
		return 0
	}
	need := min(uint64(s.minStay)<<r.quick, uint64(s.maxStay))
	return uint32(need - min(need, uint64(elapsed(now, r.moved))))
}

// arrive is what a move does to a row (package comment, invariant 4).
func (r *row) arrive(to base.RegionID, now uint32, s *settings) {
	if r.flags&flagMoved != 0 {
		e := elapsed(now, r.moved)
		r.quick -= uint8(min(uint32(r.quick), e/s.decay))
		if e < s.maxStay && r.quick < maxQuick {
			r.quick++
		}
	}
	r.home, r.moved = to, now
	r.flags |= flagMoved
	r.asker, r.run = to, 0
	most := atMost(r.of(to) / s.Margin)
	for i := range r.heat {
		if i != int(to-1) {
			r.heat[i] = min(r.heat[i], most)
		}
	}
}

// runNeeded is the length of a run that outweighs the heat of the home: one
// more for each doubling.
func (r *row) runNeeded(home base.RegionID, s *settings) int {
	return s.MinHeat + bits.Len(uint(r.of(home))+1) - 1
}

// vec is what is recorded of a row for mining.
type vec struct {
	row     uint32 // its row
	epoch   uint32 // of the mining table that has its last full vector
	n       uint8
	partner uint8 // number of partners
	chances uint8 // CLOCK
	ts      [maxFreq]uint32
	with    [maxPartners]uint64 // hashes, most recently confirmed first
	key     base.Key
}

func (v *vec) bytes() int { return vecCost + len(v.key) }

// stripe is one part of the table under one lock.
type stripe struct {
	mu    sync.Mutex
	rng   rand.PCG
	index map[uint64]uint32
	rows  []row
	hand  int // where the next sample begins
	vecs  []vec
	vhand int
	bytes int // of vecs
	stats Stats
	_     [64]byte // the next stripe's lock lies in another cache line
}

func (t *stripe) find(h uint64) *row {
	if i, ok := t.index[h]; ok {
		return &t.rows[i]
	}
	return nil
}

// add makes room for a row and returns it with only its hash set.
func (t *stripe) add(h uint64, now uint32, s *settings) *row {
	for len(t.rows) >= s.maxRows {
		t.evict(now, s)
	}
	t.index[h] = uint32(len(t.rows))
	t.rows = append(t.rows, row{hash: h})
	return &t.rows[len(t.rows)-1]
}

// evict drops the coldest row of a small sample.
func (t *stripe) evict(now uint32, s *settings) {
	victim, least := -1, 0.0
	for range min(sample, len(t.rows)) {
		t.hand = (t.hand + 1) % len(t.rows)
		r := &t.rows[t.hand]
		r.settle(now, s.decay)
		if n := r.total(); victim < 0 || n < least {
			victim, least = t.hand, n
		}
	}
	t.stats.Evicted++
	t.drop(victim)
}

func (t *stripe) drop(i int) {
	if v := t.rows[i].vec; v != 0 {
		t.dropVec(int(v - 1))
	}
	delete(t.index, t.rows[i].hash)
	last := len(t.rows) - 1
	if i != last {
		t.rows[i] = t.rows[last]
		t.index[t.rows[i].hash] = uint32(i)
		if v := t.rows[i].vec; v != 0 {
			t.vecs[v-1].row = uint32(i)
		}
	}
	t.rows = t.rows[:last]
}

// addVec begins to record a row; false if its key is too long to keep.
func (t *stripe) addVec(r *row, key base.Key, s *settings) bool {
	cost := vecCost + len(key)
	if len(key) > maxKey || cost > s.vecBytes {
		return false
	}
	for len(t.vecs) > 0 && (len(t.vecs) >= s.maxVecs || t.bytes+cost > s.vecBytes) {
		t.evictVec()
	}
	t.vecs = append(t.vecs, vec{row: t.index[r.hash], key: key.Clone()})
	t.bytes += cost
	r.vec = uint32(len(t.vecs))
	return true
}

// evictVec is CLOCK; rows with partners get more chances.
func (t *stripe) evictVec() {
	for range sample * sample {
		t.vhand = (t.vhand + 1) % len(t.vecs)
		v := &t.vecs[t.vhand]
		if v.chances == 0 {
			break
		}
		v.chances--
	}
	t.dropVec(t.vhand)
}

func (t *stripe) dropVec(i int) {
	t.bytes -= t.vecs[i].bytes()
	t.rows[t.vecs[i].row].vec = 0
	last := len(t.vecs) - 1
	if i != last {
		t.vecs[i] = t.vecs[last]
		t.rows[t.vecs[i].row].vec = uint32(i + 1)
	}
	t.vecs[last] = vec{}
	t.vecs = t.vecs[:last]
}

// shrink brings the stripe under new limits.
func (t *stripe) shrink(now uint32, s *settings) {
	for len(t.rows) > s.maxRows {
		t.evict(now, s)
	}
	for len(t.vecs) > 0 && (!s.mine || len(t.vecs) > s.maxVecs || t.bytes > s.vecBytes) {
		t.evictVec()
	}
}
