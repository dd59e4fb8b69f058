package writes

import (
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Rows of one table that are written in rising order, each once, may be kept apart from the other
// writes: in a list, until they are taken to be logged before the commit. Of those that are taken
// only the keys are left, to find out that one of them is written again: the log has it already
// (docs/protocol.md, STAGE-7). So may entries of its indexes, which nobody looks up before the
// commit. Reads of the transaction do not see what is kept apart.

// apart are the writes of one table that are kept so.
type apart struct {
	table base.TableID
	parts []*part
	cur   *part // of the last key
	taken int   // keys of rows that were taken
	count int   // writes that were ever kept apart
	over  bool  // no more are

	indexes []base.IndexID
	entries []*entries // by section, in the order in which they came
	bytes   int        // of entries
	rows    int        // bytes of rows that wait, and of the keys of those that were taken
	crowded bool       // there were entries of too many sections: no more are kept apart
	// chunks are entries that came before, the oldest first.
	chunks []*chunk
	// Rewrites has a key that was taken written again, for tests of STAGE-7.
	rewrites bool
}

// part is one section of the table: its rows in one shard.
type part struct {
	section base.Key
	taken   []base.Key
	waiting []*Write
}

const (
	maxParts = 64      // sections
	maxTaken = 1 << 20 // keys that are remembered
	keyHeld  = 32      // bytes of memory of such a key beside its own
	// maxChunks is how many times as much of entries stays in memory as of other writes: to write
	// and read them again takes a tenth of a statement's time, and they have no places in maps. A
	// chunk is written in a step of some 100 ms.
	maxChunks = 4
)

// Apart has rows of a table, and entries of some of its indexes, kept apart from now on, where that
// is possible. rewrites leaves out STAGE-7.
func (b *Buffer) Apart(table base.TableID, indexes []base.IndexID, rewrites bool) {
	b.apart = &apart{table: table, indexes: indexes, rewrites: rewrites}
}

// entry reports whether a key is one of an entry that is kept apart.
func (a *apart) entry(key base.Key) bool {
	return len(a.indexes) > 0 && !a.crowded && key.Table() == a.table && key.Shard() != base.MetaShard &&
		slices.Contains(a.indexes, key.Index())
}

// part is the section that a key belongs to; nil: it is none of the table's rows.
func (a *apart) part(key base.Key) *part {
	if key.Shard() == base.MetaShard || key.Table() != a.table || key.Index() != 0 {
		return nil
	}
	s := key.Section()
	if a.cur != nil && a.cur.section.Compare(s) == 0 {
		return a.cur
	}
	for _, p := range a.parts {
		if p.section.Compare(s) == 0 {
			a.cur = p
			return p
		}
	}
	if a.over || len(a.parts) == maxParts {
		return nil
	}
	a.cur = &part{section: s.Clone()}
	a.parts = append(a.parts, a.cur)
	return a.cur
}

// last is the greatest key; nil: there is none.
func (p *part) last() base.Key {
	if n := len(p.waiting); n > 0 {
		return p.waiting[n-1].Key
	}
	if n := len(p.taken); n > 0 {
		return p.taken[n-1]
	}
	return nil
}

// keep keeps a write of a key that has none yet, if it can.
func (a *apart) keep(w *Write) bool {
	if a == nil || a.over || w.Patch != nil || w.Draft != 0 || w.Fresh || !w.Content() {
		return false
	}
	p := a.part(w.Key)
	if p == nil || p.last().Compare(w.Key) >= 0 {
		return false
	}
	if a.over = a.taken+len(p.waiting) >= maxTaken; a.over {
		return false
	}
	p.waiting = append(p.waiting, w)
	a.rows += w.held()
	a.count++
	return true
}

// keepEntry keeps a write of an entry.
func (b *Buffer) keepEntry(w *Write) bool {
	a := b.apart
	if a == nil || !w.Content() || w.Kind == wire.WriteKind_INSERT || w.Patch != nil || w.Draft != 0 || !a.entry(w.Key) {
		return false
	}
	s := a.section(w.Key)
	if s == nil {
		return false
	}
	s.add(w)
	a.bytes += w.held()
	a.count++
	if b.SpillAt > 0 && a.bytes > b.SpillAt {
		c := gather(a.entries)
		c.bytes = a.bytes
		a.chunks = append(a.chunks, c)
		a.entries, a.bytes = nil, 0
		if len(a.chunks) == maxChunks {
			b.run(a.chunks[0].sorted())
			a.chunks = slices.Delete(a.chunks, 0, 1)
		}
	}
	return true
}

// Old is the write of a key that is going to be written: Get, but for those that are kept apart. A
// row is kept with the others from then on; if it was taken, Taken says so. An entry is written
// once.
func (b *Buffer) Old(key base.Key) *Write {
	if b.apart != nil {
		if b.apart.entry(key) {
			return nil
		}
		if w := b.withdrawn(key); w != nil {
			return w
		}
	}
	return b.Get(key)
}

// withdrawn is a write that was kept apart; nil: there is none.
func (b *Buffer) withdrawn(key base.Key) *Write {
	p := b.apart.part(key)
	if p == nil || p.last().Compare(key) < 0 {
		return nil
	}
	at, found := slices.BinarySearchFunc(p.waiting, key, func(w *Write, k base.Key) int { return w.Key.Compare(k) })
	if found {
		w := p.waiting[at]
		p.waiting = slices.Delete(p.waiting, at, at+1)
		b.apart.rows -= w.held()
		b.replace(w)
		return w
	}
	if _, found := slices.BinarySearchFunc(p.taken, key, base.Key.Compare); found && !b.apart.rewrites {
		return &Write{Key: key, Kind: wire.WriteKind_PUT, taken: true}
	}
	return nil
}

// Taken reports whether the write was taken to be logged.
func (w *Write) Taken() bool { return w != nil && w.taken }

// Take takes the rows that are kept apart, section by section, in rising order. With more sections
// than most none is kept apart any more.
func (b *Buffer) Take(most int) (ws []*Write) {
	a := b.apart
	if a == nil || a.over {
		return nil
	}
	for _, p := range a.parts {
		for _, w := range p.waiting {
			p.taken = append(p.taken, w.Key)
			a.rows += len(w.Key) + keyHeld - w.held()
		}
		a.taken += len(p.waiting)
		ws, p.waiting = append(ws, p.waiting...), nil
	}
	a.over = len(a.parts) > most
	return ws
}

// join puts what is kept apart, and was not taken, among the others. Nothing is written any more.
func (b *Buffer) join() {
	a := b.apart
	if a == nil {
		return
	}
	b.apart = nil
	var rest []*Write
	for _, p := range a.parts {
		rest = append(rest, p.waiting...)
	}
	sortByKey(rest)
	b.lists = nil
	for _, c := range append(a.chunks, gather(a.entries)) {
		b.lists = append(b.lists, c.sorted())
	}
	b.lists = append(b.lists, rest)
	slices.Reverse(b.lists)
}

// MayRollBack reports whether what came after a savepoint can be taken back: nothing of it was kept
// apart.
func (b *Buffer) MayRollBack(savepoint int) bool {
	return b.apart == nil || savepoint < 1 || savepoint > len(b.marks) || int(b.marks[savepoint-1].apart) == b.apart.count
}
