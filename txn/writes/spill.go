package writes

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"os"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/sealed"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// A run is what was in memory at one moment: the writes in key order, and what they had replaced
// since the first savepoint, the newest of a key first. It is in a temporary file that has no name
// in the directory, so that it goes away with the process, and is encrypted with a key of its own.
//
// Rolling back leaves runs as they are: sequence numbers of writes that were taken back are banned.
type run struct {
	f      *os.File
	key    *sealed.Stream
	blocks []block
	bounds bounds
	filter filter
	// last is the block that was read last.
	last    int
	entries []*Write
}

// block is a part of a run. All writes of a key are in one.
type block struct {
	first base.Key
	off   int64
	size  int
}

// blockBytes is how large a block is, about.
var blockBytes = 32 << 10

// ban is a period of sequence numbers: above after, up to upTo.
type ban struct{ after, upTo uint32 }

func live(dead []ban, seq uint32) bool {
	return !slices.ContainsFunc(dead, func(d ban) bool { return seq > d.after && seq <= d.upTo })
}

// spill moves what is in memory to a run, but for updates that may still be left to their owners:
// those change.
func (b *Buffer) spill() {
	stays := func(w *Write) bool { return w.Patch != nil || w.Draft != 0 }
	b.tidy()
	var out, keep []*Write
	for _, w := range b.order {
		if stays(w) {
			keep = append(keep, w)
		} else {
			out = append(out, w)
		}
	}
	sorted := len(out)
	for _, u := range b.log {
		if u.old != nil && !u.old.stored && !stays(u.old) {
			out = append(out, u.old)
		}
	}
	if len(out) > sorted {
		slices.SortFunc(out, func(x, y *Write) int {
			if c := x.Key.Compare(y.Key); c != 0 {
				return c
			}
			return cmp.Compare(y.seq, x.seq)
		})
		out = slices.CompactFunc(out, func(x, y *Write) bool { return x.seq == y.seq && x.Key.Compare(y.Key) == 0 })
	}
	if !b.run(out) {
		return
	}
	b.byKey, b.order, b.sorted, b.here = map[string]*Write{}, nil, 0, 0
	for _, w := range keep {
		b.replace(w)
	}
	b.forgetSpilled()
}

// leastSpilled is how much SpillNow leaves in memory: it would not be worth a file.
var leastSpilled = 1 << 20

// SpillNow moves to files what is worth it, whatever SpillAt says.
func (b *Buffer) SpillNow() error {
	if b.here >= leastSpilled {
		b.spill()
	}
	if b.apart != nil {
		for _, c := range b.apart.chunks {
			b.run(c.sorted())
		}
		b.apart.chunks = nil
	}
	return b.err
}

// run writes a run, unless that fails.
func (b *Buffer) run(ws []*Write) bool {
	r, err := newRun(ws)
	if err != nil {
		b.err = errors.Join(b.err, base.Errorf(base.CodeOther, "a file for what a transaction writes: %v", err))
		return false
	}
	b.runs = append(b.runs, r)
	for _, w := range ws {
		w.stored = true // who holds it still must not put it back into memory
	}
	return true
}

// forgetSpilled leaves in the log what concerns writes that are not in runs.
func (b *Buffer) forgetSpilled() {
	here := map[string]bool{}
	for _, u := range b.log {
		if b.byKey[string(u.key)] != nil || u.old != nil && !u.old.stored {
			here[string(u.key)] = true
		}
	}
	var log []undo
	marks := b.marks
	for i, u := range b.log {
		for len(marks) > 0 && int(marks[0].log) == i {
			marks[0].log, marks = uint32(len(log)), marks[1:]
		}
		if here[string(u.key)] {
			log = append(log, u)
		}
	}
	for i := range marks {
		marks[i].log = uint32(len(log))
	}
	b.log = log
}

// Close removes the files.
func (b *Buffer) Close() {
	for _, r := range b.runs {
		_ = r.f.Close()
	}
	b.runs = nil
}

// spilled is the write of a key that is not in memory.
func (b *Buffer) spilled(key base.Key) *Write {
	for i := len(b.runs) - 1; i >= 0; i-- {
		w, err := b.runs[i].get(key, b.dead)
		if err != nil {
			b.err = errors.Join(b.err, err)
			return nil
		}
		if w != nil {
			return w
		}
	}
	return nil
}

func newRun(ws []*Write) (r *run, err error) {
	f, err := os.CreateTemp("", "godwit-writes-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r = &run{f: f, last: -1, filter: newFilter(len(ws))}
	if r.key, err = sealed.Random(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	var buf []byte
	var off int64
	flush := func() error {
		last := &r.blocks[len(r.blocks)-1]
		last.size = len(buf)
		r.key.XOR(buf, buf, off)
		n, err := f.Write(buf)
		off += int64(n)
		buf = buf[:0]
		return err
	}
	for i, w := range ws {
		if i == 0 || len(buf) >= blockBytes && w.Key.Compare(ws[i-1].Key) != 0 {
			if i > 0 {
				if err := flush(); err != nil {
					return nil, errors.Join(err, f.Close())
				}
			}
			r.blocks = append(r.blocks, block{first: w.Key.Clone(), off: off})
		}
		r.bounds.add(w.Key)
		r.filter.add(w.Key)
		buf = w.append(buf)
	}
	r.bounds.keep()
	if len(ws) > 0 {
		err = flush()
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

func (r *run) meta() bool { return len(r.blocks) > 0 && r.blocks[0].first.Shard() == base.MetaShard }

// read is the writes of a block.
func (r *run) read(i int) ([]*Write, error) {
	if i == r.last {
		return r.entries, nil
	}
	b := r.blocks[i]
	buf := make([]byte, b.size)
	if _, err := r.f.ReadAt(buf, b.off); err != nil {
		return nil, base.Errorf(base.CodeOther, "a file of what a transaction writes: %v", err)
	}
	r.key.XOR(buf, buf, b.off)
	var out []*Write
	for len(buf) > 0 {
		w := &Write{}
		if buf = w.take(buf); buf == nil {
			return nil, base.Errorf(base.CodeCorrupt, "a file of what a transaction writes is damaged")
		}
		out = append(out, w)
	}
	r.last, r.entries = i, out
	return out, nil
}

// get is the newest write of a key that is not banned.
func (r *run) get(key base.Key, dead []ban) (*Write, error) {
	if !r.bounds.has(key) || !r.filter.has(key) {
		return nil, nil
	}
	i, found := slices.BinarySearchFunc(r.blocks, key, func(b block, k base.Key) int { return b.first.Compare(k) })
	if !found {
		i--
	}
	if i < 0 {
		return nil, nil
	}
	ws, err := r.read(i)
	if err != nil {
		return nil, err
	}
	j, _ := slices.BinarySearchFunc(ws, key, func(w *Write, k base.Key) int { return w.Key.Compare(k) })
	for ; j < len(ws) && ws[j].Key.Compare(key) == 0; j++ {
		if live(dead, ws[j].seq) {
			return ws[j], nil
		}
	}
	return nil, nil
}

// cursor walks over the newest writes of a run, or of what is in memory, in key order or against
// it.
type cursor struct {
	r     *run
	block int
	ws    []*Write // of the block, or all in memory; rest
	dead  []ban
	back  bool
	err   error
}

// start goes to the first write within a span.
func (r *run) start(s base.Span, dead []ban, back bool) *cursor {
	c := &cursor{r: r, dead: dead, back: back, block: -1}
	limit := s.Limit()
	c.block, _ = slices.BinarySearchFunc(r.blocks, s.Start, func(b block, k base.Key) int { return b.first.Compare(k) })
	c.block -= 2 // the block before may have keys of the span
	if back {
		c.block, _ = slices.BinarySearchFunc(r.blocks, limit, func(b block, k base.Key) int { return b.first.Compare(k) })
	}
	c.block = max(c.block, -1)
	for {
		w := c.peek()
		switch {
		case w == nil:
			return c
		case back && w.Key.Compare(limit) >= 0, !back && w.Key.Compare(s.Start) < 0:
			c.next()
		default:
			return c
		}
	}
}

// peek is the write that the cursor is at; nil: it is at the end.
func (c *cursor) peek() *Write {
	for len(c.ws) == 0 {
		if c.r == nil || c.err != nil {
			return nil
		}
		if c.back {
			c.block--
		} else {
			c.block++
		}
		if c.block < 0 || c.block >= len(c.r.blocks) {
			return nil
		}
		all, err := c.r.read(c.block)
		if err != nil {
			c.err = err
			return nil
		}
		for _, w := range all {
			if n := len(c.ws); live(c.dead, w.seq) && (n == 0 || c.ws[n-1].Key.Compare(w.Key) != 0) {
				c.ws = append(c.ws, w)
			}
		}
	}
	if c.back {
		return c.ws[len(c.ws)-1]
	}
	return c.ws[0]
}

func (c *cursor) next() {
	if c.back {
		c.ws = c.ws[:len(c.ws)-1]
	} else {
		c.ws = c.ws[1:]
	}
}

// View is the writes of a transaction as of a moment.
type View struct {
	mem []*Write // in key order
	// lists are others in memory, each in key order, the newest first.
	lists [][]*Write
	runs  []*run
	dead  []ban
}

// View is what reads of the spans see now.
func (b *Buffer) View(spans []base.Span) *View {
	v := &View{runs: slices.Clone(b.runs), dead: slices.Clone(b.dead)}
	for _, s := range spans {
		v.mem = append(v.mem, b.within(s)...)
	}
	if len(spans) > 1 {
		slices.SortFunc(v.mem, func(x, y *Write) int { return x.Key.Compare(y.Key) })
		v.mem = slices.CompactFunc(v.mem, func(x, y *Write) bool { return x == y })
	}
	if len(v.runs) > 0 { // what they hide in runs is hidden, too
		v.mem = nil
		for _, s := range spans {
			b.tidy()
			v.mem = append(v.mem, Cut(b.order, s)...)
		}
		slices.SortFunc(v.mem, func(x, y *Write) int { return x.Key.Compare(y.Key) })
		v.mem = slices.CompactFunc(v.mem, func(x, y *Write) bool { return x == y })
	}
	return v
}

// Memory are the writes that are in memory.
func (v *View) Memory() []*Write { return v.mem }

// Within are the writes of a span, those that a read sees, in key order: about so many bytes, from
// the end at which the read begins. cut is the key up to which they are complete: those at or above
// it (below it, if back) are left out. nil: all are there.
func (v *View) Within(s base.Span, back bool, most int) (ws []*Write, cut base.Key, err error) {
	if len(v.runs) == 0 {
		return Cut(v.mem, s), nil, nil
	}
	size := 0
	err = v.each(s, back, func(w *Write) bool {
		if size >= most {
			if cut = w.Key.Clone(); back {
				cut = w.Key.Next()
			}
			return false
		}
		if w.Content() {
			ws = append(ws, w)
		}
		size += w.Size()
		return true
	})
	if back {
		slices.Reverse(ws)
	}
	return ws, cut, err
}

// each calls fn for the writes of a span until it returns false.
func (v *View) each(s base.Span, back bool, fn func(*Write) bool) error {
	cs := []*cursor{{ws: Cut(v.mem, s), back: back}} // the newest first
	for _, ws := range v.lists {
		cs = append(cs, &cursor{ws: Cut(ws, s), back: back})
	}
	for i := len(v.runs) - 1; i >= 0; i-- {
		cs = append(cs, v.runs[i].start(s, v.dead, back))
	}
	for {
		var first *Write
		for _, c := range cs {
			w := c.peek()
			if c.err != nil {
				return c.err
			}
			if w == nil {
				continue
			}
			if first == nil || !back && w.Key.Compare(first.Key) < 0 || back && w.Key.Compare(first.Key) > 0 {
				first = w
			}
		}
		if first == nil || !s.Contains(first.Key) {
			return nil
		}
		for _, c := range cs {
			if w := c.peek(); w != nil && bytes.Equal(w.Key, first.Key) {
				c.next()
			}
		}
		if !fn(first) {
			return nil
		}
	}
}

// Each calls fn for the writes in key order, but those that were taken, until it fails.
func (b *Buffer) Each(fn func(*Write) error) (err error) {
	b.join()
	b.tidy()
	if len(b.runs)+len(b.lists) == 0 {
		for _, w := range b.order {
			if err := fn(w); err != nil {
				return err
			}
		}
		return nil
	}
	v := &View{mem: b.order, lists: b.lists, runs: b.runs, dead: b.dead}
	every := base.Span{Start: base.Key{0}, End: bytes.Repeat([]byte{0xff}, 16)}
	bad := v.each(every, false, func(w *Write) bool {
		err = fn(w)
		return err == nil
	})
	return errors.Join(err, bad)
}

// The flags of an encoded write.
const (
	flagFresh = 1 << iota
	flagValue
	flagSoft
)

// append encodes a write.
func (w *Write) append(b []byte) []byte {
	flags := byte(0)
	if w.Fresh {
		flags |= flagFresh
	}
	if w.Val != nil {
		flags |= flagValue
	}
	if w.Opts.Soft {
		flags |= flagSoft
	}
	b = append(b, flags, byte(w.Kind), byte(w.Home), byte(w.Move), byte(w.Opts.Pin))
	b = binary.AppendUvarint(b, uint64(w.seq))
	for _, p := range [][]byte{w.Key, w.Val, w.Opts.Reason} {
		b = append(binary.AppendUvarint(b, uint64(len(p))), p...)
	}
	return b
}

// take decodes a write, and returns what is behind it; nil: it is damaged. The write shares memory
// with b.
func (w *Write) take(b []byte) []byte {
	if len(b) < 6 {
		return nil
	}
	flags := b[0]
	w.Kind, w.Home, w.Move = wire.WriteKind(b[1]), base.RegionID(b[2]), base.RegionID(b[3])
	w.Fresh, w.Opts.Soft, w.Opts.Pin = flags&flagFresh != 0, flags&flagSoft != 0, kv.Pin(b[4])
	seq, n := binary.Uvarint(b[5:])
	if n <= 0 {
		return nil
	}
	w.seq, w.stored, b = uint32(seq), true, b[5+n:]
	var parts [3][]byte
	for i := range parts {
		size, n := binary.Uvarint(b)
		if n <= 0 || uint64(len(b)-n) < size {
			return nil
		}
		parts[i], b = b[n:n+int(size):n+int(size)], b[n+int(size):]
	}
	w.Key = parts[0]
	if flags&flagValue != 0 {
		w.Val = parts[1]
	}
	if len(parts[2]) > 0 {
		w.Opts.Reason = parts[2]
	}
	return b
}
