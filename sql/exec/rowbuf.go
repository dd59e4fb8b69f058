package exec

import (
	"sort"

	"github.com/cockroachdb/apd/v3"

	"github.com/godwitdb/godwit/sql/expr"
)

// rowBuf keeps rows in memory or, when that is short, in a file, and finds any of them by its
// number.
type rowBuf struct {
	ctx  *Ctx
	mem  *store
	file *spill
	n    int
	// gen rises when the rows are others.
	gen int
}

func newRowBuf(types []expr.Type, ctx *Ctx) *rowBuf {
	return &rowBuf{ctx: ctx, mem: newStore(types, ctx.Mem)}
}

func (b *rowBuf) add(cols []*expr.Vec, sel []int32) error {
	b.n += len(sel)
	if b.file == nil {
		if b.mem.tryAdd(cols, sel) {
			return nil
		}
		if b.ctx.NoSpill {
			return b.mem.add(cols, sel)
		}
		var err error
		b.ctx.Work.File()
		if b.file, err = newSpill(b.ctx, b.mem.types); err != nil {
			return err
		}
		if err := b.file.writeStore(b.mem); err != nil {
			return err
		}
		b.mem.clear()
	}
	return b.file.write(cols, sel)
}

// seal ends the adding; rows can be read from now on.
func (b *rowBuf) seal() error {
	if b.file == nil {
		return nil
	}
	return b.file.seal()
}

func (b *rowBuf) clear() {
	b.mem.clear()
	b.file.close()
	b.file, b.n = nil, 0
	b.gen++
}

// rowCursor reads rows of a rowBuf. It holds the block of the file that it read last, so whoever
// goes through the rows in order has a cursor of its own.
type rowCursor struct {
	buf        *rowBuf
	gen        int
	out        expr.Batch
	raw        []byte
	first, end int // the rows in out
}

// at finds a row: its columns, its place in them, and how many rows follow it there.
func (c *rowCursor) at(row int) (cols []*expr.Vec, i int32, more int, err error) {
	f := c.buf.file
	if f == nil {
		return c.buf.mem.cols, int32(row), c.buf.n - row, nil
	}
	if c.gen != c.buf.gen || row < c.first || row >= c.end {
		if err := c.seek(f, row); err != nil {
			return nil, 0, 0, err
		}
	}
	return c.out.Cols, int32(row - c.first), c.end - row, nil
}

// seek reads the block of a row.
func (c *rowCursor) seek(f *spill, row int) error {
	k := sort.SearchInts(f.ends, row+1)
	if k == len(f.ends) {
		return errDamaged
	}
	c.gen, c.first, c.end = c.buf.gen, 0, f.ends[k]
	if k > 0 {
		c.first = f.ends[k-1]
	}
	size := f.size - f.starts[k]
	if k+1 < len(f.starts) {
		size = f.starts[k+1] - f.starts[k]
	}
	if int64(cap(c.raw)) < size {
		c.raw = make([]byte, size)
	}
	c.raw = c.raw[:size]
	if _, err := f.ReadAt(c.raw, f.starts[k]); err != nil {
		return err
	}
	return decodeBlock(&c.out, f.types, c.raw[4:])
}

// copyAt makes the value at k of a vector that of another vector. It has the kind of the first.
func copyAt(dst *expr.Vec, k int, src *expr.Vec, i int32) {
	if src.T.Kind == expr.Null || src.IsNull(i) {
		dst.SetNull(k)
		return
	}
	if dst.T.Kind == expr.Decimal && (src.D != nil || dst.D != nil || src.T.Scale != dst.T.Scale) {
		var d, tmp apd.Decimal
		expr.Rescale(&d, src.Dec(i, &tmp), dst.T.Scale)
		dst.SetDecimal(k, &d)
		return
	}
	switch dst.T.Kind.Form() {
	case expr.FormA:
		dst.A[k] = src.A[i]
	case expr.FormF:
		dst.F[k] = src.F[i]
	case expr.FormS:
		dst.S[k] = src.S[i]
	default:
		dst.I[k] = src.I[i]
	}
}
