package infile

import (
	"bytes"
	"io"

	"github.com/dolthub/vitess/go/mysql"
)

// Layout says how a file is divided into lines and fields. Lines end, and fields are separated, by
// texts; an empty one says that there is none.
type Layout struct {
	FieldEnd, LineEnd, LineStart string
	// Enclosed and Escape are bytes; -1: there is none.
	Enclosed, Escape int
}

// mostField is how long a field may be, in bytes, and how far a line is searched for its start.
const mostField = 64 << 20

// readBytes is how much is read from a file at once.
const readBytes = 256 << 10

// splitter divides a file into fields as MySQL does (sql_load.cc, READ_INFO): a quote is one only
// at the beginning of a field, and ends the field only in front of a terminator; an escape counts
// everywhere; a line ends where its last field does.
type splitter struct {
	in          io.Reader
	l           Layout
	line, field int // the first bytes of the terminators; -1: none
	special     [256]bool
	buf         []byte // buf[at:] is read and not used
	at          int
	over        bool // in is read to its end
	err         error

	before int64 // bytes of the file before buf
	// lines are those that nextLine would have found, -1: it finds none. Where there are quotes,
	// or lines begin with a text, they are others than those that are read; then buf[:counted] has
	// been looked at, escaped says that an escape was its last byte, and whole that a line ended
	// there.
	lines          int
	looks          bool
	counted        int
	escaped, whole bool

	lineOver, eof, startOfLine bool
	// data are the fields of the rows at hand, one behind the other; the last one begins at start.
	// enclosed: it was in quotes; null: it has \N in it.
	data           []byte
	start          int
	enclosed, null bool
}

func newSplitter(in io.Reader, l Layout) *splitter {
	if l.LineEnd == l.FieldEnd {
		l.LineEnd = "" // lines end where all fields are read
	}
	s := &splitter{in: in, l: l, line: first(l.LineEnd), field: first(l.FieldEnd), startOfLine: l.LineStart != "",
		looks: l.Enclosed >= 0 || l.LineStart != ""}
	if s.line < 0 {
		s.lines, s.looks = -1, false
	}
	for _, b := range []int{s.line, s.field, l.Enclosed, l.Escape} {
		if b >= 0 {
			s.special[b] = true
		}
	}
	return s
}

func first(text string) int {
	if text == "" {
		return -1
	}
	return int(text[0])
}

// fill reads until n bytes are at hand; false if the file has fewer.
func (s *splitter) fill(n int) bool {
	for len(s.buf)-s.at < n && !s.over {
		s.look()
		keep := max(s.at-2, 0) // for back
		if s.looks {
			keep = min(keep, s.counted)
		}
		s.buf = append(s.buf[:0], s.buf[keep:]...)
		s.at -= keep
		s.counted -= keep
		s.before += int64(keep)
		if room := s.at + max(n, readBytes) + 2; cap(s.buf) < room {
			s.buf = append(make([]byte, 0, room), s.buf...)
		}
		k, err := s.in.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+k]
		if err != nil {
			s.over = true
			if err != io.EOF {
				s.err = err
			}
		}
	}
	return len(s.buf)-s.at >= n
}

// look counts the ends of lines in what has been read, as nextLine would: it knows no quotes.
func (s *splitter) look() {
	for end := s.l.LineEnd; s.looks && s.counted < s.at; s.counted++ {
		c := int(s.buf[s.counted])
		s.whole = false
		switch {
		case s.escaped:
			s.escaped = false
		case c == s.l.Escape:
			s.escaped = true
		case c != s.line:
		case s.counted+len(end) > s.at:
			return // the rest of it has not been read
		case string(s.buf[s.counted:s.counted+len(end)]) == end:
			s.lines, s.whole = s.lines+1, true
			s.counted += len(end) - 1
		}
	}
}

// Place is a place in a file, where a line begins: behind how many bytes and lines. Lines are those
// of IGNORE n LINES; -1: that does not lead there.
type Place struct {
	Bytes int64
	Lines int
}

// place is where the next line begins. n lines have been read since it was asked last.
func (s *splitter) place(n int) Place {
	p := Place{Bytes: s.before + int64(s.at)}
	switch s.look(); {
	case !s.looks && s.lines >= 0:
		s.lines += n
	case !s.whole || s.counted != s.at:
		p.Lines = -1
		return p
	}
	p.Lines = s.lines
	return p
}

// get is the next byte; -1 at the end. back takes it back.
func (s *splitter) get() int {
	if s.at == len(s.buf) && !s.fill(1) {
		return -1
	}
	s.at++
	return int(s.buf[s.at-1])
}

func (s *splitter) back() { s.at-- }

// ends reports whether a terminator, whose first byte has been read, is there, and goes behind it.
func (s *splitter) ends(c, begins int, text string) bool {
	if c != begins || begins < 0 {
		return false
	}
	rest := text[1:]
	if rest != "" && (!s.fill(len(rest)) || string(s.buf[s.at:s.at+len(rest)]) != rest) {
		return false
	}
	s.at += len(rest)
	return true
}

// next reads the next field of the line; false if there is none.
func (s *splitter) next() bool {
	s.null, s.enclosed, s.start = false, false, len(s.data)
	if s.lineOver {
		return false
	}
	if s.startOfLine {
		s.startOfLine = false
		if !s.findStart() {
			return false
		}
	}
	quote := -2
	switch c := s.get(); {
	case c < 0:
		s.lineOver, s.eof = true, true
		return false
	case c == s.l.Enclosed:
		quote = c
		s.data = append(s.data, byte(c))
	default:
		s.back()
	}
	for s.err == nil {
		s.run()
		c := s.get()
		if c < 0 {
			break
		}
		if s.step(c, quote) {
			return true
		}
	}
	s.lineOver, s.eof = true, true
	return s.err == nil
}

// run takes bytes that mean nothing.
func (s *splitter) run() {
	i := s.at
	for i < len(s.buf) && !s.special[s.buf[i]] {
		i++
	}
	s.data = append(s.data, s.buf[s.at:i]...)
	if s.at = i; len(s.data)-s.start > mostField {
		s.err = mysql.NewSQLError(1153, "08S01", "A field of the file is longer than %d bytes: look at its quotes and terminators", mostField)
	}
}

// step takes a byte; over says that the field ends.
func (s *splitter) step(c, quote int) (over bool) {
	if c == s.l.Escape {
		d := s.get()
		if d < 0 {
			s.data = append(s.data, byte(c))
			return false
		}
		// An escape that is the quote, too, stands for itself where it is doubled.
		if c != s.l.Enclosed || d == c {
			s.data = append(s.data, s.unescaped(byte(d)))
			return false
		}
		s.back()
	}
	switch {
	case c == quote:
		return s.quoted(c)
	case quote < 0 && s.ends(c, s.line, s.l.LineEnd):
		s.lineOver = true
		return true
	case quote < 0 && s.ends(c, s.field, s.l.FieldEnd):
		return true
	}
	s.data = append(s.data, byte(c))
	return false
}

// quoted takes a quote within quotes.
func (s *splitter) quoted(quote int) (over bool) {
	d := s.get()
	switch {
	case d == quote:
		s.data = append(s.data, byte(quote))
		return false
	case d < 0 || s.ends(d, s.line, s.l.LineEnd):
		s.lineOver = true
	case !s.ends(d, s.field, s.l.FieldEnd):
		s.back()
		s.data = append(s.data, byte(quote))
		return false
	}
	s.enclosed = true
	s.start++ // the quote before
	return true
}

// unescaped is what an escape and a byte stand for.
func (s *splitter) unescaped(c byte) byte {
	if c == 'N' {
		s.null = true
	}
	return Unescaped(c)
}

// Unescaped is what a byte behind a backslash stands for, in files and in strings.
func Unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case 'b':
		return '\b'
	case '0':
		return 0
	case 'Z':
		return 26
	}
	return c
}

// isNull reports whether the last field stands for NULL.
func (s *splitter) isNull() bool {
	f := s.data[s.start:]
	return s.null && len(f) == 1 || !s.enclosed && s.l.Enclosed >= 0 && string(f) == "NULL"
}

// findStart goes behind the text that lines start with.
func (s *splitter) findStart() bool {
	text := []byte(s.l.LineStart)
	for s.fill(len(text)) {
		if i := bytes.Index(s.buf[s.at:], text); i >= 0 {
			s.at += i + len(text)
			return true
		}
		s.at = len(s.buf) - len(text) + 1
	}
	s.at = len(s.buf)
	s.lineOver, s.eof = true, true
	return false
}

// nextLine goes to the next line; false at the end of the file. cut: there was more in this one.
func (s *splitter) nextLine() (cut, ok bool) {
	s.startOfLine = s.l.LineStart != ""
	if s.lineOver || s.eof {
		s.lineOver = false
		return false, !s.eof
	}
	if s.line < 0 {
		return false, true
	}
	for {
		switch c := s.get(); {
		case c < 0:
			s.eof = true
			return cut, false
		case c == s.l.Escape:
			cut = true
			if s.get() < 0 {
				s.eof = true
				return cut, false
			}
		case s.ends(c, s.line, s.l.LineEnd):
			return cut, true
		default:
			cut = true
		}
	}
}
