// Package phrase reads statements that are Godwit's own, from the left: keywords, names, texts and
// numbers. The parsers of SQL know none of them.
package phrase

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/godwitdb/godwit/sql/schema"
)

// Reader reads a statement. After the first error it reads nothing more.
type Reader struct {
	Rest string // what is not read yet
	Err  error
}

// Fail notes that something else is expected here; want may be empty. The error shows nothing of
// what is in quotes, which may be a password.
func (p *Reader) Fail(want string) {
	if p.Err != nil {
		return
	}
	near := strings.TrimSpace(p.Rest)
	if i := strings.IndexAny(near, "'\""); i >= 0 {
		near = near[:i] + "..."
	}
	if len(near) > 60 {
		near = near[:60] + "..."
	}
	if want != "" {
		want = ": " + want + " is expected there"
	}
	p.Wrong("the statement cannot be read near %q%s", near, want)
}

// Wrong notes an error in what was read.
func (p *Reader) Wrong(format string, args ...any) {
	if p.Err == nil {
		p.Err = schema.Invalid(fmt.Sprintf(format, args...))
	}
}

// Space skips white space.
func (p *Reader) Space() { p.Rest = strings.TrimLeft(p.Rest, " \t\r\n") }

// IsWord reports whether a byte may be a part of a name without backticks.
func IsWord(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// Is reports whether a keyword comes next.
func (p *Reader) Is(w string) bool {
	p.Space()
	n := len(w)
	return p.Err == nil && len(p.Rest) >= n && strings.EqualFold(p.Rest[:n], w) && (len(p.Rest) == n || !IsWord(p.Rest[n]))
}

// Word takes a keyword if it comes next.
func (p *Reader) Word(w string) bool {
	if !p.Is(w) {
		return false
	}
	p.Rest = p.Rest[len(w):]
	return true
}

// Must takes a keyword that has to come next.
func (p *Reader) Must(w string) {
	if !p.Word(w) {
		p.Fail(w)
	}
}

// Sign takes a character if it comes next.
func (p *Reader) Sign(c byte) bool {
	p.Space()
	if p.Err != nil || p.Rest == "" || p.Rest[0] != c {
		return false
	}
	p.Rest = p.Rest[1:]
	return true
}

// Ident takes a name, with or without backticks.
func (p *Reader) Ident() string {
	p.Space()
	if p.Err != nil {
		return ""
	}
	if strings.HasPrefix(p.Rest, "`") {
		s := p.quoted("a name", false)
		if s == "" {
			p.Fail("a name")
		}
		return s
	}
	n := 0
	for n < len(p.Rest) && IsWord(p.Rest[n]) {
		n++
	}
	if n == 0 {
		p.Fail("a name")
		return ""
	}
	s := p.Rest[:n]
	p.Rest = p.Rest[n:]
	return s
}

// Text takes a string in quotes, which may be empty.
func (p *Reader) Text(what string) string {
	p.Space()
	if p.Err != nil || p.Rest == "" || p.Rest[0] != '\'' && p.Rest[0] != '"' {
		p.Fail(what + " in quotes")
		return ""
	}
	return p.quoted(what, true)
}

// quoted takes what is between two of the character that comes next.
func (p *Reader) quoted(what string, escapes bool) string {
	quote := p.Rest[0]
	var b strings.Builder
	for i := 1; i < len(p.Rest); i++ {
		switch c := p.Rest[i]; {
		case escapes && c == '\\' && i+1 < len(p.Rest):
			i++
			b.WriteByte(p.Rest[i])
		case c != quote:
			b.WriteByte(c)
		case i+1 < len(p.Rest) && p.Rest[i+1] == quote:
			i++
			b.WriteByte(c)
		default:
			p.Rest = p.Rest[i+1:]
			return b.String()
		}
	}
	p.Fail("the end of " + what)
	return ""
}

// Number takes a number above 0.
func (p *Reader) Number(what string) uint64 {
	p.Space()
	n := 0
	for n < len(p.Rest) && p.Rest[n] >= '0' && p.Rest[n] <= '9' {
		n++
	}
	v, err := strconv.ParseUint(p.Rest[:n], 10, 63)
	if err != nil || v == 0 {
		p.Fail(what)
		return 0
	}
	p.Rest = p.Rest[n:]
	return v
}

// End demands that nothing comes but a semicolon.
func (p *Reader) End() {
	if p.Err == nil && strings.Trim(p.Rest, "; \t\r\n") != "" {
		p.Fail("the end of the statement")
	}
}
