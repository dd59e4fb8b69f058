package exec

import (
	"hash/maphash"
	"math/bits"

	"github.com/godwitdb/godwit/sql/expr"
)

// table numbers the distinct combinations of key values from 0. One key of whole numbers or
// times is looked up directly, others by their encoded bytes, which are compared in full.
type table struct {
	types []expr.Type
	enc   []*expr.Encoder
	seed  maphash.Seed
	n     int32

	single bool
	slots  []int32 // entry + 1; 0 is empty
	mask   uint64
	ints   []int64
	nullID int32 // of the single key NULL, or -1

	hashes []uint64
	ends   []int // of the keys in arena
	arena  []byte
	buf    []byte
}

func newTable(types []expr.Type) *table {
	t := &table{types: types, seed: maphash.MakeSeed()}
	t.single = len(types) == 1 && types[0].Ints()
	for _, x := range types {
		t.enc = append(t.enc, expr.NewEncoder(x))
	}
	t.reset()
	return t
}

func (t *table) reset() {
	t.n, t.nullID = 0, -1
	t.slots, t.mask = make([]int32, 16), 15
	t.ints, t.hashes, t.ends, t.arena = t.ints[:0], t.hashes[:0], t.ends[:0], t.arena[:0]
}

// bytes is the memory that is held.
func (t *table) bytes() int64 {
	return int64(cap(t.slots)*4 + cap(t.ints)*8 + cap(t.hashes)*8 + cap(t.ends)*8 + cap(t.arena))
}

func hashInt(x int64) uint64 {
	hi, lo := bits.Mul64(uint64(x)^0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
	return hi ^ lo
}

// assign appends the number of each selected row's key to ids, and makes new ones; with find set,
// the number of an unknown key is -1.
func (t *table) assign(keys []*expr.Vec, sel, ids []int32, find bool) []int32 {
	if len(keys) == 0 {
		if !find && t.n == 0 {
			t.n = 1
		}
		for range sel {
			ids = append(ids, t.n-1)
		}
		return ids
	}
	if t.single {
		return t.assignInts(keys[0], sel, ids, find)
	}
	for _, i := range sel {
		t.buf = t.buf[:0]
		for k, e := range t.enc {
			t.buf = e.Append(t.buf, keys[k], i)
		}
		ids = append(ids, t.bytesID(t.buf, find))
	}
	return ids
}

func (t *table) assignInts(v *expr.Vec, sel, ids []int32, find bool) []int32 {
	for _, i := range sel {
		if v.IsNull(i) {
			if t.nullID < 0 && !find {
				t.nullID = t.n
				t.n++
				t.ints = append(t.ints, 0)
			}
			ids = append(ids, t.nullID)
			continue
		}
		x := v.I[i]
		h := hashInt(x) & t.mask
		for t.slots[h] != 0 && t.ints[t.slots[h]-1] != x {
			h = (h + 1) & t.mask
		}
		if t.slots[h] == 0 && !find {
			t.ints = append(t.ints, x)
			t.n++
			t.slots[h] = t.n
			ids = append(ids, t.n-1)
			if uint64(t.n)*2 > t.mask {
				t.growInts()
			}
			continue
		}
		ids = append(ids, t.slots[h]-1)
	}
	return ids
}

func (t *table) growInts() {
	t.slots = make([]int32, 4*len(t.slots))
	t.mask = uint64(len(t.slots) - 1)
	for e, x := range t.ints {
		if int32(e) == t.nullID {
			continue
		}
		h := hashInt(x) & t.mask
		for t.slots[h] != 0 {
			h = (h + 1) & t.mask
		}
		t.slots[h] = int32(e) + 1
	}
}

func (t *table) key(e int32) []byte {
	start := 0
	if e > 0 {
		start = t.ends[e-1]
	}
	return t.arena[start:t.ends[e]]
}

func (t *table) bytesID(b []byte, find bool) int32 {
	hash := maphash.Bytes(t.seed, b)
	h := hash & t.mask
	for t.slots[h] != 0 {
		if e := t.slots[h] - 1; t.hashes[e] == hash && string(t.key(e)) == string(b) {
			return e
		}
		h = (h + 1) & t.mask
	}
	if find {
		return -1
	}
	t.arena = append(t.arena, b...)
	t.ends = append(t.ends, len(t.arena))
	t.hashes = append(t.hashes, hash)
	t.n++
	t.slots[h] = t.n
	if uint64(t.n)*2 > t.mask {
		t.slots = make([]int32, 4*len(t.slots))
		t.mask = uint64(len(t.slots) - 1)
		for e, x := range t.hashes {
			h := x & t.mask
			for t.slots[h] != 0 {
				h = (h + 1) & t.mask
			}
			t.slots[h] = int32(e) + 1
		}
	}
	return t.n - 1
}

// partitioner sends rows with equal keys to the same of fan partitions, differently at each
// depth.
type partitioner struct {
	enc  []*expr.Encoder
	seed maphash.Seed
	buf  []byte
}

const fan = 16

func newPartitioner(types []expr.Type) *partitioner {
	p := &partitioner{seed: maphash.MakeSeed()}
	for _, t := range types {
		p.enc = append(p.enc, expr.NewEncoder(t))
	}
	return p
}

// of appends the partition of each selected row.
func (p *partitioner) of(keys []*expr.Vec, sel []int32, out []uint8) []uint8 {
	for _, i := range sel {
		p.buf = p.buf[:0]
		for k, e := range p.enc {
			p.buf = e.Append(p.buf, keys[k], i)
		}
		out = append(out, uint8(maphash.Bytes(p.seed, p.buf)%fan))
	}
	return out
}
