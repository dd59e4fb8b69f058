// Package rowlist has the rows that a statement is going to write.
package rowlist

import (
	"context"
	"slices"
	"sort"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/exec/budget"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/tape"
)

// Row is a row that a statement is going to write.
type Row struct {
	Stored string // the row as it is
	Vals   []any  // of the columns of its list
	Failed int    // the number of the condition that it does not fulfil, from 1
}

// Waiting are the rows that a statement has found and not written yet, in blocks. Where its memory
// is short, blocks go to a temporary file, and come back one by one when their rows are asked for.
type Waiting struct {
	Ctx  context.Context
	Dir  string           // of the file; empty: the system's
	Mem  *budget.Mem      // nil: nobody counts
	Cols []*schema.Column // of the values
	// Order is that of [Waiting.Sort]; nil: rows stay as they came. Rows that go to the file are
	// put in this order before, so that only runs of them have to be merged.
	Order func(a, b *Row) int

	blocks []*block
	kept   int   // blocks from here on have not been in the file
	held   int64 // by those, in bytes
	runs   []int
	loaded []*block // those in the file whose rows are here, the last used at the end
	tape   tape.Tape
	buf    []byte
}

// block is some neighbouring rows.
type block struct {
	first, n int
	rows     []Row // nil: they are in the file
	size     int64 // of the rows in memory, in bytes
	at       int64 // where the rows are in the file, if inFile
	inFile   bool
	edited   bool // since they were in the file
}

const (
	blockRows  = 1024
	blockBytes = 128 << 10 // if there is much memory
	// loadedBlocks is how many blocks of the file are in memory: that whose rows are written, and
	// those ahead of it whose rows are read.
	loadedBlocks = 4
	// leastPut is how many bytes go to the file at once, while there is any memory.
	leastPut = 64 << 10
)

// size is about what a row takes, in bytes.
func (r *Row) size() int64 {
	n := len(r.Stored) + 80 + 40*len(r.Vals)
	for _, v := range r.Vals {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return int64(n)
}

// Len is how many rows there are.
func (w *Waiting) Len() int {
	if len(w.blocks) == 0 {
		return 0
	}
	b := w.blocks[len(w.blocks)-1]
	return b.first + b.n
}

// Held is what the rows in memory that were never in a file take, in bytes.
func (w *Waiting) Held() int64 { return w.held }

// Add appends a row.
func (w *Waiting) Add(r Row) error {
	size := r.size()
	if err := w.grow(size); err != nil {
		return err
	}
	var b *block
	if len(w.blocks) > w.kept {
		b = w.blocks[len(w.blocks)-1]
	}
	if b == nil || b.n == blockRows || b.size+size > w.blockBytes() {
		b = &block{first: w.Len()}
		if b.first > 0 {
			b.rows = make([]Row, 0, blockRows)
		}
		w.blocks = append(w.blocks, b)
	}
	b.rows = append(b.rows, r)
	b.n++
	b.size += size
	w.held += size
	return nil
}

// grow takes so many bytes. Rows in memory have a quarter of it at most: who reads them may have to
// keep some, too. They go to the file only when they are worth it, while there is any memory.
func (w *Waiting) grow(n int64) error {
	much := w.Mem != nil && w.Mem.Limit() > 0 && w.Held()+n > max(leastPut, w.Mem.Limit()/4)
	if !much && w.Mem.TryGrow(n) || budget.SpillAbove <= 0 && w.Held() < leastPut && w.Mem.Grow(n) == nil {
		return nil
	}
	if err := w.put(); err != nil {
		return err
	}
	return w.Mem.Grow(n)
}

// blockBytes is how much a block has at most: a merge has one of each run in memory.
func (w *Waiting) blockBytes() int64 {
	if w.Mem == nil || w.Mem.Limit() <= 0 {
		return blockBytes
	}
	return min(blockBytes, max(4<<10, w.Mem.Limit()/64))
}

// put has all rows in memory go to the file.
func (w *Waiting) put() error {
	if w.kept == len(w.blocks) {
		return nil
	}
	if w.tape.Ctx == nil {
		w.tape.Ctx, w.tape.Dir = w.Ctx, w.Dir
		budget.Spilled.Add(1)
	}
	if w.Order != nil {
		w.runs = append(w.runs, w.kept)
		order(w.blocks[w.kept:], w.Order)
	}
	for _, b := range w.blocks[w.kept:] {
		if err := w.write(&w.tape, b); err != nil {
			return err
		}
		w.Mem.Shrink(b.size)
		b.rows = nil
	}
	w.kept, w.held = len(w.blocks), 0
	return nil
}

// order sorts the rows of blocks in memory; those that are equal stay in their order.
func order(blocks []*block, cmp func(a, b *Row) int) {
	var all []Row
	for _, b := range blocks {
		all = append(all, b.rows...)
	}
	slices.SortStableFunc(all, func(a, b Row) int { return cmp(&a, &b) })
	for _, b := range blocks {
		all = all[copy(b.rows, all):]
	}
}

// write puts the rows of a block behind what is in a file.
func (w *Waiting) write(to *tape.Tape, b *block) error {
	if err := w.Ctx.Err(); err != nil {
		return err
	}
	buf := w.buf[:0]
	for i := range b.rows {
		var err error
		if buf, err = w.append(buf, &b.rows[i]); err != nil {
			return err
		}
	}
	w.buf = buf
	b.at, b.inFile, b.edited = to.Size(), true, false
	return to.Add(buf)
}

// block is that of row i, with its rows.
func (w *Waiting) block(i int) (*block, error) {
	b := w.blocks[sort.Search(len(w.blocks), func(k int) bool { return w.blocks[k].first > i })-1]
	if !b.inFile {
		return b, nil
	}
	if n := len(w.loaded); n > 0 && w.loaded[n-1] == b {
		return b, nil
	}
	if at := slices.Index(w.loaded, b); at >= 0 {
		w.loaded = append(slices.Delete(w.loaded, at, at+1), b)
		return b, nil
	}
	if len(w.loaded) >= loadedBlocks {
		if err := w.unload(w.loaded[0]); err != nil {
			return nil, err
		}
		w.loaded = slices.Delete(w.loaded, 0, 1)
	}
	if err := w.Mem.Grow(b.size); err != nil {
		return nil, err
	}
	if err := w.read(&w.tape, b); err != nil {
		w.Mem.Shrink(b.size)
		return nil, err
	}
	w.loaded = append(w.loaded, b)
	return b, nil
}

// unload takes the rows of a block out of memory.
func (w *Waiting) unload(b *block) error {
	if b.edited {
		if err := w.write(&w.tape, b); err != nil {
			return err
		}
	}
	w.Mem.Shrink(b.size)
	b.rows = nil
	return nil
}

// At is row i. What is changed in it may be lost when others are asked for.
func (w *Waiting) At(i int) (*Row, error) {
	b, err := w.block(i)
	if err != nil {
		return nil, err
	}
	return &b.rows[i-b.first], nil
}

// Edit returns the rows from i on that lie together, at least one, to be changed before others are
// asked for.
func (w *Waiting) Edit(i int) ([]Row, error) {
	b, err := w.block(i)
	if err != nil {
		return nil, err
	}
	b.edited = true
	return b.rows[i-b.first:], nil
}

// Cut leaves the first n rows only.
func (w *Waiting) Cut(n int) error {
	for len(w.blocks) > 0 {
		last := len(w.blocks) - 1
		b := w.blocks[last]
		if b.first < n {
			break
		}
		if b.rows != nil {
			w.Mem.Shrink(b.size)
			w.loaded = slices.DeleteFunc(w.loaded, func(l *block) bool { return l == b })
		}
		if !b.inFile {
			w.held -= b.size
		}
		w.blocks[last], w.blocks = nil, w.blocks[:last]
	}
	w.kept = min(w.kept, len(w.blocks))
	if n == 0 {
		w.tape.Clear()
		w.runs = nil
	}
	if n >= w.Len() {
		return nil
	}
	b, err := w.block(n - 1)
	if err != nil {
		return err
	}
	b.n = n - b.first
	clear(b.rows[b.n:])
	b.rows, b.edited = b.rows[:b.n], true
	return nil
}

// Sort puts the rows in their order; those that are equal stay as they came.
func (w *Waiting) Sort() error {
	if len(w.runs) == 0 {
		order(w.blocks, w.Order)
		return nil
	}
	for _, b := range w.loaded {
		if err := w.unload(b); err != nil {
			return err
		}
	}
	w.loaded = nil
	if err := w.put(); err != nil {
		return err
	}
	from := w.runs
	if len(from) == 1 {
		return nil
	}
	heads := make([]*head, len(from))
	for i, at := range from {
		end := len(w.blocks)
		if i+1 < len(from) {
			end = from[i+1]
		}
		heads[i] = &head{blocks: w.blocks[at:end]}
		if err := heads[i].next(w); err != nil {
			return err
		}
	}
	to := tape.Tape{Ctx: w.Ctx, Dir: w.Dir}
	out := &block{}
	var blocks []*block
	flush := func() error {
		if err := w.write(&to, out); err != nil {
			return err
		}
		blocks = append(blocks, out)
		out = &block{first: out.first + out.n, rows: out.rows[:0]}
		blocks[len(blocks)-1].rows = nil
		return nil
	}
	for {
		var least *head
		for _, h := range heads {
			if h.left() && (least == nil || w.Order(h.row(), least.row()) < 0) {
				least = h
			}
		}
		if least == nil {
			break
		}
		size := least.size()
		if out.n > 0 && (out.n == blockRows || out.size+size > w.blockBytes()) {
			if err := flush(); err != nil {
				to.Clear()
				return err
			}
		}
		out.rows = append(out.rows, *least.row())
		out.n++
		out.size += size
		if err := least.next(w); err != nil {
			to.Clear()
			return err
		}
	}
	if err := flush(); err != nil {
		to.Clear()
		return err
	}
	w.tape.Clear()
	w.tape, w.blocks, w.kept, w.runs = to, blocks, len(blocks), nil
	return nil
}

// head is how far a run has been merged.
type head struct {
	blocks []*block // the first one has the next row
	at     int
	begun  bool
}

func (h *head) left() bool  { return len(h.blocks) > 0 }
func (h *head) row() *Row   { return &h.blocks[0].rows[h.at] }
func (h *head) size() int64 { return h.blocks[0].size / int64(h.blocks[0].n) }

// next goes to the next row, the first one at first.
func (h *head) next(w *Waiting) error {
	if h.begun {
		if h.at++; h.at < h.blocks[0].n {
			return nil
		}
		w.Mem.Shrink(h.blocks[0].size)
		h.blocks[0].rows, h.blocks, h.at = nil, h.blocks[1:], 0
	}
	if h.begun = true; !h.left() {
		return nil
	}
	if err := w.Mem.Grow(h.blocks[0].size); err != nil {
		return err
	}
	return w.read(&w.tape, h.blocks[0])
}

// End forgets all rows.
func (w *Waiting) End() { _ = w.Cut(0) } // nothing is asked of the file then

// Alone returns a list of one row, with the columns of w.
func (w *Waiting) Alone(r Row) Waiting {
	one := Waiting{Ctx: w.Ctx, Cols: w.Cols}
	one.blocks = []*block{{n: 1, rows: []Row{r}}}
	return one
}

func (w *Waiting) append(b []byte, r *Row) ([]byte, error) {
	b = appendText(b, r.Stored)
	b = appendNumber(b, r.Failed)
	b = appendNumber(b, len(r.Vals))
	for i, v := range r.Vals {
		if v == nil {
			b = append(b, 0)
			continue
		}
		var err error
		if b, err = w.Cols[i].AppendPayload(w.Ctx, append(b, 1), v); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// read takes the rows of a block from a file.
func (w *Waiting) read(from *tape.Tape, b *block) error {
	record, err := from.At(b.at)
	if err != nil {
		return err
	}
	rows := make([]Row, b.n)
	for i := range rows {
		if record, err = w.take(record, &rows[i]); err != nil {
			return err
		}
	}
	b.rows = rows
	return nil
}

func (w *Waiting) take(b []byte, r *Row) ([]byte, error) {
	var ok [3]bool
	var n int
	r.Stored, b, ok[0] = takeText(b)
	r.Failed, b, ok[1] = takeNumber(b)
	n, b, ok[2] = takeNumber(b)
	if ok != [3]bool{true, true, true} || n > len(w.Cols) {
		return nil, base.ErrKeyCorrupt
	}
	if n > 0 {
		r.Vals = make([]any, n)
	}
	for i := range r.Vals {
		if len(b) == 0 {
			return nil, base.ErrKeyCorrupt
		}
		there := b[0] != 0
		if b = b[1:]; !there {
			continue
		}
		var err error
		if r.Vals[i], b, err = w.Cols[i].TakePayload(w.Ctx, b); err != nil {
			return nil, err
		}
	}
	return b, nil
}
