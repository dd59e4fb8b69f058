package infile

import (
	"context"
	"io"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
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
	After  func(wait func())
	layout Layout
	skip   uint64 // lines
	cols   []algebra.Column

	ctx   *exec.Ctx
	wants []int // fields
	file  io.ReadCloser
	ahead chan *batch
	end   context.CancelFunc
	now   *batch    // that Next has yielded
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

// Start implements exec.Source.
func (f *File) Start(ctx *exec.Ctx, r exec.Read) (exec.Rows, error) {
	f.ctx, f.wants = ctx, r.Cols
	return f, nil
}

// Next implements exec.Rows.
func (f *File) Next(b *expr.Batch) (bool, error) {
	if f.file == nil {
		var err error
		if f.file, err = f.Open(); err != nil {
			return false, err
		}
		f.ahead = make(chan *batch, 2)
		var ctx context.Context
		ctx, f.end = context.WithCancel(f.ctx.Context)
		go f.read(ctx)
	}
	f.done()
	var ok bool
	select {
	case f.now, ok = <-f.ahead:
	case <-f.ctx.Done():
		return false, context.Cause(f.ctx)
	}
	if !ok {
		return false, f.err
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

// done gives up the batch that Next has yielded.
func (f *File) done() {
	if f.now != nil {
		f.ctx.Mem.Shrink(f.now.bytes)
		f.now = nil
	}
}

// Close implements exec.Rows.
func (f *File) Close() error {
	if f.file == nil {
		return nil
	}
	f.end()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = f.file.Close() // what was read in vain cannot fail any more
	}()
	for b := range f.ahead { // which ends at once, as the file is closed
		f.ctx.Mem.Shrink(b.bytes)
	}
	f.done()
	f.After(func() { <-sent })
	return nil
}

// Opened reports whether the client was asked for the file.
func (f *File) Opened() bool { return f.file != nil }

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
	}
	for ctx.Err() == nil && !s.eof && s.err == nil {
		b := f.batch(s)
		if b.n == 0 {
			break
		}
		if err := f.ctx.Mem.Grow(b.bytes); err != nil {
			f.err = err
			return
		}
		select {
		case f.ahead <- b:
		case <-ctx.Done():
			f.ctx.Mem.Shrink(b.bytes)
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
	for more && b.n < expr.BatchSize && len(s.data) < batchBytes {
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
	b.take(at, string(s.data), n, f.wants)
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
