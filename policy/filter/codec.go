package filter

import (
	"bytes"
	"hash/maphash"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Encode makes the bytes of a batch; equal values are stored once. Origin and Needs are not in
// them.
func Encode(b *Batch) []byte {
	m := &wire.EpochBatch{Txns: make([]*wire.EpochTxn, 0, len(b.Txns))}
	seed := maphash.MakeSeed()
	at := map[uint64][]uint32{} // by hash, places + 1 in m.Values
	place := func(v []byte) uint32 {
		h := maphash.Bytes(seed, v)
		for _, p := range at[h] {
			if bytes.Equal(m.Values[p-1], v) { // FILT-3
				return p
			}
		}
		m.Values = append(m.Values, v)
		p := uint32(len(m.Values))
		at[h] = append(at[h], p)
		return p
	}
	for i := range b.Txns {
		t := &b.Txns[i]
		w := &wire.EpochTxn{Id: t.ID[:], Priority: t.Priority, Snapshot: t.Snapshot, Lost: t.Lost}
		for _, k := range t.Reads {
			w.Reads = append(w.Reads, []byte(k))
		}
		for _, s := range t.Ranges {
			w.Ranges = append(w.Ranges, &wire.Span{Start: s.Start, End: s.End})
		}
		for _, x := range t.Writes {
			e := &wire.EpochWrite{Key: []byte(x.Key), Null: x.Null, Del: x.Del}
			if x.Value != nil {
				e.Value = place(x.Value)
			}
			w.Writes = append(w.Writes, e)
		}
		m.Txns = append(m.Txns, w)
	}
	out, err := m.MarshalVT()
	if err != nil {
		panic("filter: " + err.Error()) // generated code does not fail
	}
	return out
}

// Decode undoes Encode.
func Decode(origin int, data []byte) (*Batch, error) {
	var m wire.EpochBatch
	if err := m.UnmarshalVT(data); err != nil {
		return nil, base.Errorf(base.CodeInvalid, "batch of node %d: %v", origin, err)
	}
	b := &Batch{Origin: origin, Txns: make([]Txn, 0, len(m.Txns))}
	for _, w := range m.Txns {
		t := Txn{Priority: w.Priority, Snapshot: w.Snapshot, Lost: w.Lost}
		if copy(t.ID[:], w.Id) != len(w.Id) || len(w.Id) != len(t.ID) {
			return nil, base.Errorf(base.CodeInvalid, "batch of node %d: a transaction's id has %d bytes", origin, len(w.Id))
		}
		for _, k := range w.Reads {
			t.Reads = append(t.Reads, string(k))
		}
		for _, s := range w.Ranges {
			t.Ranges = append(t.Ranges, base.Span{Start: s.Start, End: s.End})
		}
		for _, e := range w.Writes {
			x := Write{Key: string(e.Key), Null: e.Null, Del: e.Del}
			if int(e.Value) > len(m.Values) {
				return nil, base.Errorf(base.CodeInvalid, "batch of node %d: value %d of %d", origin, e.Value, len(m.Values))
			}
			if e.Value > 0 {
				if x.Value = m.Values[e.Value-1]; x.Value == nil {
					x.Value = []byte{}
				}
			}
			t.Writes = append(t.Writes, x)
		}
		b.Txns = append(b.Txns, t)
	}
	return b, nil
}

// Slices cuts a batch by key into n, so that conflicting transactions of
// different nodes meet in the same slice. A transaction is in every slice of
// which it touches a key; one without keys is in the first. All nodes cut alike.
func Slices(b *Batch, n int) []Batch {
	out := make([]Batch, n)
	for s := range out {
		out[s].Origin = b.Origin
	}
	for i := range b.Txns {
		t := &b.Txns[i]
		pieces := make([]*Txn, n)
		piece := func(s int) *Txn {
			if pieces[s] == nil {
				pieces[s] = &Txn{ID: t.ID, Priority: t.Priority, Snapshot: t.Snapshot, Lost: t.Lost, Ranges: t.Ranges}
			}
			return pieces[s]
		}
		for _, k := range t.Reads {
			p := piece(sliceOf(k, n))
			p.Reads = append(p.Reads, k)
		}
		for _, w := range t.Writes {
			p := piece(sliceOf(w.Key, n))
			p.Writes = append(p.Writes, w)
		}
		none := true
		for s := range n {
			none = none && pieces[s] == nil
			if len(t.Ranges) > 0 {
				piece(s)
			}
		}
		if none && len(t.Ranges) == 0 {
			piece(0)
		}
		for s, p := range pieces {
			if p != nil {
				out[s].Txns = append(out[s].Txns, *p)
			}
		}
	}
	return out
}

// sliceOf is FNV-1a: the same on all nodes.
func sliceOf(key string, n int) int {
	h := uint32(2166136261)
	for i := range len(key) {
		h = (h ^ uint32(key[i])) * 16777619
	}
	return int(h % uint32(n))
}
