package txn

import (
	"bytes"

	"github.com/google/btree"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// op is one buffered write of a key. A key's ops are kept in the order made, so
// that a savepoint can be rolled back to and a scan sees the writes made before it began.
type op struct {
	seq   int
	kind  wire.WriteKind
	value []byte
	home  base.RegionID
	// absent: the key must not exist when the transaction commits, which has
	// not been checked under a lock yet.
	absent bool
}

type entry struct {
	key base.Key
	ops []op
}

// at is the newest op with a sequence number up to seq; nil if there is none.
func (e *entry) at(seq int) *op {
	for i := len(e.ops) - 1; i >= 0; i-- {
		if e.ops[i].seq <= seq {
			return &e.ops[i]
		}
	}
	return nil
}

// buffer holds a transaction's writes in key order.
type buffer struct {
	tree  *btree.BTreeG[*entry]
	seq   int // of the newest op
	bytes int
	log   []*entry // the entry of each op, by seq-1, for rolling back
}

func entryLess(a, b *entry) bool { return bytes.Compare(a.key, b.key) < 0 }

func (b *buffer) empty() bool { return b.tree == nil || b.tree.Len() == 0 }

func (b *buffer) get(k base.Key) *entry {
	if b.empty() {
		return nil
	}
	e, _ := b.tree.Get(&entry{key: k})
	return e
}

// add appends an op to its key's history.
func (b *buffer) add(k base.Key, o op) {
	if b.tree == nil {
		b.tree = btree.NewG(16, entryLess)
	}
	e := b.get(k)
	if e == nil {
		e = &entry{key: k}
		b.tree.ReplaceOrInsert(e)
	}
	b.seq++
	o.seq = b.seq
	b.bytes += len(k) + len(o.value)
	e.ops = append(e.ops, o)
	b.log = append(b.log, e)
}

// rollback drops every op above seq.
func (b *buffer) rollback(seq int) {
	for b.seq > seq {
		e := b.log[b.seq-1]
		o := e.ops[len(e.ops)-1]
		b.bytes -= len(e.key) + len(o.value)
		if e.ops = e.ops[:len(e.ops)-1]; len(e.ops) == 0 {
			b.tree.Delete(e)
		}
		b.seq--
		b.log = b.log[:b.seq]
	}
}

// each calls fn for every key of the span in the given direction until it returns false.
func (b *buffer) each(s base.Span, reverse bool, fn func(*entry) bool) {
	if b.empty() {
		return
	}
	lo, hi := &entry{key: s.Start}, &entry{key: s.Limit()}
	if !reverse {
		b.tree.AscendRange(lo, hi, fn)
		return
	}
	b.tree.DescendLessOrEqual(hi, func(e *entry) bool {
		if bytes.Equal(e.key, hi.key) {
			return true
		}
		return bytes.Compare(e.key, lo.key) >= 0 && fn(e)
	})
}

// all calls fn for every key in order.
func (b *buffer) all(fn func(*entry)) {
	if !b.empty() {
		b.tree.Ascend(func(e *entry) bool { fn(e); return true })
	}
}
