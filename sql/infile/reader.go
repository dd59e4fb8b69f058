// Package infile brings the files of LOAD DATA to a form that go-mysql-server reads as MySQL reads
// the original. It splits a file at each line terminator and keeps doubled quotes doubled; MySQL
// takes a terminator inside of an enclosed field for data, and a doubled quote for one.
//
// So a [Reader] writes what stands inside of enclosed fields anew: with an escape character before
// each quote and before each byte of a terminator. What it makes of its own output is the same.
package infile

import (
	"bufio"
	"bytes"
	"io"
)

// Format is what a statement says of a file.
type Format struct {
	FieldEnd, LineEnd string
	Enclosed, Escape  byte // 0: there is none
}

// Escape is the escape character of the text that a [Reader] makes, if the file has none.
const Escape = '\\'

// Reader reads a file. Close closes it.
type Reader struct {
	in     *bufio.Reader
	file   io.Closer
	f      Format
	esc    byte
	quoted bool // within an enclosed field
	start  bool // of a field
	out    bytes.Buffer
	err    error
}

// NewReader is the reader of a file, which has enclosed fields.
func NewReader(file io.ReadCloser, f Format) *Reader {
	r := &Reader{in: bufio.NewReaderSize(file, 64<<10), file: file, f: f, esc: f.Escape, start: true}
	if r.esc == 0 {
		r.esc = Escape
	}
	return r
}

// Close implements io.Closer.
func (r *Reader) Close() error { return r.file.Close() }

// chunk is how much is made at a time, at least.
const chunk = 32 << 10

// Read implements io.Reader.
func (r *Reader) Read(p []byte) (int, error) {
	if r.out.Len() == 0 {
		r.out.Reset()
	}
	for r.err == nil && r.out.Len() < min(len(p), chunk) {
		r.err = r.step()
	}
	if r.out.Len() == 0 {
		return 0, r.err
	}
	return r.out.Read(p)
}

// step takes one byte, or a pair or terminator that belongs together.
func (r *Reader) step() error {
	c, err := r.in.ReadByte()
	if err != nil {
		return err
	}
	start := r.start
	r.start = false
	switch {
	case c == r.f.Enclosed && start:
		r.quoted = true
		r.out.WriteByte(c)
	case c == r.f.Escape && r.f.Escape != 0:
		return r.escaped()
	case c == r.f.Enclosed && r.quoted:
		r.quote()
	case r.quoted:
		r.data(c)
	case c == r.esc:
		r.literal(c)
	default:
		r.out.WriteByte(c)
		if r.begins(c, r.f.FieldEnd) {
			r.terminate(r.f.FieldEnd)
		} else if r.begins(c, r.f.LineEnd) {
			r.terminate(r.f.LineEnd)
		}
	}
	return nil
}

// data writes a byte of an enclosed field, or a whole terminator.
func (r *Reader) data(c byte) {
	switch {
	case r.begins(c, r.f.LineEnd):
		_, _ = r.in.Discard(len(r.f.LineEnd) - 1)
		for _, b := range []byte(r.f.LineEnd) {
			r.literal(b)
		}
	case c == r.esc:
		r.literal(c)
	default:
		r.out.WriteByte(c)
	}
}

// escaped passes an escape character on with what it stands before.
func (r *Reader) escaped() error {
	c, err := r.in.ReadByte()
	if err == io.EOF {
		r.out.WriteByte(r.f.Escape)
		return nil
	}
	if err != nil {
		return err
	}
	if name := named[c]; name != 0 {
		c = name
	}
	r.out.Write([]byte{r.f.Escape, c})
	return nil
}

// quote reads a quote inside of an enclosed field: one of two, the end of the field, or data.
func (r *Reader) quote() {
	q := r.f.Enclosed
	if next, err := r.in.Peek(1); err == nil && next[0] == q {
		_, _ = r.in.Discard(1)
		r.literal(q)
		return
	}
	_, err := r.in.Peek(1)
	if err == nil && !r.ahead(r.f.FieldEnd) && !r.ahead(r.f.LineEnd) {
		r.literal(q)
		return
	}
	r.quoted = false
	r.out.WriteByte(q)
}

// ahead reports whether a terminator is what comes next.
func (r *Reader) ahead(end string) bool {
	next, _ := r.in.Peek(len(end))
	return end != "" && string(next) == end
}

// begins reports whether a terminator begins with c, which was just read.
func (r *Reader) begins(c byte, end string) bool {
	return end != "" && end[0] == c && (len(end) == 1 || r.ahead(end[1:]))
}

// terminate passes on the rest of a terminator: a field begins behind it.
func (r *Reader) terminate(end string) {
	_, _ = r.in.Discard(len(end) - 1)
	r.out.WriteString(end[1:])
	r.start = true
}

// named are the bytes that have a letter of their own behind an escape character.
var named = map[byte]byte{'\n': 'n', '\r': 'r', '\t': 't', '\b': 'b', 0: '0', 26: 'Z'}

// letters are what is not itself behind an escape character.
const letters = "NZ0ntrb"

// literal writes a byte as data.
func (r *Reader) literal(c byte) {
	if name := named[c]; name != 0 {
		c = name
	} else if bytes.IndexByte([]byte(letters), c) >= 0 {
		r.out.WriteByte(c) // a terminator of letters cannot be written so
		return
	}
	r.out.Write([]byte{r.esc, c})
}
