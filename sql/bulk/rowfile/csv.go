package rowfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/infile"
)

// csvReader reads CSV as LOAD DATA does (package infile).
type csvReader struct {
	f    *Format
	in   io.ReadCloser
	c    *infile.Scanner
	at   Position
	null []byte
	any  bool // a field that is not enclosed is NULL if it is null
}

// peeked is how far the first line is searched for its end.
const peeked = 64 << 10

// layout is how the file is divided. crlf says that its first line ends so.
func (f *Format) layout(crlf bool) infile.Layout {
	l := infile.Layout{FieldEnd: f.FieldEnd, LineEnd: f.LineEnd, Enclosed: -1, Escape: -1}
	if l.LineEnd == "" {
		l.LineEnd = "\n"
		if crlf {
			l.LineEnd = "\r\n"
		}
	}
	if f.Enclosed != "" {
		l.Enclosed = int(f.Enclosed[0])
	}
	if f.Escape != "" {
		l.Escape = int(f.Escape[0])
	}
	return l
}

func openCSV(ctx context.Context, in Source, f *Format, at Position) (Reader, error) {
	crlf := false
	if f.LineEnd == "" {
		begin, err := plain(ctx, in, f.Compression, 0)
		if err != nil {
			return nil, err
		}
		b := make([]byte, peeked)
		n, err := io.ReadFull(begin, b)
		if cerr := begin.Close(); err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
			return nil, errors.Join(err, cerr)
		}
		i := bytes.IndexByte(b[:n], '\n')
		crlf = i > 0 && b[i-1] == '\r'
	}
	r := &csvReader{f: f, at: at, null: []byte(f.Null), any: f.Null != `\N` || f.Escape == ""}
	if at.Line == 0 {
		r.at.Line = 1
	}
	var err error
	if r.in, err = plain(ctx, in, f.Compression, at.Offset); err != nil {
		return nil, err
	}
	var from io.Reader = r.in
	if at.Line == 0 {
		from, r.at.Offset, err = withoutMark(r.in)
	}
	r.c = infile.NewScanner(from, f.layout(crlf), r.at.Offset, r.at.Line)
	if err == nil && at.Line == 0 {
		err = r.begin()
	}
	if err != nil {
		r.in.Close()
		return nil, err
	}
	return r, nil
}

// byteOrderMark is what some programs begin a UTF-8 file with.
const byteOrderMark = "\xef\xbb\xbf"

// withoutMark leaves out a byte order mark, and says how many bytes that are.
func withoutMark(in io.Reader) (io.Reader, int64, error) {
	b := make([]byte, len(byteOrderMark))
	n, err := io.ReadFull(in, b)
	switch {
	case string(b[:n]) == byteOrderMark:
		return in, int64(n), nil
	case err != nil && err != io.EOF && err != io.ErrUnexpectedEOF:
		return nil, 0, err
	}
	return io.MultiReader(bytes.NewReader(b[:n]), in), 0, nil
}

// begin reads what comes before the rows.
func (r *csvReader) begin() error {
	for i := int64(0); i < r.f.Skip; i++ {
		if _, err := r.line(); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
	}
	if !r.f.Header {
		return nil
	}
	line := r.at.Line
	fs, err := r.line()
	if err == io.EOF {
		return &BadError{Line: line, Why: "the file has no header"}
	}
	if err != nil {
		return err
	}
	for _, f := range fs {
		r.at.Header = append(r.at.Header, string(f.Text))
	}
	for i, name := range r.at.Header {
		if name == "" || slices.Contains(r.at.Header[:i], name) {
			return &BadError{Line: line, Why: fmt.Sprintf("field %d of the header, %q, is no name of a column, or is there twice", i+1, name)}
		}
	}
	return nil
}

// line reads a line.
func (r *csvReader) line() ([]infile.Field, error) {
	fs, err := r.c.Next()
	var me *mysql.SQLError
	if errors.As(err, &me) {
		return nil, &BadError{Line: r.at.Line, Why: me.Message}
	}
	if err != nil && err != io.EOF {
		return nil, &BadError{Line: r.at.Line, Why: err.Error()}
	}
	r.at.Offset, r.at.Line = r.c.Offset(), r.c.Line()
	return fs, err
}

// Next implements Reader. Lines without any byte are left out, unless rows have one field.
func (r *csvReader) Next(rec *Record) error {
	for {
		rec.Line = r.at.Line
		fs, err := r.line()
		if err != nil {
			return err
		}
		rec.Columns, rec.Fields = r.at.Header, rec.Fields[:0]
		if len(fs) == 1 && len(fs[0].Text) == 0 && !fs[0].Enclosed && !r.f.Single && len(r.at.Header) != 1 {
			continue
		}
		for _, f := range fs {
			null := f.Null && (f.Enclosed || string(f.Text) != "NULL")
			if r.any && !f.Enclosed && bytes.Equal(f.Text, r.null) {
				null = true
			}
			rec.Fields = append(rec.Fields, Field{Text: f.Text, Null: null})
		}
		r.at.Row++
		return nil
	}
}

// Position implements Reader.
func (r *csvReader) Position() Position { return r.at }

// Close implements Reader.
func (r *csvReader) Close() error { return r.in.Close() }
