package exec

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cockroachdb/apd/v3"

	"github.com/godwitdb/godwit/base/sealed"
	"github.com/godwitdb/godwit/sql/exec/budget"
	"github.com/godwitdb/godwit/sql/exec/hashing"
	"github.com/godwitdb/godwit/sql/exec/tempfile"
	"github.com/godwitdb/godwit/sql/expr"
)

// spill is a temporary file of rows. It has no name in the directory, so that it goes away with
// the process, and is encrypted with a key of its own, so that what is left on the disk says
// nothing.
type spill struct {
	ctx   *Ctx
	types []expr.Type
	f     *tempfile.File
	key   *sealed.Stream
	w     *bufio.Writer
	buf   []byte
	rows  int
	// pending are rows that are not written yet: small writes are collected to whole batches.
	pending *store
	// starts are the places of the blocks in the file, ends the numbers of the rows behind them.
	starts []int64
	ends   []int
	size   int64
}

func newSpill(ctx *Ctx, types []expr.Type) (*spill, error) {
	f, err := tempfile.Create(ctx.Context, ctx.TempDir)
	if err != nil {
		return nil, err
	}
	key, err := sealed.Random()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	budget.Spilled.Add(1)
	s := &spill{ctx: ctx, types: types, f: f, key: key, pending: newStore(types, nil)}
	s.w = bufio.NewWriterSize(&sealedWriter{s: s}, 64<<10)
	return s, nil
}

// sealedWriter encrypts what it writes, from the beginning of the file on.
type sealedWriter struct {
	s   *spill
	at  int64
	buf []byte
}

func (w *sealedWriter) Write(p []byte) (int, error) {
	w.buf = append(w.buf[:0], p...) // a writer leaves p as it is
	w.s.key.XOR(w.buf, w.buf, w.at)
	n, err := w.s.f.Write(w.buf)
	w.at += int64(n)
	return n, err
}

// ReadAt decrypts.
func (s *spill) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.f.ReadAt(p, off)
	s.key.XOR(p[:n], p[:n], off)
	return n, err
}

// blockBytes is about how long a block is at most: nobody asks whether to go on while one is
// written or read.
const blockBytes = 1 << 20

// write adds the selected rows.
func (s *spill) write(cols []*expr.Vec, sel []int32) error {
	size := rowBytes(cols, sel)
	if size > blockBytes && len(sel) > 1 {
		if err := s.write(cols, sel[:len(sel)/2]); err != nil {
			return err
		}
		return s.write(cols, sel[len(sel)/2:])
	}
	s.rows += len(sel)
	s.pending.append(cols, sel, size)
	if s.pending.n < expr.BatchSize && s.pending.held < blockBytes {
		return nil
	}
	return s.flush()
}

func (s *spill) writeStore(m *store) error {
	return m.each(func(b *expr.Batch) error { return s.write(b.Cols, b.Sel) })
}

// flush writes the pending rows as one block: its length, its rows, its columns. Whoever writes
// much lets others compute here, and ends here.
func (s *spill) flush() error {
	n := s.pending.n
	if n == 0 {
		return nil
	}
	if err := s.ctx.Err(); err != nil {
		return err
	}
	b := binary.LittleEndian.AppendUint32(s.buf[:0], 0)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	for _, c := range s.pending.cols {
		var err error
		if b, err = appendVec(b, c, n); err != nil {
			return err
		}
	}
	binary.LittleEndian.PutUint32(b, uint32(len(b)-4))
	s.buf = b
	s.pending.clear()
	last := 0
	if len(s.ends) > 0 {
		last = s.ends[len(s.ends)-1]
	}
	s.starts, s.ends = append(s.starts, s.size), append(s.ends, last+n)
	s.size += int64(len(b))
	_, err := s.w.Write(b)
	return err
}

func appendVec(b []byte, v *expr.Vec, n int) ([]byte, error) {
	flags := byte(0)
	if v.Null != nil {
		flags |= 1
	}
	if v.D != nil {
		flags |= 2
	}
	b = append(b, flags)
	for i := range n {
		null := v.IsNull(int32(i))
		if v.Null != nil {
			b = append(b, bit(null))
		}
		if null {
			continue
		}
		switch {
		case v.T.Kind == expr.Opaque:
			return nil, fmt.Errorf("a value of type %s cannot go to a temporary file", v.T)
		case v.T.Kind == expr.Float:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v.F[i]))
		case v.T.Kind == expr.Text || v.T.Kind == expr.Bytes || v.T.Kind == expr.JSON:
			b = append(binary.AppendUvarint(b, uint64(len(v.S[i]))), v.S[i]...)
		case v.D != nil:
			t := v.D[i].String()
			b = append(binary.AppendUvarint(b, uint64(len(t))), t...)
		default:
			b = binary.AppendVarint(b, v.I[i])
		}
	}
	return b, nil
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// spillReader reads a file from its beginning.
type spillReader struct {
	s   *spill
	r   *bufio.Reader
	out expr.Batch
	buf []byte
}

// seal writes what is pending; nothing can be written from now on.
func (s *spill) seal() error {
	if err := s.flush(); err != nil {
		return err
	}
	return s.w.Flush()
}

// read begins to read; nothing can be written from now on.
func (s *spill) read() (*spillReader, error) {
	if err := s.seal(); err != nil {
		return nil, err
	}
	return &spillReader{s: s, r: bufio.NewReaderSize(io.NewSectionReader(s, 0, math.MaxInt64), 64<<10)}, nil
}

func (r *spillReader) next() (*expr.Batch, error) {
	if err := r.s.ctx.Err(); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(r.r, head[:]); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	n := int(binary.LittleEndian.Uint32(head[:]))
	if cap(r.buf) < n {
		r.buf = make([]byte, n)
	}
	r.buf = r.buf[:n]
	if _, err := io.ReadFull(r.r, r.buf); err != nil {
		return nil, err
	}
	return &r.out, decodeBlock(&r.out, r.s.types, r.buf)
}

// decodeBlock makes a batch of a block without its length.
func decodeBlock(out *expr.Batch, types []expr.Type, block []byte) error {
	if len(block) < 4 {
		return errDamaged
	}
	d := &decoder{b: block[4:]}
	rows := int(binary.LittleEndian.Uint32(block))
	for len(out.Cols) < len(types) {
		out.Cols = append(out.Cols, &expr.Vec{})
	}
	for i, t := range types {
		d.vec(out.Cols[i], t, rows)
	}
	out.N, out.Sel = rows, expr.All(rows)
	return d.err
}

var errDamaged = errors.New("a temporary file is damaged")

type decoder struct {
	b   []byte
	err error
}

func (d *decoder) uvarint() uint64 {
	x, n := binary.Uvarint(d.b)
	d.skip(n)
	return x
}

func (d *decoder) varint() int64 {
	x, n := binary.Varint(d.b)
	d.skip(n)
	return x
}

func (d *decoder) skip(n int) {
	if n <= 0 || n > len(d.b) {
		d.err = errDamaged
		return
	}
	d.b = d.b[n:]
}

func (d *decoder) byte() byte {
	if len(d.b) == 0 {
		d.skip(1)
		return 0
	}
	x := d.b[0]
	d.b = d.b[1:]
	return x
}

func (d *decoder) text() string {
	n := int(d.uvarint())
	if n > len(d.b) {
		d.skip(n)
		return ""
	}
	s := string(d.b[:n])
	d.b = d.b[n:]
	return s
}

func (d *decoder) vec(v *expr.Vec, t expr.Type, n int) {
	v.Reset(t, n)
	flags := d.byte()
	if flags&2 != 0 {
		v.D = make([]apd.Decimal, n)
	}
	for i := 0; i < n && d.err == nil; i++ {
		if flags&1 != 0 && d.byte() == 1 {
			v.SetNull(i)
			continue
		}
		switch {
		case t.Kind == expr.Float:
			if len(d.b) < 8 {
				d.skip(9)
				return
			}
			v.F[i] = math.Float64frombits(binary.LittleEndian.Uint64(d.b))
			d.b = d.b[8:]
		case t.Kind == expr.Text || t.Kind == expr.Bytes || t.Kind == expr.JSON:
			v.S[i] = d.text()
		case v.D != nil:
			if _, _, err := v.D[i].SetString(d.text()); err != nil {
				d.err = err
			}
		default:
			v.I[i] = d.varint()
		}
	}
}

func (s *spill) close() {
	if s != nil && s.f != nil {
		_ = s.f.Close() // nothing is lost
		s.f = nil
	}
}

// parts are the partitions of rows that do not fit into memory.
type parts struct {
	files []*spill
	p     *hashing.Partitioner
	nums  []uint8
	sels  [hashing.Fan][]int32
}

func newParts(ctx *Ctx, types, keys []expr.Type) (*parts, error) {
	p := &parts{p: hashing.NewPartitioner(keys, ctx.Err)}
	ctx.Work.File()
	for range hashing.Fan {
		f, err := newSpill(ctx, types)
		if err != nil {
			p.close()
			return nil, err
		}
		p.files = append(p.files, f)
	}
	return p, nil
}

// write sends each selected row to the partition of its keys.
func (p *parts) write(cols, keys []*expr.Vec, sel []int32) (err error) {
	if p.nums, err = p.p.Of(keys, sel, p.nums[:0]); err != nil {
		return err
	}
	for k := range p.sels {
		p.sels[k] = p.sels[k][:0]
	}
	for k, i := range sel {
		p.sels[p.nums[k]] = append(p.sels[p.nums[k]], i)
	}
	for k, s := range p.sels {
		if len(s) > 0 {
			if err := p.files[k].write(cols, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// part is a partition that waits to be read. depth is how often its rows were divided.
type part struct {
	*spill
	depth int
}

// queue appends the partitions to those that wait.
func (p *parts) queue(q []part, depth int) []part {
	if p == nil {
		return q
	}
	for _, f := range p.files {
		q = append(q, part{f, depth})
	}
	return q
}

func (p *parts) close() {
	if p == nil {
		return
	}
	for _, f := range p.files {
		f.close()
	}
}
