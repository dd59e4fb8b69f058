package merge

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/base/sealed"
	"github.com/godwitdb/godwit/sql/backup/archive"
	"github.com/godwitdb/godwit/sql/exec/tempfile"
)

// Change is a version of a row that a log of changes has.
type Change struct {
	// Record is what the log says. Its PK is an [archive.LogKey] without the timestamp.
	archive.Record
	// File is the number of the log's piece that the version is in.
	File int
}

// Sorter sorts versions by their keys, and keeps the newest of each key. What does not fit into its
// memory goes to temporary files: they have no names, are gone with the process, and are encrypted
// with keys that are in memory only. It is used by one goroutine, and closed by it.
type Sorter struct {
	ctx  context.Context
	dir  string
	most int
	held []Change
	size int
	runs [][]*run // of each level fanIn at most
}

// fanIn is of how many files one is made: so few are open, and each byte is written once more for
// each factor fanIn of size.
const fanIn = 32

// fileBuffer is how much of each file is in memory.
const fileBuffer = 64 << 10

// NewSorter makes a sorter that keeps about most bytes in memory, and its files in a directory,
// empty for the system's. What it does ends with ctx, with the error of that.
func NewSorter(ctx context.Context, dir string, most int) *Sorter {
	return &Sorter{ctx: ctx, dir: dir, most: most}
}

// Add adds a version. It keeps the key, and copies the value.
func (s *Sorter) Add(c Change) error {
	c.Value = bytes.Clone(c.Value) // else it would keep the whole piece
	s.held = append(s.held, c)
	if s.size += len(c.PK) + len(c.Value) + 128; s.size < s.most {
		return nil
	}
	s.sort()
	i := 0
	err := s.add(0, func() (*Change, error) {
		if i == len(s.held) {
			return nil, nil
		}
		i++
		return &s.held[i-1], nil
	})
	clear(s.held)
	s.held, s.size = s.held[:0], 0
	return err
}

// order is by keys, the newest version of each first.
func order(a, b *Change) int {
	return cmp.Or(bytes.Compare(a.PK, b.PK), cmp.Compare(b.TS, a.TS))
}

// sort sorts what is in memory.
func (s *Sorter) sort() {
	slices.SortFunc(s.held, func(a, b Change) int { return order(&a, &b) })
	s.held = slices.CompactFunc(s.held, func(a, b Change) bool { return bytes.Equal(a.PK, b.PK) })
}

// add writes a file of what next returns, in its order, to a level. Of a level that is full one
// file of the next level is made.
func (s *Sorter) add(level int, next func() (*Change, error)) error {
	r, err := s.write(next)
	if err != nil {
		return err
	}
	for len(s.runs) <= level {
		s.runs = append(s.runs, nil)
	}
	if s.runs[level] = append(s.runs[level], r); len(s.runs[level]) < fanIn {
		return nil
	}
	full := s.runs[level]
	all := &Changes{}
	for _, r := range full {
		all.from = append(all.from, &reading{run: r.read()})
	}
	if err := all.begin(); err != nil {
		return err
	}
	err = s.add(level+1, func() (*Change, error) {
		if all.Done {
			return nil, nil
		}
		c := all.Change
		return &c, all.Next()
	})
	s.runs[level] = nil
	for _, r := range full {
		err = errors.Join(err, r.f.Close())
	}
	return err
}

// Changes ends the sorting: the versions, in their order. The sorter is closed after they were
// read.
func (s *Sorter) Changes() (*Changes, error) {
	s.sort()
	out := &Changes{from: []*reading{{held: s.held}}}
	for _, level := range s.runs {
		for _, r := range level {
			out.from = append(out.from, &reading{run: r.read()})
		}
	}
	return out, out.begin()
}

// Files is how many temporary files there are.
func (s *Sorter) Files() (n int) {
	for _, level := range s.runs {
		n += len(level)
	}
	return n
}

// Close removes the files.
func (s *Sorter) Close() {
	for _, level := range s.runs {
		for _, r := range level {
			_ = r.f.Close() // nothing is lost
		}
	}
	s.runs, s.held = nil, nil
}

// run is a file of sorted versions.
type run struct {
	f    *tempfile.File
	key  *sealed.Stream
	at   int64
	size int64 // of what is in it
}

// Write implements [io.Writer]: it encrypts.
func (r *run) Write(p []byte) (int, error) {
	b := make([]byte, len(p)) // one that was left to a disk that stands still is not used again
	r.key.XOR(b, p, r.at)
	n, err := r.f.Write(b)
	r.at += int64(n)
	return n, err
}

// ReadAt implements [io.ReaderAt]: it decrypts.
func (r *run) ReadAt(p []byte, off int64) (int, error) {
	b := make([]byte, len(p))
	n, err := r.f.ReadAt(b, off)
	if n > 0 {
		r.key.XOR(p[:n], b[:n], off)
	}
	return n, err
}

func (r *run) read() *bufio.Reader {
	return bufio.NewReaderSize(io.NewSectionReader(r, 0, r.size), fileBuffer)
}

// castagnoli is the polynomial of checksums of versions in files.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// write makes a file: of each version its length, its checksum, and its parts.
func (s *Sorter) write(next func() (*Change, error)) (_ *run, err error) {
	r := &run{}
	if r.f, err = tempfile.Create(s.ctx, s.dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = r.f.Close() // it is of no use
		}
	}()
	if r.key, err = sealed.Random(); err != nil {
		return nil, err
	}
	w := bufio.NewWriterSize(r, fileBuffer)
	var b, head []byte
	for {
		c, err := next()
		if err != nil {
			return nil, err
		}
		if c == nil {
			break
		}
		b = c.append(b[:0])
		head = binary.AppendUvarint(head[:0], uint64(len(b)))
		head = binary.LittleEndian.AppendUint32(head, crc32.Checksum(b, castagnoli))
		for _, part := range [][]byte{head, b} {
			if _, err := w.Write(part); err != nil {
				return nil, fmt.Errorf("a log of changes does not fit into the directory of temporary files: %w", err)
			}
			r.size += int64(len(part))
		}
	}
	return r, w.Flush()
}

const (
	changeDeleted = 1 << iota
	changePinned
)

// append appends a version as files have it.
func (c *Change) append(b []byte) []byte {
	var flags byte
	if c.Deleted {
		flags |= changeDeleted
	}
	if c.Pinned {
		flags |= changePinned
	}
	b = append(b, flags, byte(c.Home))
	b = binary.AppendUvarint(b, uint64(c.TS))
	b = binary.AppendUvarint(b, uint64(c.File))
	b = binary.AppendUvarint(b, uint64(len(c.PK)))
	b = append(b, c.PK...)
	return append(b, c.Value...)
}

var errDamaged = errors.New("a temporary file of a sorted log is damaged")

// decode reads what append has made.
func (c *Change) decode(b []byte) error {
	if len(b) < 2 {
		return errDamaged
	}
	*c = Change{Record: archive.Record{Deleted: b[0]&changeDeleted != 0, Pinned: b[0]&changePinned != 0, Home: base.RegionID(b[1])}}
	b = b[2:]
	var n [3]uint64
	for i := range n {
		v, k := binary.Uvarint(b)
		if k <= 0 {
			return errDamaged
		}
		n[i], b = v, b[k:]
	}
	if n[2] > uint64(len(b)) || n[1] > math.MaxInt32 {
		return errDamaged
	}
	c.TS, c.File = base.Timestamp(n[0]), int(n[1])
	if c.PK = b[:n[2]:n[2]]; !c.Deleted {
		c.Value = b[n[2]:]
	}
	return nil
}

// reading reads a file, or what was held in memory.
type reading struct {
	run  *bufio.Reader
	held []Change
	at   Change
	done bool
}

// next makes at the next version, or sets done.
func (r *reading) next() error {
	if r.run == nil {
		if r.done = len(r.held) == 0; !r.done {
			r.at, r.held = r.held[0], r.held[1:]
		}
		return nil
	}
	n, err := binary.ReadUvarint(r.run)
	if errors.Is(err, io.EOF) {
		r.done = true
		return nil
	}
	if err != nil {
		return err
	}
	if n > mostChange {
		return errDamaged
	}
	var sum [4]byte
	b := make([]byte, n)
	if _, err := io.ReadFull(r.run, sum[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(r.run, b); err != nil {
		return err
	}
	if crc32.Checksum(b, castagnoli) != binary.LittleEndian.Uint32(sum[:]) {
		return errDamaged
	}
	return r.at.decode(b)
}

// mostChange bounds a version: pieces are not larger.
const mostChange = archive.MostFile

// Changes are sorted versions, of each key the newest.
type Changes struct {
	// Change is the version at which they are, if they are not Done.
	Change Change
	Done   bool
	from   []*reading
}

// begin goes to the first.
func (c *Changes) begin() error {
	for _, r := range c.from {
		if err := r.next(); err != nil {
			return err
		}
	}
	return c.Next()
}

// Next goes to the next version, or to the end.
func (c *Changes) Next() error {
	var best *reading
	for _, r := range c.from {
		if !r.done && (best == nil || order(&r.at, &best.at) < 0) {
			best = r
		}
	}
	if best == nil {
		c.Done = true
		return nil
	}
	c.Change = best.at
	for _, r := range c.from {
		for !r.done && bytes.Equal(r.at.PK, c.Change.PK) {
			if err := r.next(); err != nil {
				return err
			}
		}
	}
	return nil
}
