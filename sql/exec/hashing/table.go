// Package hashing numbers the keys of rows, and divides rows by their keys.
package hashing

import (
	"hash/maphash"
	"math/bits"

	"github.com/godwitdb/godwit/sql/expr"
)

// pace asks a statement whether it may go on, after about [step] bytes and rows.
type pace struct {
	ask  func() error
	done int
}

const (
	// step is after how many bytes of keys it is asked again. A byte of a text takes 10 to 50 ns:
	// its weight in the collation is looked up.
	step = 64 << 10
	// perRow is what a row counts beside its bytes.
	perRow = 16
)

func (p *pace) add(bytes int) error {
	if p.done += perRow + bytes; p.done < step {
		return nil
	}
	p.done = 0
	return p.ask()
}

// Table numbers the distinct combinations of key values from 0. One key of whole numbers or
// times is looked up directly, others by their encoded bytes, which are compared in full.
type Table struct {
	types []expr.Type
	enc   []*expr.Encoder
	seed  maphash.Seed
	n     int32
	pace  pace

	single bool
	slots  []int32 // entry + 1; 0 is empty
	mask   uint64
	ints   []int64
	nullID int32 // of the single key NULL, or -1

	hashes []uint64
	at     []uint64 // where keys are, see place
	chunks chunks
	buf    []byte
}

// New makes a table for keys of some types. ask is called again and again while rows are looked
// up, and while the table grows. Its error ends that, and the table is of no use then.
func New(types []expr.Type, ask func() error) *Table {
	t := &Table{types: types, seed: maphash.MakeSeed(), pace: pace{ask: ask}}
	t.single = len(types) == 1 && types[0].Ints()
	for _, x := range types {
		t.enc = append(t.enc, expr.NewEncoder(x))
	}
	t.Reset()
	return t
}

// Reader is the table for another goroutine, which only finds keys. ask is asked as that of New is.
// No key may be added any more.
func (t *Table) Reader(ask func() error) *Table {
	r := *t
	r.enc, r.buf, r.pace = nil, nil, pace{ask: ask}
	for _, x := range t.types {
		r.enc = append(r.enc, expr.NewEncoder(x))
	}
	return &r
}

// Len is how many keys there are.
func (t *Table) Len() int32 { return t.n }

// Single makes the key of a table without columns, of which there is one also without rows.
func (t *Table) Single() { t.n = 1 }

// Reset forgets all keys.
func (t *Table) Reset() {
	t.n, t.nullID = 0, -1
	t.slots, t.mask = make([]int32, 16), 15
	t.ints, t.hashes, t.at = t.ints[:0], t.hashes[:0], t.at[:0]
	t.chunks.reset()
}

// Bytes is the memory that is held.
func (t *Table) Bytes() int64 {
	return int64(cap(t.slots)*4+cap(t.ints)*8+cap(t.hashes)*8+cap(t.at)*8) + t.chunks.bytes
}

func hashInt(x int64) uint64 {
	hi, lo := bits.Mul64(uint64(x)^0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)
	return hi ^ lo
}

// Assign appends the number of each selected row's key to ids, and makes new ones; with find set,
// the number of an unknown key is -1.
func (t *Table) Assign(keys []*expr.Vec, sel, ids []int32, find bool) ([]int32, error) {
	if len(keys) == 0 {
		if !find && t.n == 0 {
			t.n = 1
		}
		for range sel {
			ids = append(ids, t.n-1)
		}
		return ids, nil
	}
	if t.single {
		return t.assignInts(keys[0], sel, ids, find)
	}
	var err error
	for _, i := range sel {
		t.buf = t.buf[:0]
		for k, e := range t.enc {
			if t.buf, err = e.Append(t.buf, keys[k], i, t.pace.ask); err != nil {
				return ids, err
			}
		}
		if err := t.pace.add(len(t.buf)); err != nil {
			return ids, err
		}
		id, err := t.bytesID(t.buf, find)
		if err != nil {
			return ids, err
		}
		ids = append(ids, id)
	}
	return ids, nil
}

func (t *Table) assignInts(v *expr.Vec, sel, ids []int32, find bool) ([]int32, error) {
	if err := t.pace.add(perRow * len(sel)); err != nil {
		return ids, err
	}
	for _, i := range sel {
		if v.IsNull(i) {
			if t.nullID < 0 && !find {
				var err error
				if t.ints, err = room(t.ints, &t.pace); err != nil {
					return ids, err
				}
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
			var err error
			if t.ints, err = room(t.ints, &t.pace); err != nil {
				return ids, err
			}
			t.ints = append(t.ints, x)
			t.n++
			t.slots[h] = t.n
			ids = append(ids, t.n-1)
			if uint64(t.n)*2 > t.mask {
				if err := t.grow(func(e int32) uint64 { return hashInt(t.ints[e]) }); err != nil {
					return ids, err
				}
			}
			continue
		}
		ids = append(ids, t.slots[h]-1)
	}
	return ids, nil
}

// grow makes room for four times as many keys, and finds their places anew.
func (t *Table) grow(hash func(e int32) uint64) error {
	t.slots = make([]int32, 4*len(t.slots))
	t.mask = uint64(len(t.slots) - 1)
	for e := range t.n {
		if err := t.pace.add(0); err != nil {
			return err
		}
		if e == t.nullID {
			continue
		}
		h := hash(e) & t.mask
		for t.slots[h] != 0 {
			h = (h + 1) & t.mask
		}
		t.slots[h] = e + 1
	}
	return nil
}

func (t *Table) bytesID(b []byte, find bool) (int32, error) {
	hash := maphash.Bytes(t.seed, b)
	h := hash & t.mask
	for t.slots[h] != 0 {
		if e := t.slots[h] - 1; t.hashes[e] == hash && string(t.chunks.get(t.at[e])) == string(b) {
			return e, nil
		}
		h = (h + 1) & t.mask
	}
	if find {
		return -1, nil
	}
	var err error
	if t.at, err = room(t.at, &t.pace); err != nil {
		return 0, err
	}
	if t.hashes, err = room(t.hashes, &t.pace); err != nil {
		return 0, err
	}
	t.at = append(t.at, t.chunks.put(b))
	t.hashes = append(t.hashes, hash)
	t.n++
	t.slots[h] = t.n
	if uint64(t.n)*2 > t.mask {
		return t.n - 1, t.grow(func(e int32) uint64 { return t.hashes[e] })
	}
	return t.n - 1, nil
}

// Partitioner sends rows with equal keys to the same of [Fan] partitions. Each one does so
// differently.
type Partitioner struct {
	enc  []*expr.Encoder
	seed maphash.Seed
	buf  []byte
	pace pace
}

// Fan is the number of partitions.
const Fan = 16

// NewPartitioner divides by keys of some types. ask is called again and again meanwhile, and its
// error ends that.
func NewPartitioner(types []expr.Type, ask func() error) *Partitioner {
	p := &Partitioner{seed: maphash.MakeSeed(), pace: pace{ask: ask}}
	for _, t := range types {
		p.enc = append(p.enc, expr.NewEncoder(t))
	}
	return p
}

// Of appends the partition of each selected row.
func (p *Partitioner) Of(keys []*expr.Vec, sel []int32, out []uint8) ([]uint8, error) {
	var err error
	for _, i := range sel {
		p.buf = p.buf[:0]
		for k, e := range p.enc {
			if p.buf, err = e.Append(p.buf, keys[k], i, p.pace.ask); err != nil {
				return out, err
			}
		}
		if err := p.pace.add(len(p.buf)); err != nil {
			return out, err
		}
		out = append(out, uint8(maphash.Bytes(p.seed, p.buf)%Fan))
	}
	return out, nil
}
