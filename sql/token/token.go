// Package token splits SQL into tokens, for what is found in a text without a grammar: the control
// flow of stored programs, and the INTO of a SELECT. A token knows where it stands, so that the
// texts of statements and expressions can be cut out as they were written.
package token

import "strings"

// Kind is what a token is.
type Kind uint8

// The kinds of tokens.
const (
	End     Kind = iota
	Word         // a keyword, or a name that is not quoted
	Quoted       // a name in backticks, or in double quotes under ANSI_QUOTES
	String       // a string
	Number       // a number, also 0x1F
	UserVar      // @x; the text is the name
	SysVar       // @@x; the text is the name
	Param        // ?
	Op           // anything else, mostly one character; := is one token
)

// Token is one token.
type Token struct {
	Kind Kind
	// Text is the token without quotes, Lower the same in lower case.
	Text, Lower string
	// From and To are where it stands.
	From, To int
}

// Is reports whether the token is one of these words, in lower case, or operators.
func (t Token) Is(words ...string) bool {
	if t.Kind != Word && t.Kind != Op {
		return false
	}
	for _, w := range words {
		if t.Lower == w {
			return true
		}
	}
	return false
}

// Named reports whether the token can be a name.
func (t Token) Named() bool { return t.Kind == Word || t.Kind == Quoted }

// Mode is what of sql_mode matters.
type Mode struct{ ANSIQuotes, NoBackslashEscapes bool }

// ModeOf reads a sql_mode.
func ModeOf(mode string) Mode {
	mode = strings.ToUpper(mode)
	return Mode{strings.Contains(mode, "ANSI"), strings.Contains(mode, "NO_BACKSLASH_ESCAPES")}
}

// Scan splits a text. The last token is an End.
func Scan(text string, m Mode) []Token {
	s := &scanner{text: text, mode: m}
	for s.next() {
	}
	s.add(End, len(text), len(text), "")
	return s.out
}

type scanner struct {
	text string
	mode Mode
	at   int
	out  []Token
}

func (s *scanner) add(k Kind, from, to int, text string) {
	s.out = append(s.out, Token{k, text, strings.ToLower(text), from, to})
	s.at = to
}

func wordByte(b byte) bool {
	return b == '_' || b == '$' || digit(b) || b|0x20 >= 'a' && b|0x20 <= 'z' || b >= 0x80
}

func digit(b byte) bool { return b >= '0' && b <= '9' }

// next adds a token; false is the end.
func (s *scanner) next() bool {
	s.space()
	if s.at >= len(s.text) {
		return false
	}
	from, rest := s.at, s.text[s.at:]
	switch c := rest[0]; {
	case c == '`' || c == '"' && s.mode.ANSIQuotes:
		s.quoted(Quoted, from, from)
	case c == '\'' || c == '"':
		s.quoted(String, from, from)
	case c == '@':
		s.variable()
	case digit(c) || c == '.' && len(rest) > 1 && digit(rest[1]):
		s.number()
	case wordByte(c):
		to := from
		for to < len(s.text) && wordByte(s.text[to]) {
			to++
		}
		s.add(Word, from, to, s.text[from:to])
	case c == '?':
		s.add(Param, from, from+1, "?")
	case strings.HasPrefix(rest, ":="):
		s.add(Op, from, from+2, ":=")
	default:
		s.add(Op, from, from+1, rest[:1])
	}
	return true
}

// quoted adds what stands in quotes from at on; the token begins at from.
func (s *scanner) quoted(k Kind, from, at int) {
	quote := s.text[at]
	var b strings.Builder
	i := at + 1
	for ; i < len(s.text); i++ {
		c := s.text[i]
		switch {
		case c == quote && i+1 < len(s.text) && s.text[i+1] == quote:
			i++
		case c == quote:
			s.add(k, from, i+1, b.String())
			return
		case c == '\\' && k == String && !s.mode.NoBackslashEscapes && i+1 < len(s.text):
			i++
			c = unescaped(s.text[i])
		}
		b.WriteByte(c)
	}
	s.add(k, from, i, b.String())
}

func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	case '0':
		return 0
	case 'b':
		return '\b'
	case 'Z':
		return 26
	}
	return c
}

// variable adds @x or @@x.
func (s *scanner) variable() {
	from, k, at := s.at, UserVar, s.at+1
	if at < len(s.text) && s.text[at] == '@' {
		k = SysVar
		at++
	}
	if at < len(s.text) && strings.IndexByte("`'\"", s.text[at]) >= 0 {
		s.quoted(k, from, at)
		return
	}
	to := at
	for to < len(s.text) && (wordByte(s.text[to]) || s.text[to] == '.') {
		to++
	}
	s.add(k, from, to, s.text[at:to])
}

// number adds a number. What begins with a digit may be a name, too.
func (s *scanner) number() {
	from, to, point := s.at, s.at, false
	for to < len(s.text) {
		c := s.text[to]
		exponent := to > from && s.text[to-1]|0x20 == 'e' && !strings.HasPrefix(s.text[from:], "0x")
		if !wordByte(c) && (c != '.' || point) && (c != '-' && c != '+' || !exponent) {
			break
		}
		point = point || c == '.'
		to++
	}
	s.add(Number, from, to, s.text[from:to])
}

// space skips spaces and comments. Of a comment that is executed it skips the mark alone.
func (s *scanner) space() {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case strings.IndexByte(" \t\r\n\f\v", rest[0]) >= 0:
			s.at++
		case strings.HasPrefix(rest, "/*!"):
			for s.at += 3; s.at < len(s.text) && digit(s.text[s.at]); s.at++ {
			}
		case strings.HasPrefix(rest, "/*"):
			s.skip(rest, "*/")
		case strings.HasPrefix(rest, "*/"):
			s.at += 2
		case rest[0] == '#', rest == "--", strings.HasPrefix(rest, "--") && rest[2] <= ' ':
			s.skip(rest, "\n")
		default:
			return
		}
	}
}

// skip goes behind an end.
func (s *scanner) skip(rest, end string) {
	if i := strings.Index(rest, end); i >= 0 {
		s.at += i + len(end)
	} else {
		s.at = len(s.text)
	}
}
