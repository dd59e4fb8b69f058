// Package writes keeps what a transaction is about to write, at its gateway, until it commits.
package writes

import (
	"errors"
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

	seq    uint32 // in the order of the writes of the transaction
	stored bool   // it is in a run
	taken  bool   // it stands for one that was taken (Take)
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

// Buffer holds the writes of a transaction, by key and in key order. What is more than SpillAt
// bytes goes to files (txn/writes/spill.go).
type Buffer struct {
	byKey map[string]*Write
	// order is by key up to sorted, then by time; it may hold writes that are gone.
	order  []*Write
	sorted int
	Bytes  int    // of keys and values, and some for each write
	log    []undo // of what is in memory, since the first savepoint
	marks  []mark // savepoints

	// SpillAt is how many bytes stay in memory; 0: all.
	SpillAt int
	here    int        // bytes in memory
	n       int        // keys that are written
	seq     uint32     // of the last write
	runs    []*run     // what was spilled, the oldest first
	dead    []ban      // sequence numbers that were rolled back, of writes that may be in runs
	err     error      // a file cannot be written or read
	apart   *apart     // nil: nothing is kept apart
	lists   [][]*Write // what was kept apart, each in key order, the newest first
}

// mark is a savepoint: what there was then. Some statements make one for each row, so it is small.
type mark struct{ log, n, bytes, seq, apart uint32 }

// overhead is about what a write takes in memory beside its key and value, and its place in the
// maps.
const overhead = 200

func (w *Write) held() int { return len(w.Key) + len(w.Val) + overhead }

// Len is how many keys are written.
func (b *Buffer) Len() int { return b.n }

// Held is about what the writes take in memory, in bytes: those that are not in files, and the keys
// of those that were taken.
func (b *Buffer) Held() int64 {
	n := b.here
	if a := b.apart; a != nil {
		n += a.rows + a.bytes
		for _, c := range a.chunks {
			n += c.bytes
		}
	}
	return int64(n)
}

// Err is why the writes are not whole any more; nil: they are.
func (b *Buffer) Err() error { return b.err }

// Get is the write of a key; nil: there is none.
func (b *Buffer) Get(key base.Key) *Write {
	if b.n == 0 {
		return nil
	}
	if w := b.byKey[string(key)]; w != nil {
		return w
	}
	return b.spilled(key)
}

// Set makes w the last write of its key; old is the one before.
func (b *Buffer) Set(old, w *Write) {
	if b.byKey == nil {
		b.byKey = map[string]*Write{}
	}
	b.seq++
	w.seq = b.seq
	apart := old == nil && (b.keepEntry(w) || b.apart.keep(w))
	if len(b.marks) > 0 && !apart {
		b.log = append(b.log, undo{w.Key, old})
	}
	if old == nil {
		b.n++
	} else {
		b.Bytes -= old.Size()
	}
	b.Bytes += w.Size()
	if apart {
		return
	}
	b.replace(w)
	if b.SpillAt > 0 && b.here > b.SpillAt {
		b.spill()
	}
}

// replace puts a write into the place of the one in memory, if there is one.
func (b *Buffer) replace(w *Write) {
	b.drop(w.Key)
	b.here += w.held()
	// No copy of the key: its memory is the transaction's.
	b.byKey[unsafe.String(unsafe.SliceData(w.Key), len(w.Key))] = w
	b.order = append(b.order, w)
}

func (b *Buffer) drop(key base.Key) {
	if cur := b.byKey[string(key)]; cur != nil {
		b.here -= cur.held()
		delete(b.byKey, string(key))
	}
}

// Grow says that the value of a write in memory has become larger.
func (b *Buffer) Grow(bytes int) {
	b.Bytes += bytes
	b.here += bytes
}

// Savepoint marks what is there now, for RollbackTo.
func (b *Buffer) Savepoint() int {
	m := mark{uint32(len(b.log)), uint32(b.n), uint32(b.Bytes), b.seq, 0}
	if b.apart != nil {
		m.apart = uint32(b.apart.count)
	}
	b.marks = append(b.marks, m)
	return len(b.marks)
}

// Since are the writes in memory that a rollback would take back.
func (b *Buffer) Since(savepoint int) (out []*Write) {
	if savepoint < 1 || savepoint > len(b.marks) {
		return nil
	}
	for _, u := range b.log[b.marks[savepoint-1].log:] {
		if w := b.byKey[string(u.key)]; w != nil {
			out = append(out, w)
		}
	}
	return out
}

// RollbackTo takes back what came after a savepoint, which stays.
func (b *Buffer) RollbackTo(savepoint int) {
	if savepoint < 1 || savepoint > len(b.marks) {
		return
	}
	m := b.marks[savepoint-1]
	b.marks = b.marks[:savepoint]
	for i := len(b.log) - 1; i >= int(m.log); i-- {
		if u := b.log[i]; u.old != nil && !u.old.stored {
			b.replace(u.old)
		} else {
			b.drop(u.key)
		}
	}
	b.log, b.n, b.Bytes = b.log[:m.log], int(m.n), int(m.bytes)
	if len(b.runs) > 0 && m.seq < b.seq {
		b.dead = append(b.dead, ban{m.seq, b.seq})
	}
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
	sortByKey(live)
	b.order = slices.CompactFunc(live, func(x, y *Write) bool { return x == y })
	b.sorted = len(b.order)
}

// within are the writes in memory, of a span, that a read sees, in key order.
func (b *Buffer) within(s base.Span) []*Write {
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

// WithEntriesByHome are the tables of which entries are written that are keyed by the home of their
// row.
func (b *Buffer) WithEntriesByHome() map[base.TableID]struct{} {
	tables := map[base.TableID]struct{}{}
	for _, w := range b.All() {
		if w.Key.Index()&base.ByHome != 0 {
			tables[w.Key.Table()] = struct{}{}
		}
	}
	return tables
}

// All are the writes in key order, but those that were taken.
func (b *Buffer) All() []*Write {
	b.join()
	if len(b.runs)+len(b.lists) == 0 {
		b.tidy()
		return b.order
	}
	var out []*Write
	b.err = errors.Join(b.err, b.Each(func(w *Write) error {
		out = append(out, w)
		return nil
	}))
	return out
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

// Meta reports whether a key of the meta shard is written.
func (b *Buffer) Meta() bool {
	b.tidy()
	return len(b.order) > 0 && b.order[0].Key.Shard() == base.MetaShard || slices.ContainsFunc(b.runs, (*run).meta)
}
