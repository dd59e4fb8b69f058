// Package writes keeps what a transaction is about to write, at its gateway, until it commits.
package writes

import (
	"slices"
	"unsafe"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// Write is what a transaction will do to one key.
type Write struct {
	Key  base.Key
	Kind wire.WriteKind
	Val  []byte
	Home base.RegionID
	// Fresh: the key must be absent when the transaction commits, although its last write is no
	// insert (inserted, then deleted again).
	Fresh bool
	// Move is the region that becomes the row's home (0: it keeps its home), as mo says.
	Move base.RegionID
	Opts kv.MoveOptions
	// Patch made val from the row as it was read (kv.Txn.Update).
	Patch *wire.Patch
	// Draft is the timestamp at which that row was known, if it was not read at the transaction's
	// snapshot (kv.Txn.Draft); 0: it was.
	Draft base.Timestamp
}

// Content reports whether there is a write and reads see it: a row, or that it is deleted.
func (w *Write) Content() bool {
	return w != nil && w.Kind != wire.WriteKind_MOVE && w.Kind != wire.WriteKind_FENCE
}

// Size is what the write counts against the bounds of a transaction, in bytes.
func (w *Write) Size() int { return len(w.Key) + len(w.Val) + 48 }

// undo takes one change of the buffer back.
type undo struct {
	key base.Key
	old *Write // nil: there was none
}

// Buffer holds the writes of a transaction, by key and in key order.
type Buffer struct {
	byKey map[string]*Write
	// order is by key up to sorted, then by time; it may hold writes that are gone.
	order  []*Write
	sorted int
	Bytes  int    // of keys and values, and some for each write
	log    []undo // since the first savepoint
	marks  []int  // savepoints: lengths of log
}

// Len is how many keys are written.
func (b *Buffer) Len() int { return len(b.byKey) }

// Get is the write of a key; nil: there is none.
func (b *Buffer) Get(key base.Key) *Write {
	if len(b.byKey) == 0 {
		return nil
	}
	return b.byKey[string(key)]
}

// Set makes w the last write of its key; old is the one before.
func (b *Buffer) Set(old, w *Write) {
	if b.byKey == nil {
		b.byKey = map[string]*Write{}
	}
	if len(b.marks) > 0 {
		b.log = append(b.log, undo{w.Key, old})
	}
	b.replace(old, w)
}

func (b *Buffer) replace(old, w *Write) {
	if old != nil {
		b.Bytes -= old.Size()
	}
	b.Bytes += w.Size()
	// No copy of the key: its memory is the transaction's.
	b.byKey[unsafe.String(unsafe.SliceData(w.Key), len(w.Key))] = w
	b.order = append(b.order, w)
}

// Savepoint marks what is there now, for RollbackTo.
func (b *Buffer) Savepoint() int {
	b.marks = append(b.marks, len(b.log))
	return len(b.marks)
}

// Since are the writes that a rollback would take back.
func (b *Buffer) Since(savepoint int) (out []*Write) {
	if savepoint < 1 || savepoint > len(b.marks) {
		return nil
	}
	for _, u := range b.log[b.marks[savepoint-1]:] {
		if w := b.byKey[string(u.key)]; w != nil {
			out = append(out, w)
		}
	}
	return out
}

// RollbackTo takes back what came after a savepoint, and the savepoint.
func (b *Buffer) RollbackTo(savepoint int) {
	if savepoint < 1 || savepoint > len(b.marks) {
		return
	}
	b.marks = b.marks[:savepoint]
	to := b.marks[savepoint-1]
	for i := len(b.log) - 1; i >= to; i-- {
		u := b.log[i]
		cur := b.byKey[string(u.key)]
		if u.old != nil {
			b.replace(cur, u.old)
		} else if cur != nil {
			b.Bytes -= cur.Size()
			delete(b.byKey, string(u.key))
		}
	}
	b.log = b.log[:to]
}

// tidy sorts order and drops writes that were replaced or taken back.
func (b *Buffer) tidy() {
	if b.sorted == len(b.order) && b.sorted == len(b.byKey) {
		return
	}
	live := b.order
	if len(b.order) != len(b.byKey) {
		live = b.order[:0]
		for _, w := range b.order {
			if b.byKey[string(w.Key)] == w {
				live = append(live, w)
			}
		}
		clear(b.order[len(live):])
	}
	slices.SortFunc(live, func(x, y *Write) int { return x.Key.Compare(y.Key) })
	b.order = slices.CompactFunc(live, func(x, y *Write) bool { return x == y })
	b.sorted = len(b.order)
}

// Within are the writes in a span that a read sees, in key order.
func (b *Buffer) Within(s base.Span) []*Write {
	if len(b.byKey) == 0 {
		return nil
	}
	b.tidy()
	in := Cut(b.order, s)
	hidden := func(w *Write) bool { return !w.Content() }
	if slices.ContainsFunc(in, hidden) {
		return slices.DeleteFunc(slices.Clone(in), hidden)
	}
	return in
}

// Cut is the part of sorted writes that lies within a span.
func Cut(sorted []*Write, s base.Span) []*Write {
	if len(sorted) == 0 {
		return nil
	}
	cmp := func(w *Write, k base.Key) int { return w.Key.Compare(k) }
	lo, _ := slices.BinarySearchFunc(sorted, s.Start, cmp)
	hi, _ := slices.BinarySearchFunc(sorted, s.Limit(), cmp)
	return sorted[lo:hi]
}

// All are the writes in key order.
func (b *Buffer) All() []*Write {
	b.tidy()
	return b.order
}

// Row is the write as a read of the transaction sees it.
func (w *Write) Row(key base.Key) kv.Row {
	if w.Kind == wire.WriteKind_DELETE {
		return kv.Row{Key: key}
	}
	home := w.Home
	if w.Move != 0 {
		home = w.Move
	}
	return kv.Row{Key: key, Value: Present(w.Val), Home: home}
}

// Wire is the write as its owner gets it.
func (w *Write) Wire(follow bool) *wire.Write {
	m := &wire.Write{}
	w.Fill(m, follow)
	return m
}

// Fill is wire into a new message.
func (w *Write) Fill(m *wire.Write, follow bool) {
	m.Kind, m.Key, m.Value, m.Home, m.Move = w.Kind, w.Key, w.Val, uint32(w.Home), uint32(w.Move)
	m.Soft, m.Pin, m.Reason, m.Follow = w.Opts.Soft, wire.Pin(w.Opts.Pin), w.Opts.Reason, follow
}

// Cancelled reports whether the write undoes itself: inserted and deleted again.
func (w *Write) Cancelled() bool { return w.Fresh && w.Kind == wire.WriteKind_DELETE }

// Present is a value as it is shown: a present row's is never nil.
func Present(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

// Each calls fn for the writes in key order, until it fails.
func (b *Buffer) Each(fn func(*Write) error) error {
	for _, w := range b.All() {
		if err := fn(w); err != nil {
			return err
		}
	}
	return nil
}

// Meta reports whether a key of the meta shard is written.
func (b *Buffer) Meta() bool {
	b.tidy()
	return len(b.order) > 0 && b.order[0].Key.Shard() == base.MetaShard
}
