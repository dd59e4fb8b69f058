package home

import (
	"encoding/hex"
	"math/bits"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// Summary is the heat of a row in 16 bytes, to ride in the log entry that
// moves it. The zero Summary says that nothing is known.
//
//	byte  0     version (4 bits), number of quick moves, this one included (4)
//
// Version 1, of a row that regions 1 to 7 alone have used:
//
//	bytes 1-7   Morris registers of regions 1-7
//	bytes 8-14  how long ago each was last here: ticks of 2^20 ns as a float
//	            with 3 bits of mantissa
//	byte  15    0
//
// Version 2, of any other row, has the six hottest regions:
//
//	bytes 1-6   their Morris registers
//	bytes 7-12  how long ago each was last here
//	bytes 13-15 which they are, 4 bits each, the lower half of a byte first; 0: none
type Summary [16]byte

const (
	firstRegions = 1 // version 1
	hottest      = 2 // version 2
	// mostFirst and mostHottest are how many regions each has room for.
	mostFirst, mostHottest = 7, 6
)

// heats are what a summary says of regions; false if its version is not known.
func (x *Summary) heats(each func(region int, heat uint8, age uint32)) bool {
	switch x[0] >> 4 {
	case firstRegions:
		for i := range mostFirst {
			each(i, x[1+i], unpackAge(x[8+i]))
		}
	case hottest:
		for i := range mostHottest {
			if r := x[13+i/2] >> (4 * (i % 2)) & 15; known(base.RegionID(r)) {
				each(int(r)-1, x[1+i], unpackAge(x[7+i]))
			}
		}
	default:
		return false
	}
	return true
}

// pack writes what there is to know of a row's regions.
func (x *Summary) pack(r *row, now uint32) {
	var by []int // regions that have used it, the hottest first
	for i, v := range r.heat {
		if v != 0 {
			by = append(by, i)
		}
	}
	if len(by) == 0 || by[len(by)-1] < mostFirst {
		x[0] |= firstRegions << 4
		for _, i := range by {
			x[1+i], x[8+i] = r.heat[i], packAge(elapsed(now, r.seen[i]))
		}
		return
	}
	x[0] |= hottest << 4
	slices.SortStableFunc(by, func(a, b int) int { return int(r.heat[b]) - int(r.heat[a]) })
	for n, i := range by[:min(len(by), mostHottest)] {
		x[1+n], x[7+n] = r.heat[i], packAge(elapsed(now, r.seen[i]))
		x[13+n/2] |= byte(i+1) << (4 * (n % 2))
	}
}

// String is the 16 bytes in hexadecimal.
func (x Summary) String() string { return hex.EncodeToString(x[:]) }

// packAge rounds down, by less than 1/8.
func packAge(e uint32) byte {
	n := bits.Len32(e)
	if n <= 3 {
		return byte(e)
	}
	return byte((n-3)<<3) | byte(e>>(n-4)&7)
}

func unpackAge(c byte) uint32 {
	if c < 8 {
		return uint32(c)
	}
	return uint32(8|c&7) << (min(c>>3, 29) - 1)
}

// Export summarises a row for its next owner; false if nothing is known of it.
func (p *Policy) Export(key base.Key, at base.Timestamp) (x Summary, ok bool) {
	s, h, now := p.set.Load(), p.hash(key), ticksOf(at)
	t := p.stripe(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.find(h)
	if r == nil {
		return x, false
	}
	r.settle(now, s.decay)
	next := row{flags: r.flags, quick: r.quick, moved: r.moved}
	next.arrive(1, now, s) // the time of the last move does not travel, so count here
	x[0] = next.quick
	x.pack(r, now)
	return x, true
}

// Moved tells the old owner that a row has gone; any other replica may be told,
// too. Its heat is kept, as far as there is room, in case this node leads the
// new home, too, or gets it back. Rows that are not known stay unknown.
func (p *Policy) Moved(key base.Key, to base.RegionID, at base.Timestamp) {
	if !known(to) {
		return
	}
	s, h, now := p.set.Load(), p.hash(key), ticksOf(at)
	t := p.stripe(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.find(h); r != nil && r.home != to {
		r.settle(now, s.decay)
		r.arrive(to, now, s)
		r.flags |= flagAdopt
	}
}

// Import tells the new owner of a row that has come to home: changes is the
// count of its new label, x what the old owner exported. A summary of a version
// that this node does not know counts as unknown history.
func (p *Policy) Import(key base.Key, home base.RegionID, changes uint16, at base.Timestamp, x Summary) {
	if !known(home) {
		return
	}
	s, h, now := p.set.Load(), p.hash(key), ticksOf(at)
	t := p.stripe(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.find(h)
	if r == nil {
		r = t.add(h, now, s)
	} else if r.home == home && (r.changes == changes || r.flags&flagAdopt != 0) {
		r.changes = changes
		r.flags &^= flagAdopt
		return // this node was the old owner, too, and knows more
	}
	vec := r.vec
	*r = row{hash: h, vec: vec, changes: changes}
	known := x.heats(func(i int, heat uint8, age uint32) { r.heat[i], r.seen[i] = heat, now-age })
	r.arrive(home, now, s)
	if known {
		r.quick = x[0] & 15
	}
}

// Forget drops what is known of a row (deleted rows, dropped tables).
func (p *Policy) Forget(key base.Key) {
	h := p.hash(key)
	t := p.stripe(h)
	t.mu.Lock()
	defer t.mu.Unlock()
	if i, ok := t.index[h]; ok {
		t.drop(int(i))
	}
}
