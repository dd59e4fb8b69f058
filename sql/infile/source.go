package infile

import (
	"context"
	"errors"
	"io"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/charset"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/tape"
)

// Name is that of the file as a table, and of its database. No statement can name it.
const Name = "\x00file"

// File is the file of a LOAD DATA as a table whose columns are the fields, all of them texts. It is
// read once, by a goroutine of its own, which is ahead by a few batches.
type File struct {
	// Open asks the client for the file. It is called when the first batch is wanted.
	Open func() (io.ReadCloser, error)
	// After is given what waits until the client has sent the rest of the file, as the protocol
	// asks before it is told anything. The statement that reads the file does not wait for it: a
	// client may be silent for long.
	After func(wait func())
	// Keep has what is read kept, until Kept is called, so that it can be read again.
	Keep bool
	// Set is the character set of the file. Its lines, fields and places are those of its text in
	// UTF-8.
	Set *charset.Set
	// Batch is how many lines a batch has at most.
	Batch  int
	layout Layout
	skip   uint64 // lines
	cols   []algebra.Column

	ctx   *exec.Ctx
	wants []int // fields
	file  io.ReadCloser
	ahead chan *batch
	end   context.CancelFunc
	now   *batch    // that Next has yielded
	mem   *exec.Mem // nil: the file has not been opened
	tape  tape.Tape
	err   error     // of the goroutine, when ahead is closed
	last  []*string // the fields of the last line; nil: there was none
}

var (
	_ algebra.Table = (*File)(nil)
	_ exec.Source   = (*File)(nil)
	_ exec.Rows     = (*File)(nil)
)

// batch are the rows of some lines.
type batch struct {
	n      int
	vals   [][]string // by wanted field
	nulls  [][]bool
	fields []int  // how many the lines have
	cut    []bool // lines that have more than that
	bytes  int64
	last   []*string // the fields of the last line
	end    Place     // in the file
	kept   []byte    // as a tape keeps it; nil: nobody does
}

// DB implements algebra.Table.
func (f *File) DB() string { return Name }

// Name implements algebra.Table.
func (f *File) Name() string { return Name }

// Columns implements algebra.Table.
func (f *File) Columns() []algebra.Column { return f.cols }

// Indexes implements algebra.Table.
func (f *File) Indexes() []algebra.Index { return nil }

// Rows implements algebra.Table.
func (f *File) Rows() float64 { return 1e6 }

// Distinct implements algebra.Table.
func (f *File) Distinct(int) float64 { return 0 }

// Fraction implements algebra.Table.
func (f *File) Fraction(int, any, any) (float64, bool) { return 0, false }

// RowBytes implements algebra.Table.
func (f *File) RowBytes() float64 { return 100 }

// Shares implements algebra.Table.
func (f *File) Shares() []algebra.Share { return nil }

// field is the name of the column of a field.
func field(i int) string { return Name + string(rune('0'+i)) }

func fieldColumn(i int, coll sql.CollationID) algebra.Column {
	return algebra.Column{Name: field(i), Type: expr.TextType(mostField, coll, expr.CoerceImplicit)}
}

// Start implements exec.Source. What is kept is read once more.
func (f *File) Start(ctx *exec.Ctx, r exec.Read) (exec.Rows, error) {
	if f.ctx = ctx; f.mem == nil {
		f.wants = r.Cols
	}
	f.tape.Rewind()
	return f, nil
}

// Next implements exec.Rows.
func (f *File) Next(b *expr.Batch) (bool, error) {
	if f.mem == nil {
		if err := f.open(); err != nil {
			return false, err
		}
	}
	f.done()
	if ok, err := f.take(); !ok || err != nil {
		return false, err
	}
	f.last = f.now.last
	if len(b.Cols) == 0 {
		for range f.wants {
			b.Cols = append(b.Cols, &expr.Vec{})
		}
	}
	for i, v := range b.Cols {
		v.Reset(f.cols[f.wants[i]].Type, f.now.n)
		copy(v.S, f.now.vals[i])
		v.Null = f.now.nulls[i]
	}
	b.N = f.now.n
	b.Sel = b.Sel[:0]
	for i := range f.now.n {
		b.Sel = append(b.Sel, int32(i))
	}
	return true, nil
}

// open asks for the file, and begins to read it.
func (f *File) open() (err error) {
	if f.file, err = f.Open(); err != nil {
		return err
	}
	f.file = f.Set.File(f.file)
	if f.Keep {
		if err := f.ctx.Mem.Grow(tape.Bytes); err != nil {
			return errors.Join(err, f.file.Close())
		}
	}
	f.mem, f.ahead = f.ctx.Mem, make(chan *batch, 2)
	var ctx context.Context
	ctx, f.end = context.WithCancel(f.ctx.Context)
	f.tape.Ctx, f.tape.Dir = f.ctx.Context, f.ctx.TempDir
	go f.read(ctx)
	return nil
}

// take makes the next batch the one at hand: of those that are read again, then of the file.
func (f *File) take() (ok bool, err error) {
	if f.tape.Plays() {
		record, err := f.tape.Next()
		if err == nil {
			f.now, err = played(record, len(f.cols), f.wants)
		}
		if err == nil {
			err = f.mem.Grow(f.now.bytes)
		}
		return err == nil, err
	}
	select {
	case f.now, ok = <-f.ahead:
	case <-f.ctx.Done():
		return false, context.Cause(f.ctx)
	}
	if !ok {
		f.now = nil
		return false, f.err
	}
	if f.now.kept != nil {
		err = f.tape.Add(f.now.kept)
		f.mem.Shrink(int64(len(f.now.kept)))
		f.now.bytes -= int64(len(f.now.kept))
		f.now.kept = nil
	}
	return err == nil, err
}

// Kept forgets what was kept: the lines up to the batch at hand will not be read again.
func (f *File) Kept() { f.tape.Clear() }

// Place is where the line behind the batch at hand begins.
func (f *File) Place() Place { return f.now.end }

// done gives up the batch that Next has yielded.
func (f *File) done() {
	if f.now != nil {
		f.mem.Shrink(f.now.bytes)
		f.now = nil
	}
}

// Close implements exec.Rows. The file stays open: it may be read again. See End.
func (f *File) Close() error {
	f.done()
	return nil
}

// End ends the reading, and leaves what the client still sends to itself.
func (f *File) End() {
	if f == nil || f.mem == nil {
		return
	}
	f.end()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = f.file.Close() // what was read in vain cannot fail any more
	}()
	for b := range f.ahead { // which ends at once, as the file is closed
		f.mem.Shrink(b.bytes)
	}
	f.done()
	if f.Keep {
		f.mem.Shrink(tape.Bytes)
	}
	f.tape.Clear()
	f.After(func() { <-sent })
}

// Opened reports whether the client was asked for the file.
func (f *File) Opened() bool { return f.mem != nil }

// line is how many fields line i of the batch at hand has, and whether it has more than are read.
func (f *File) line(i int32) (fields int, cut bool) { return f.now.fields[i], f.now.cut[i] }

// batchBytes is how many bytes of fields a batch has at most, but for those of its last line.
const batchBytes = 1 << 20

// read divides the file.
func (f *File) read(ctx context.Context) {
	defer close(f.ahead)
	s := newSplitter(f.file, f.layout)
	for range f.skip {
		if _, ok := s.nextLine(); !ok {
			f.err = s.err
			return
		}
		s.place(1)
	}
	for ctx.Err() == nil && !s.eof && s.err == nil {
		b := f.batch(s)
		if b.n == 0 {
			break
		}
		if err := f.mem.Grow(b.bytes); err != nil {
			f.err = err
			return
		}
		select {
		case f.ahead <- b:
		case <-ctx.Done():
			f.mem.Shrink(b.bytes)
		}
	}
	f.err = s.err
}

// batch reads some lines.
func (f *File) batch(s *splitter) *batch {
	n := len(f.cols)
	b := &batch{}
	s.data = s.data[:0]
	var at []int // begin and end of each field in s.data; -1: NULL, -2: the line has none
	more := true
	for more && b.n < f.Batch && len(s.data) < batchBytes {
		k := 0
		for k < n && s.next() {
			if s.isNull() {
				at = append(at, -1, -1)
			} else {
				at = append(at, s.start, len(s.data))
			}
			k++
		}
		if k == 0 || s.err != nil {
			break
		}
		b.n++
		b.fields = append(b.fields, k)
		for ; k < n; k++ {
			at = append(at, -2, -2)
		}
		var cut bool
		cut, more = s.nextLine()
		b.cut = append(b.cut, cut && more)
	}
	b.end = s.place(b.n)
	b.take(at, string(s.data), n, f.wants)
	if f.Keep {
		b.kept = b.record(at, s.data)
		b.bytes += int64(len(b.kept))
	}
	return b
}

// take makes columns of what was read.
func (b *batch) take(at []int, text string, n int, wants []int) {
	b.bytes = int64(len(text)) + int64(b.n*(24*len(wants)+16))
	for _, w := range wants {
		vals, nulls := make([]string, b.n), make([]bool, b.n)
		for i := range vals {
			if from := at[2*(i*n+w)]; from >= 0 {
				vals[i] = text[from:at[2*(i*n+w)+1]]
			} else {
				nulls[i] = true
			}
		}
		b.vals, b.nulls = append(b.vals, vals), append(b.nulls, nulls)
	}
	if b.n == 0 {
		return
	}
	for w := range n {
		k := 2 * ((b.n-1)*n + w)
		var v *string
		if at[k] >= 0 {
			x := text[at[k]:at[k+1]]
			v = &x
		}
		b.last = append(b.last, v)
	}
}
