package rowfile

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/sql/infile"
)

// Bounds of what is kept of a dump.
const (
	mostValue  = 64 << 20 // bytes of a value
	mostName   = 512      // bytes of a name
	mostValues = 5000     // values of a row
)

// dump reads the rows of INSERT and REPLACE statements, as mysqldump writes them. Other statements
// are left out, and so are rows of other tables. Values are literals: what would have to be
// computed is refused.
type dump struct {
	f      *Format
	in     io.ReadCloser
	b      *bufio.Reader
	at     Position
	column int64 // in bytes, of what is read next
	buf    []byte
	ends   []int  // of the fields in buf; -1 of one that is NULL
	bytes  []bool // which are no numbers
	others []string
	found  bool
}

func openDump(ctx context.Context, in Source, f *Format, at Position) (Reader, error) {
	r, err := plain(ctx, in, f.Compression, at.Offset)
	if err != nil {
		return nil, err
	}
	d := &dump{f: f, in: r, b: bufio.NewReaderSize(r, 64<<10), at: at, column: 1, found: at.Inside}
	if at.Line == 0 {
		d.at.Line = 1
	}
	return d, nil
}

// Position implements Reader.
func (d *dump) Position() Position { return d.at }

// Close implements Reader.
func (d *dump) Close() error { return d.in.Close() }

// bad is what is wrong where the dump is.
func (d *dump) bad(format string, args ...any) error {
	return &BadError{Line: d.at.Line, Column: d.column, Why: fmt.Sprintf(format, args...)}
}

// peek is the byte n behind the next one; 0 at the end of the file.
func (d *dump) peek(n int) byte {
	b, _ := d.b.Peek(n + 1)
	if len(b) <= n {
		return 0
	}
	return b[n]
}

// get is the next byte.
func (d *dump) get() (byte, error) {
	c, err := d.b.ReadByte()
	if err != nil {
		if err != io.EOF {
			err = d.bad("%v", err)
		}
		return 0, err
	}
	d.at.Offset++
	if d.column++; c == '\n' {
		d.at.Line, d.column = d.at.Line+1, 1
	}
	return c, nil
}

// need is the next byte of what must go on.
func (d *dump) need(what string) (byte, error) {
	c, err := d.get()
	if err == io.EOF {
		err = d.bad("the file ends within %s", what)
	}
	return c, err
}

// skip leaves out n bytes, which are there.
func (d *dump) skip(n int) error {
	for range n {
		if _, err := d.get(); err != nil {
			return err
		}
	}
	return nil
}

// space skips white space and comments. io.EOF: nothing is behind them.
func (d *dump) space() error {
	for {
		c, err := d.peek(0), error(nil)
		switch {
		case strings.IndexByte(" \t\r\n", c) >= 0:
			_, err = d.get()
		case c == '#' || c == '-' && d.peek(1) == '-' && d.peek(2) <= ' ':
			err = d.until("\n")
		case c == '/' && d.peek(1) == '*':
			err = d.comment()
		case c == 0 && d.over():
			_, err = d.get()
		default:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// over reports whether there is no byte any more, or none that can be read.
func (d *dump) over() bool {
	_, err := d.b.Peek(1)
	return err != nil
}

// comment skips a comment. What servers of a version are to execute does no harm unread: mysqldump
// has no rows there.
func (d *dump) comment() error {
	if err := d.skip(2); err != nil {
		return err
	}
	if err := d.until("*/"); err == io.EOF {
		return d.bad("the file ends within a comment")
	} else if err != nil {
		return err
	}
	return nil
}

// until goes behind a text of one or two bytes.
func (d *dump) until(end string) error {
	for {
		c, err := d.get()
		if err != nil {
			return err
		}
		if c == end[0] && (len(end) == 1 || d.peek(0) == end[1]) {
			return d.skip(len(end) - 1)
		}
	}
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// word takes a word; "" if there is none.
func (d *dump) word() (string, error) {
	var w []byte
	for wordByte(d.peek(0)) {
		c, err := d.get()
		if err != nil {
			return "", err
		}
		if w = append(w, c); len(w) > mostName {
			return "", d.bad("a word has more than %d bytes", mostName)
		}
	}
	return string(w), nil
}

// name takes a name, with or without quotes.
func (d *dump) name() (string, error) {
	if err := d.space(); err != nil {
		return "", d.ended(err, "a statement")
	}
	q := d.peek(0)
	if q != '`' && q != '"' {
		w, err := d.word()
		if err == nil && w == "" {
			err = d.bad("a name is expected")
		}
		return w, err
	}
	if _, err := d.get(); err != nil {
		return "", err
	}
	var w []byte
	for {
		c, err := d.need("a name")
		if err != nil {
			return "", err
		}
		if c == q {
			if d.peek(0) != q {
				return string(w), nil
			}
			if _, err := d.get(); err != nil {
				return "", err
			}
		}
		if w = append(w, c); len(w) > mostName {
			return "", d.bad("a name has more than %d bytes", mostName)
		}
	}
}

// ended is the error of a file that ends within something.
func (d *dump) ended(err error, what string) error {
	if err == io.EOF {
		return d.bad("the file ends within %s", what)
	}
	return err
}

// Next implements Reader.
func (d *dump) Next(rec *Record) error {
	for !d.at.Inside {
		if err := d.statement(); err != nil {
			if err == io.EOF && !d.found && len(d.others) > 0 {
				return &BadError{Why: fmt.Sprintf("the file has no INSERT of a table %q, but of %s: a dump is read for one table of the same name",
					d.f.Table, strings.Join(d.others, ", "))}
			}
			return err
		}
	}
	if err := d.space(); err != nil {
		return d.ended(err, "an INSERT")
	}
	rec.Line = d.at.Line
	if err := d.row(); err != nil {
		return err
	}
	if d.at.Columns != nil && len(d.ends) != len(d.at.Columns) {
		return d.bad("a row has %d values for %d columns", len(d.ends), len(d.at.Columns))
	}
	rec.Columns, rec.Fields = d.at.Columns, rec.Fields[:0]
	from := 0
	for i, end := range d.ends {
		if end < 0 {
			rec.Fields = append(rec.Fields, Field{Null: true})
			continue
		}
		rec.Fields = append(rec.Fields, Field{Text: d.buf[from:end], Bytes: d.bytes[i]})
		from = end
	}
	d.at.Row++
	return d.behind()
}

// behind goes to the next row, or behind the statement.
func (d *dump) behind() error {
	err := d.space()
	if err == nil {
		switch d.peek(0) {
		case ',':
			return d.skip(1)
		case ';':
			err = d.skip(1)
		default:
			return d.bad("a comma or a semicolon is expected behind a row: what is computed, and ON DUPLICATE KEY, cannot be read")
		}
	}
	d.at.Inside = false
	if err == io.EOF { // the last statement needs no semicolon
		err = nil
	}
	return err
}

// statement reads up to the first row of an INSERT, or goes behind another statement.
func (d *dump) statement() error {
	if err := d.space(); err != nil {
		return err
	}
	if d.peek(0) == ';' {
		return d.skip(1)
	}
	w, err := d.word()
	if err != nil {
		return err
	}
	switch strings.ToUpper(w) {
	case "INSERT", "REPLACE":
		return d.insert()
	case "SET":
		return d.set()
	}
	return d.rest()
}

// set looks whether a SET takes the escapes out of strings.
func (d *dump) set() error {
	d.buf = d.buf[:0]
	if err := d.pass(func(c byte) { d.buf = append(d.buf, c) }); err != nil && err != io.EOF {
		return err
	}
	if text := strings.ToUpper(string(d.buf)); strings.Contains(text, "NO_BACKSLASH_ESCAPES") {
		return d.bad("the dump was written with NO_BACKSLASH_ESCAPES, which cannot be read")
	}
	return nil
}

// rest goes behind a statement.
func (d *dump) rest() error { return d.pass(func(byte) {}) }

// pass goes behind a statement, and tells its first bytes.
func (d *dump) pass(tell func(byte)) error {
	const most = 4096
	for n := 0; ; n++ {
		if err := d.space(); err != nil {
			return err
		}
		c := d.peek(0)
		switch c {
		case '\'', '"', '`':
			if err := d.quoted(c != '`', func(b byte) {
				if n++; n < most {
					tell(b)
				}
			}); err != nil {
				return err
			}
			continue
		}
		if _, err := d.get(); err != nil {
			return err
		}
		if c == ';' {
			return nil
		}
		if n < most {
			tell(c)
		}
	}
}

// insert reads an INSERT up to its first row.
func (d *dump) insert() error {
	var name string
	for {
		if err := d.space(); err != nil {
			return d.ended(err, "an INSERT")
		}
		quoted := !wordByte(d.peek(0))
		w, err := d.name()
		if err != nil {
			return err
		}
		if !quoted && slices.Contains([]string{"INTO", "IGNORE", "LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY"}, strings.ToUpper(w)) {
			continue
		}
		name = w
		break
	}
	if err := d.space(); err != nil {
		return d.ended(err, "an INSERT")
	}
	if d.peek(0) == '.' {
		if err := d.skip(1); err != nil {
			return err
		}
		var err error
		if name, err = d.name(); err != nil {
			return err
		}
	}
	if !strings.EqualFold(name, d.f.Table) {
		if !slices.Contains(d.others, name) && len(d.others) < 10 {
			d.others = append(d.others, name)
		}
		return d.rest()
	}
	d.found = true
	cols, err := d.columns()
	if err != nil {
		return err
	}
	if slices.Equal(cols, d.at.Columns) {
		cols = d.at.Columns // the same slice
	}
	d.at.Columns, d.at.Inside = cols, true
	return nil
}

// columns reads the list of an INSERT, if there is one, and VALUES.
func (d *dump) columns() (cols []string, err error) {
	if err = d.space(); err != nil {
		return nil, d.ended(err, "an INSERT")
	}
	if d.peek(0) == '(' {
		for c := byte(','); c == ','; {
			if _, err = d.get(); err != nil {
				return nil, err
			}
			name, err := d.name()
			if err != nil {
				return nil, err
			}
			if cols = append(cols, name); len(cols) > mostValues {
				return nil, d.bad("more than %d columns", mostValues)
			}
			if err := d.space(); err != nil {
				return nil, d.ended(err, "an INSERT")
			}
			c = d.peek(0)
		}
		if c, err := d.need("an INSERT"); err != nil || c != ')' {
			return nil, d.bad("a parenthesis is expected behind the columns")
		}
	}
	if err = d.space(); err != nil {
		return nil, d.ended(err, "an INSERT")
	}
	w, err := d.word()
	if err == nil && !strings.EqualFold(w, "VALUES") && !strings.EqualFold(w, "VALUE") {
		err = d.bad("VALUES is expected: INSERT ... SELECT and INSERT ... SET cannot be read")
	}
	return cols, err
}

// row reads the values of a row.
func (d *dump) row() error {
	d.buf, d.ends, d.bytes = d.buf[:0], d.ends[:0], d.bytes[:0]
	if c, err := d.need("an INSERT"); err != nil {
		return err
	} else if c != '(' {
		return d.bad("a parenthesis is expected before a row")
	}
	for {
		if err := d.space(); err != nil {
			return d.ended(err, "a row")
		}
		if err := d.value(); err != nil {
			return err
		}
		if len(d.ends) > mostValues {
			return d.bad("a row has more than %d values", mostValues)
		}
		if err := d.space(); err != nil {
			return d.ended(err, "a row")
		}
		switch c, err := d.need("a row"); {
		case err != nil:
			return err
		case c == ')':
			return nil
		case c != ',':
			return d.bad("a comma or a parenthesis is expected behind a value: only literals can be read")
		}
	}
}

var truth = map[string]string{"TRUE": "1", "FALSE": "0"}

// value reads a literal.
func (d *dump) value() error {
	c := d.peek(0)
	switch {
	case c == '\'' || c == '"':
		return d.text()
	case strings.IndexByte("-+.0123456789", c) >= 0:
		return d.number()
	}
	w, err := d.word()
	if err != nil {
		return err
	}
	next := d.peek(0)
	switch up := strings.ToUpper(w); {
	case up == "NULL":
		d.ends, d.bytes = append(d.ends, -1), append(d.bytes, false)
		return nil
	case up == "TRUE" || up == "FALSE":
		d.add(truth[up])
		return nil
	case next == '\'' && up == "X":
		return d.bits(true)
	case next == '\'' && up == "B":
		return d.bits(false)
	case strings.HasPrefix(w, "_"):
		return d.introduced(up)
	}
	return d.bad("%q is no value that can be read: only literals can", w)
}

// introduced reads a literal behind the name of a character set.
func (d *dump) introduced(set string) error {
	switch set {
	case "_BINARY", "_UTF8", "_UTF8MB3", "_UTF8MB4", "_ASCII":
	default:
		return d.bad("texts of the character set %s cannot be read", strings.ToLower(set[1:]))
	}
	if err := d.space(); err != nil {
		return d.ended(err, "a row")
	}
	switch c := d.peek(0); {
	case c == '\'' || c == '"':
		return d.text()
	case c == '0':
		return d.number()
	case c|0x20 == 'x' || c|0x20 == 'b':
		return d.value()
	}
	return d.bad("a text is expected behind %s", strings.ToLower(set))
}

func (d *dump) add(text string) {
	d.buf = append(d.buf, text...)
	d.end(false)
}

// end ends the field that was put at the end of buf.
func (d *dump) end(bytes bool) {
	d.ends, d.bytes = append(d.ends, len(d.buf)), append(d.bytes, bytes)
}

// text reads a string, and those next to it.
func (d *dump) text() error {
	begin := len(d.buf)
	for {
		long := false
		if err := d.quoted(true, func(c byte) {
			if d.buf = append(d.buf, c); len(d.buf)-begin > mostValue {
				d.buf, long = d.buf[:begin], true
			}
		}); err != nil {
			return err
		}
		if long {
			return d.bad("a value has more than %d bytes", mostValue)
		}
		if err := d.space(); err != nil {
			return d.ended(err, "a row")
		}
		if c := d.peek(0); c != '\'' && c != '"' {
			d.end(true)
			return nil
		}
	}
}

// quoted reads what is in quotes, and tells its bytes.
func (d *dump) quoted(escapes bool, tell func(byte)) error {
	q, err := d.get()
	if err != nil {
		return err
	}
	for {
		c, err := d.need("quotes")
		if err != nil {
			return err
		}
		switch {
		case c == '\\' && escapes:
			if c, err = d.need("quotes"); err != nil {
				return err
			}
			if c == '%' || c == '_' {
				tell('\\')
			}
			c = infile.Unescaped(c)
		case c == q && d.peek(0) == q:
			if _, err = d.get(); err != nil {
				return err
			}
		case c == q:
			return nil
		}
		tell(c)
	}
}

var aNumber = regexp.MustCompile(`^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$`)

// number reads a number, or bytes as 0x and digits.
func (d *dump) number() error {
	if d.peek(0) == '0' && d.peek(1) == 'x' {
		if err := d.skip(2); err != nil {
			return err
		}
		return d.digits(func() (bool, error) { return wordByte(d.peek(0)), nil })
	}
	begin := len(d.buf)
	for c := d.peek(0); c == '-' || c == '+' || c == '.' || wordByte(c); c = d.peek(0) {
		if _, err := d.get(); err != nil {
			return err
		}
		if d.buf = append(d.buf, c); len(d.buf)-begin > mostName {
			return d.bad("a number has more than %d digits", mostName)
		}
	}
	if !aNumber.Match(d.buf[begin:]) {
		return d.bad("%q is no number", d.buf[begin:])
	}
	d.end(false)
	return nil
}

// bits reads x'...' or b'...', behind its letter.
func (d *dump) bits(hexadecimal bool) error {
	if err := d.skip(1); err != nil {
		return err
	}
	more := func() (bool, error) {
		if d.peek(0) != '\'' {
			if _, err := d.b.Peek(1); err != nil {
				return false, d.bad("the file ends within quotes")
			}
			return true, nil
		}
		return false, d.skip(1)
	}
	if hexadecimal {
		return d.digits(more)
	}
	var n uint64
	for i := 0; ; i++ {
		ok, err := more()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		c, err := d.get()
		if err != nil {
			return err
		}
		if c != '0' && c != '1' || i >= 64 {
			return d.bad("a bit value has other digits than 0 and 1, or more than 64")
		}
		n = n<<1 | uint64(c-'0')
	}
	d.buf = binary.BigEndian.AppendUint64(d.buf, n)
	d.end(true)
	return nil
}

// digits reads hexadecimal digits, while there are more.
func (d *dump) digits(more func() (bool, error)) error {
	begin := len(d.buf)
	for {
		ok, err := more()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		c, err := d.get()
		if err != nil {
			return err
		}
		if d.buf = append(d.buf, c); len(d.buf)-begin > 2*mostValue {
			return d.bad("a value has more than %d bytes", mostValue)
		}
	}
	text := d.buf[begin:]
	if len(text)%2 == 1 {
		text = append([]byte{'0'}, text...)
	}
	n, err := hex.Decode(text, text)
	if err != nil {
		return d.bad("%.20q are no hexadecimal digits", d.buf[begin:])
	}
	d.buf = append(d.buf[:begin], text[:n]...)
	d.end(true)
	return nil
}
