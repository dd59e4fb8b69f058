package writes

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/godwitdb/godwit/base"
)

// Entries of indexes come in any order and are logged in key order. They are sorted in blocks, each
// beside the statement that makes the next ones, and merged when they are needed, or when they are
// enough for a chunk. Of a key that was written again the last write is left.

// entries are writes of one section: of an index in a shard.
type entries struct {
	section base.Key
	cur     []head
	blocks  []*sortBlock
}

// head is a write with what its key begins with behind the section: most comparisons need no more,
// and so do not look at memory that lies elsewhere.
type head struct {
	hi, lo uint64
	w      *Write
}

// sortBlock are writes of a section that are being put in order.
type sortBlock struct {
	ws   []head
	done chan struct{} // closed: they are
}

// blockLen is how many entries a block has.
const blockLen = 1 << 14

// section is where entries like this one are kept; nil: there are too many sections. From then on
// all are kept with the other writes, which are newer than those apart.
func (a *apart) section(key base.Key) *entries {
	s := key.Section()
	for _, e := range a.entries {
		if e.section.Compare(s) == 0 {
			return e
		}
	}
	if a.crowded = len(a.entries) == maxSections; a.crowded {
		return nil
	}
	e := &entries{section: s.Clone()}
	a.entries = append(a.entries, e)
	return e
}

func (e *entries) add(w *Write) {
	if e.cur == nil && len(e.blocks) > 0 { // there will be many
		e.cur = make([]head, 0, blockLen)
	}
	e.cur = append(e.cur, headOf(w, len(e.section)))
	if len(e.cur) == blockLen {
		e.end()
	}
}

// headOf is the head of a write whose section takes so many bytes.
func headOf(w *Write, section int) head {
	var b [16]byte
	copy(b[:], w.Key[section:])
	return head{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), w}
}

func (h head) compare(o head) int {
	switch {
	case h.hi != o.hi:
		return cmp.Compare(h.hi, o.hi)
	case h.lo != o.lo:
		return cmp.Compare(h.lo, o.lo)
	}
	return h.w.Key.Compare(o.w.Key)
}

// end begins to sort the block that is being filled.
func (e *entries) end() {
	if len(e.cur) == 0 {
		return
	}
	b := &sortBlock{e.cur, make(chan struct{})}
	e.blocks, e.cur = append(e.blocks, b), nil
	go func() {
		defer close(b.done)
		slices.SortFunc(b.ws, head.compare)
	}()
}

// chunk are entries of any sections that are being put in order.
type chunk struct {
	ws    []*Write
	bytes int           // in memory
	done  chan struct{} // closed: they are
}

// gather begins to make a chunk of all entries.
func gather(all []*entries) *chunk {
	c := &chunk{done: make(chan struct{})}
	for _, e := range all {
		e.end()
	}
	slices.SortFunc(all, func(x, y *entries) int { return x.section.Compare(y.section) })
	go func() {
		defer close(c.done)
		n := 0
		for _, e := range all {
			for _, b := range e.blocks {
				n += len(b.ws)
			}
		}
		c.ws = make([]*Write, 0, n)
		for _, e := range all {
			c.ws = e.appendTo(c.ws)
		}
	}()
	return c
}

// sorted waits for the writes of a chunk, in key order.
func (c *chunk) sorted() []*Write {
	<-c.done
	return c.ws
}

// appendTo adds the last write of each key, in key order.
func (e *entries) appendTo(to []*Write) []*Write {
	var lists [][]head
	for _, b := range e.blocks {
		<-b.done
		lists = append(lists, b.ws)
	}
	for len(lists) > 1 {
		next := lists[:0]
		for i := 0; i+1 < len(lists); i += 2 {
			next = append(next, merged(lists[i], lists[i+1]))
		}
		if len(lists)%2 == 1 {
			next = append(next, lists[len(lists)-1])
		}
		lists = next
	}
	if len(lists) == 0 {
		return to
	}
	from := len(to)
	for _, h := range lists[0] {
		switch n := len(to); {
		case n == from || to[n-1].Key.Compare(h.w.Key) != 0:
			to = append(to, h.w)
		case to[n-1].seq < h.w.seq:
			to[n-1] = h.w
		}
	}
	return to
}

// merged puts two lists that are in order into one.
func merged(x, y []head) []head {
	to := make([]head, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		if x[0].compare(y[0]) <= 0 {
			to, x = append(to, x[0]), x[1:]
		} else {
			to, y = append(to, y[0]), y[1:]
		}
	}
	return append(append(to, x...), y...)
}
