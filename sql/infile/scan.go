package infile

import (
	"io"

	"github.com/dolthub/vitess/go/mysql"
)

// mostFields is how many fields a line has at most: a few more than a table has columns.
const mostFields = 5000

// Field is a field of a line.
type Field struct {
	Text []byte
	// Null: it stands for NULL in MySQL. Enclosed: it was in quotes.
	Null, Enclosed bool
}

// Scanner divides a file into lines and fields for readers that are no LOAD DATA. It also tells
// where each line is.
type Scanner struct {
	s      *splitter
	in     *lineReader
	ends   []int // of the fields of the line at hand, in s.data
	fields []Field
	over   bool
}

// NewScanner is a scanner of a file that begins at an offset in bytes, in a line that is counted
// from 1.
func NewScanner(in io.Reader, l Layout, offset, line int64) *Scanner {
	r := &lineReader{in: in, at: offset, line: line}
	return &Scanner{s: newSplitter(r, l), in: r}
}

// Next reads a line. Its fields are valid until the next call. At the end of the file the error is
// io.EOF.
func (c *Scanner) Next() ([]Field, error) {
	s := c.s
	c.fields, c.ends, s.data = c.fields[:0], c.ends[:0], s.data[:0]
	if c.over {
		return nil, io.EOF
	}
	for s.next() {
		c.ends = append(c.ends, s.start, len(s.data))
		c.fields = append(c.fields, Field{Null: s.isNull(), Enclosed: s.enclosed})
		if len(c.fields) > mostFields {
			return nil, mysql.NewSQLError(1153, "08S01", "A line of the file has more than %d fields: look at its quotes and terminators", mostFields)
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	_, more := s.nextLine()
	if s.err != nil {
		return nil, s.err
	}
	c.over = !more
	if len(c.fields) == 0 {
		c.over = true
		return nil, io.EOF
	}
	for i := range c.fields {
		c.fields[i].Text = s.data[c.ends[2*i]:c.ends[2*i+1]]
	}
	return c.fields, nil
}

// Offset is how many bytes of the file lie before the line that Next reads next.
func (c *Scanner) Offset() int64 { return c.in.at - int64(len(c.s.buf)-c.s.at) }

// Line is the number of that line: of line feeds before it, also those in quotes.
func (c *Scanner) Line() int64 { return c.in.pass(c.Offset()) }

// lineReader notes where the lines of a file begin that was read, and not used.
type lineReader struct {
	in     io.Reader
	at     int64   // bytes that were read
	line   int64   // of what is used next
	breaks []int64 // offsets behind line feeds that were not passed
}

// Read implements io.Reader.
func (r *lineReader) Read(b []byte) (int, error) {
	n, err := r.in.Read(b)
	for i, c := range b[:n] {
		if c == '\n' {
			r.breaks = append(r.breaks, r.at+int64(i)+1)
		}
	}
	r.at += int64(n)
	return n, err
}

// pass goes on to an offset, and tells its line.
func (r *lineReader) pass(offset int64) int64 {
	n := 0
	for n < len(r.breaks) && r.breaks[n] <= offset {
		n++
	}
	r.line += int64(n)
	if r.breaks = r.breaks[n:]; len(r.breaks) == 0 {
		r.breaks = nil
	}
	return r.line
}
