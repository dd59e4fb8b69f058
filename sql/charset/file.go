package charset

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"golang.org/x/text/transform"
)

// ErrWide is the error of a file in a set whose characters all have two bytes and more: MySQL reads
// no such files, either.
var ErrWide = mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'files in ucs2, utf16, utf16le and "+
	"utf32': convert the file to UTF-8 before (iconv), and say CHARACTER SET utf8mb4")

// OfFile is the set of a file by its name; nil for UTF-8, and for bytes that are taken as they are.
// Errors: 1115 for an unknown name, 1235 for a set that is not known here.
func OfFile(name string) (*Set, error) {
	switch name = strings.ToLower(name); name {
	case "", "utf8", "utf8mb3", "utf8mb4", "binary":
		return nil, nil
	case "ucs2", "utf16", "utf16le", "utf32":
		return nil, ErrWide
	}
	id, err := sql.ParseCharacterSet(name)
	if err != nil {
		return nil, mysql.NewSQLError(1115, "42000", "Unknown character set: '%s'", name)
	}
	s, ok := Of(id)
	if !ok {
		return nil, mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'files in %s': "+
			"convert the file to UTF-8 before (iconv), and say CHARACTER SET utf8mb4", name)
	}
	return s, nil
}

// Name is the name of the set; empty for UTF-8.
func (s *Set) Name() string {
	if s == nil {
		return ""
	}
	return s.id.Name()
}

// File is a file of the set in UTF-8. Reading ends with error 1300 where there is no text in it.
func (s *Set) File(file io.ReadCloser) io.ReadCloser {
	if s == nil {
		return file
	}
	d := &decoded{file: file, set: s, in: make([]byte, 0, decodeBytes)}
	if s.to != nil {
		d.dec = s.to.NewDecoder()
	}
	return d
}

// decodeBytes is how much of a file is decoded at once.
const decodeBytes = 32 << 10

// decoded is a file in UTF-8.
type decoded struct {
	file io.ReadCloser
	set  *Set
	dec  transform.Transformer // nil: each byte is a character
	in   []byte                // that was read, and not decoded: at most a part of a character after a read
	out  []byte                // that was decoded, and not taken
	room []byte                // of out
	err  error                 // of the file
}

// Close implements io.Closer.
func (d *decoded) Close() error { return d.file.Close() }

// Read implements io.Reader.
func (d *decoded) Read(p []byte) (int, error) {
	for len(d.out) == 0 {
		if d.err != nil {
			return 0, d.err
		}
		n, err := d.file.Read(d.in[len(d.in):cap(d.in)])
		d.in, d.err = d.in[:len(d.in)+n], err
		if bad := d.decode(err != nil); bad != nil {
			d.err = bad
		}
	}
	n := copy(p, d.out)
	d.out = d.out[n:]
	return n, nil
}

// decode makes UTF-8 of what was read; last: nothing follows it.
func (d *decoded) decode(last bool) error {
	if d.dec == nil {
		text, err := d.set.Decode(string(d.in))
		d.out, d.in = append(d.room[:0], text...), d.in[:0]
		d.room = d.out
		return err
	}
	if d.room == nil {
		d.room = make([]byte, 4*decodeBytes) // no byte of these sets becomes more than four
	}
	n, used, err := d.dec.Transform(d.room, d.in, last)
	d.out = d.room[:n]
	d.in = d.in[:copy(d.in, d.in[used:])]
	if errors.Is(err, transform.ErrShortSrc) && !last {
		err = nil // the rest of a character has not been read
	}
	if at := bytes.Index(d.out, []byte("\uFFFD")); err != nil || at >= 0 {
		if at >= 0 {
			d.out = d.out[:at] // the lines before it are told as they are
		}
		return mysql.NewSQLError(1300, "HY000", "Invalid %s character string in the file", d.set.id.Name())
	}
	return nil
}
