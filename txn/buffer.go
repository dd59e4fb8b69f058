package txn

import (
	"slices"
	"unsafe"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// write is what a transaction will do to one key.
type write struct {
	key  base.Key
	kind wire.WriteKind
	val  []byte
	home base.RegionID
	// fresh: the key must be absent when the transaction commits, although its last write is no
	// insert (inserted, then deleted again).
	fresh bool
	// move is the region that becomes the row's home (0: it keeps its home), as mo says.
	move base.RegionID
	mo   kv.MoveOptions
	// patch made val from the row as it was read (kv.Txn.Update).
	patch *wire.Patch
	// draft is the timestamp at which that row was known, if it was not read at the transaction's
	// snapshot (kv.Txn.Draft); 0: it was.
	draft base.Timestamp
}

// content reports whether there is a write and reads see it: a row, or that it is deleted.
func (w *write) content() bool {
	return w != nil && w.kind != wire.WriteKind_MOVE && w.kind != wire.WriteKind_FENCE
}

func (w *write) size() int { return len(w.key) + len(w.val) + 48 }

// undo takes one change of the buffer back.
type undo struct {
	key base.Key
	old *write // nil: there was none
}

// buffer holds the writes of a transaction, by key and in key order.
type buffer struct {
	byKey map[string]*write
	// order is by key up to sorted, then by time; it may hold writes that are gone.
	order  []*write
	sorted int
	bytes  int
	log    []undo // since the first savepoint
	marks  []int  // savepoints: lengths of log
}

func (b *buffer) get(key base.Key) *write {
	if len(b.byKey) == 0 {
		return nil
	}
	return b.byKey[string(key)]
}

// set makes w the last write of its key; old is the one before.
func (b *buffer) set(old, w *write) {
	if b.byKey == nil {
		b.byKey = map[string]*write{}
	}
	if len(b.marks) > 0 {
		b.log = append(b.log, undo{w.key, old})
	}
	b.replace(old, w)
}

func (b *buffer) replace(old, w *write) {
	if old != nil {
		b.bytes -= old.size()
	}
	b.bytes += w.size()
	// No copy of the key: its memory is the transaction's.
	b.byKey[unsafe.String(unsafe.SliceData(w.key), len(w.key))] = w
	b.order = append(b.order, w)
}

func (b *buffer) savepoint() int {
	b.marks = append(b.marks, len(b.log))
	return len(b.marks)
}

// since are the writes that a rollback would take back.
func (b *buffer) since(savepoint int) (out []*write) {
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

func (b *buffer) rollbackTo(savepoint int) {
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
			b.bytes -= cur.size()
			delete(b.byKey, string(u.key))
		}
	}
	b.log = b.log[:to]
}

// tidy sorts order and drops writes that were replaced or taken back.
func (b *buffer) tidy() {
	if b.sorted == len(b.order) && b.sorted == len(b.byKey) {
		return
	}
	live := b.order
	if len(b.order) != len(b.byKey) {
		live = b.order[:0]
		for _, w := range b.order {
			if b.byKey[string(w.key)] == w {
				live = append(live, w)
			}
		}
		clear(b.order[len(live):])
	}
	slices.SortFunc(live, func(x, y *write) int { return x.key.Compare(y.key) })
	b.order = slices.CompactFunc(live, func(x, y *write) bool { return x == y })
	b.sorted = len(b.order)
}

// within are the writes in a span that a read sees, in key order.
func (b *buffer) within(s base.Span) []*write {
	if len(b.byKey) == 0 {
		return nil
	}
	b.tidy()
	in := cut(b.order, s)
	hidden := func(w *write) bool { return !w.content() }
	if slices.ContainsFunc(in, hidden) {
		return slices.DeleteFunc(slices.Clone(in), hidden)
	}
	return in
}

// cut is the part of sorted writes that lies within a span.
func cut(sorted []*write, s base.Span) []*write {
	if len(sorted) == 0 {
		return nil
	}
	cmp := func(w *write, k base.Key) int { return w.key.Compare(k) }
	lo, _ := slices.BinarySearchFunc(sorted, s.Start, cmp)
	hi, _ := slices.BinarySearchFunc(sorted, s.Limit(), cmp)
	return sorted[lo:hi]
}

// all are the writes in key order.
func (b *buffer) all() []*write {
	b.tidy()
	return b.order
}

// row is the write as a read of the transaction sees it.
func (w *write) row(key base.Key) kv.Row {
	if w.kind == wire.WriteKind_DELETE {
		return kv.Row{Key: key}
	}
	home := w.home
	if w.move != 0 {
		home = w.move
	}
	return kv.Row{Key: key, Value: present(w.val), Home: home}
}

// wire is the write as its owner gets it.
func (w *write) wire(follow bool) *wire.Write {
	m := &wire.Write{}
	w.fill(m, follow)
	return m
}

// fill is wire into a new message.
func (w *write) fill(m *wire.Write, follow bool) {
	m.Kind, m.Key, m.Value, m.Home, m.Move = w.kind, w.key, w.val, uint32(w.home), uint32(w.move)
	m.Soft, m.Pin, m.Reason, m.Follow = w.mo.Soft, wire.Pin(w.mo.Pin), w.mo.Reason, follow
}

// cancelled reports whether the write undoes itself: inserted and deleted again.
func (w *write) cancelled() bool { return w.fresh && w.kind == wire.WriteKind_DELETE }

// present is a value as it is shown: a present row's is never nil.
func present(v []byte) []byte {
	if v == nil {
		return []byte{}
	}
	return v
}

// meta reports whether a key of the meta shard is written.
func (b *buffer) meta() bool {
	b.tidy()
	return len(b.order) > 0 && b.order[0].key.Shard() == base.MetaShard
}
