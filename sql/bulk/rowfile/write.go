package rowfile

import (
	"bytes"
	"fmt"
	"io"
	"strings"
)

// Type is what a column of a written file holds.
type Type int

// The types of columns.
const (
	Text Type = iota
	Bytes
	JSON
	Int
	Uint
	Decimal
	Float
	Double
	Date
	DateTime  // without a time zone
	Timestamp // in UTC
)

// Column is a column of a written file.
type Column struct {
	Name string
	Type Type
	// Precision and Scale are those of a Decimal.
	Precision, Scale int
}

// Writer writes rows to a file.
type Writer interface {
	// Write writes a row; nil is NULL. Values are valid until it returns.
	Write([][]byte) error
	// Close ends the file.
	Close() error
	// Buffered is about how many bytes wait to be written.
	Buffered() int64
}

// Compressions are those that a kind of files may have when it is written.
var Compressions = map[Kind][]string{CSV: {"", Gzip, Zstd}, Parquet: {"", "snappy", Gzip, Zstd}}

// Create begins a file.
func Create(w io.Writer, f *Format, cols []Column) (Writer, error) {
	if f.Kind == Parquet {
		return createParquet(w, f.Compression, cols)
	}
	z, err := packing(w, f.Compression)
	if err != nil {
		return nil, err
	}
	c := &csvWriter{f: *f, z: z, cols: cols}
	if c.f.LineEnd == "" {
		c.f.LineEnd = "\n"
	}
	for _, s := range []string{c.f.FieldEnd, c.f.LineEnd, c.f.Enclosed, c.f.Escape} {
		if s != "" {
			c.special += s[:1]
		}
	}
	if f.Header {
		names := make([][]byte, len(cols))
		for i, col := range cols {
			names[i] = []byte(col.Name)
		}
		err = c.line(names, func(int) Type { return Text })
	}
	return c, err
}

// csvWriter writes CSV that csvReader reads with the same format.
type csvWriter struct {
	f       Format
	z       io.WriteCloser
	cols    []Column
	special string
	buf     bytes.Buffer
}

// csvBuffer is how much is written at once.
const csvBuffer = 64 << 10

// Write implements Writer.
func (c *csvWriter) Write(row [][]byte) error {
	return c.line(row, func(i int) Type { return c.cols[i].Type })
}

// Buffered implements Writer.
func (c *csvWriter) Buffered() int64 { return int64(c.buf.Len()) }

// Close implements Writer.
func (c *csvWriter) Close() error {
	if err := c.flush(); err != nil {
		return err
	}
	return c.z.Close()
}

func (c *csvWriter) flush() error {
	_, err := c.z.Write(c.buf.Bytes())
	c.buf.Reset()
	return err
}

func (c *csvWriter) line(row [][]byte, of func(int) Type) error {
	for i, v := range row {
		if i > 0 {
			c.buf.WriteString(c.f.FieldEnd)
		}
		if err := c.field(v, of(i)); err != nil {
			return fmt.Errorf("column %q: %w", c.cols[i].Name, err)
		}
	}
	c.buf.WriteString(c.f.LineEnd)
	if c.buf.Len() < csvBuffer {
		return nil
	}
	return c.flush()
}

func (c *csvWriter) field(v []byte, t Type) error {
	if v == nil {
		c.buf.WriteString(c.f.Null)
		return nil
	}
	means := bytes.ContainsAny(v, c.special) || string(v) == c.f.Null
	switch {
	case c.f.Enclosed != "" && (means || t == Text || t == Bytes || t == JSON):
		c.enclosed(v)
	case !means:
		c.buf.Write(v)
	case c.f.Escape == "" || !bytes.ContainsAny(v, c.special):
		return fmt.Errorf("a value looks like NULL, or has a terminator in it: name fields_enclosed_by, or other texts")
	default:
		c.plain(v)
	}
	return nil
}

// enclosed writes a value in quotes.
func (c *csvWriter) enclosed(v []byte) {
	c.buf.WriteString(c.f.Enclosed)
	for _, b := range v {
		if c.f.Escape != "" && b == c.f.Escape[0] {
			c.buf.WriteString(c.f.Escape)
		} else if b == c.f.Enclosed[0] {
			c.buf.WriteString(c.f.Enclosed)
		}
		c.buf.WriteByte(b)
	}
	c.buf.WriteString(c.f.Enclosed)
}

// plain writes a value without quotes, and an escape before each byte that means something.
func (c *csvWriter) plain(v []byte) {
	for _, b := range v {
		if strings.IndexByte(c.special, b) >= 0 {
			c.buf.WriteString(c.f.Escape)
			b = lettered(b)
		}
		c.buf.WriteByte(b)
	}
}

// lettered is what stands behind an escape for a byte that has a letter.
func lettered(b byte) byte {
	switch b {
	case '\n':
		return 'n'
	case '\t':
		return 't'
	case '\r':
		return 'r'
	}
	return b
}
