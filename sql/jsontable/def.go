package jsontable

import (
	"errors"
	"strings"
)

// Def is what follows the document: the path of the rows, and their columns.
type Def struct {
	Path string
	Cols []ColDef
}

// Kind is what a column is made of.
type Kind uint8

// The kinds of columns.
const (
	Value      Kind = iota // type PATH 'path'
	Exists                 // type EXISTS PATH 'path'
	Ordinality             // FOR ORDINALITY
	Nested                 // NESTED PATH 'path' COLUMNS (...)
)

// ColDef is one column of a definition.
type ColDef struct {
	Name             string
	Kind             Kind
	Type             string // the text of the type
	Path             string
	OnEmpty, OnError Response
	Nested           *Def
}

// Response is what becomes of a value that is missing or wrong.
type Response struct {
	Kind    ResponseKind
	Default string // a document
}

// ResponseKind is a kind of response.
type ResponseKind uint8

// The responses.
const (
	Null ResponseKind = iota
	Default
	Error
)

// Call is one JSON_TABLE of a text: its document, what follows it, and what was written.
type Call struct {
	Doc     string
	Def     *Def
	Written string
}

// errSyntax: the text is left as it is, so that the parser of the rest words the error.
var errSyntax = errors.New("JSON_TABLE")

// Mode says what quotation marks mean in a text.
type Mode struct{ ANSIQuotes, NoBackslashEscapes bool }

// Cut replaces each JSON_TABLE of a text by what is made of its document and its number, and is
// the text with the calls by number. It has none if there is nothing to replace, or if a call is
// wrong.
func Cut(text string, m Mode, replacement func(doc string, number int) string) (plain string, calls []Call) {
	if !mentions(text) {
		return text, nil
	}
	s := &scanner{text: text, mode: m}
	var out strings.Builder
	done := 0
	for {
		t := s.next()
		if t.kind == end {
			break
		}
		if !t.is("json_table") || s.peek().text != "(" {
			continue
		}
		s.next()
		doc, def, err := s.call()
		if err != nil {
			return text, nil
		}
		out.WriteString(text[done:t.from])
		out.WriteString(replacement(doc, len(calls)))
		done = s.at
		calls = append(calls, Call{doc, def, text[t.from:done]})
	}
	if calls == nil {
		return text, nil
	}
	out.WriteString(text[done:])
	return out.String(), calls
}

func mentions(text string) bool {
	const name = "json_table"
	for i := 0; i+len(name) <= len(text); i++ {
		if text[i]|0x20 == 'j' && strings.EqualFold(text[i:i+len(name)], name) {
			return true
		}
	}
	return false
}

// call reads what stands in the parentheses.
func (s *scanner) call() (doc string, d *Def, err error) {
	from := s.at
	for depth := 0; ; {
		t := s.next()
		switch {
		case t.kind == end:
			return "", nil, errSyntax
		case t.kind != mark:
		case t.text == "(":
			depth++
		case t.text == ")":
			depth--
		case t.text == "," && depth == 0:
			doc = strings.TrimSpace(s.text[from:t.from])
			d, err = s.def()
			if err == nil && !s.take(")") {
				err = errSyntax
			}
			if doc == "" {
				err = errSyntax
			}
			return doc, d, err
		}
		if depth < 0 {
			return "", nil, errSyntax
		}
	}
}

// def reads 'path' COLUMNS (column, ...).
func (s *scanner) def() (*Def, error) {
	path := s.next()
	if path.kind != str || !s.word("columns") || !s.take("(") {
		return nil, errSyntax
	}
	d := &Def{Path: path.text}
	for {
		c, err := s.column()
		if err != nil {
			return nil, err
		}
		d.Cols = append(d.Cols, c)
		if s.take(")") {
			return d, nil
		}
		if !s.take(",") {
			return nil, errSyntax
		}
	}
}

func (s *scanner) column() (c ColDef, err error) {
	name := s.next()
	if name.is("nested") && (s.peek().is("path") || s.peek().kind == str) {
		s.word("path")
		c.Kind = Nested
		c.Nested, err = s.def()
		return c, err
	}
	if name.kind != word && name.kind != quoted {
		return c, errSyntax
	}
	c.Name = name.text
	if s.word("for") {
		c.Kind = Ordinality
		if !s.word("ordinality") {
			return c, errSyntax
		}
		return c, nil
	}
	from := s.peek().from
	for depth := 0; ; {
		t := s.peek()
		switch {
		case t.kind == end:
			return c, errSyntax
		case t.is("path"), t.is("exists"):
			c.Type = strings.TrimSpace(s.text[from:t.from])
			return c, s.value(&c)
		case t.kind == mark && t.text == "(":
			depth++
		case t.kind == mark && t.text == ")":
			if depth--; depth < 0 {
				return c, errSyntax
			}
		case t.kind == mark && t.text == "," && depth == 0:
			return c, errSyntax
		}
		s.next()
	}
}

// value reads [EXISTS] PATH 'path' and the responses.
func (s *scanner) value(c *ColDef) error {
	if s.word("exists") {
		c.Kind = Exists
	}
	if !s.word("path") || c.Type == "" {
		return errSyntax
	}
	p := s.next()
	if p.kind != str {
		return errSyntax
	}
	c.Path = p.text
	if c.Kind == Exists {
		return nil
	}
	for given := [2]bool{}; ; {
		r, ok, err := s.response()
		if err != nil || !ok {
			return err
		}
		to, at := &c.OnEmpty, 0
		switch {
		case !s.word("on"):
			return errSyntax
		case s.word("error"):
			to, at = &c.OnError, 1
		case !s.word("empty"):
			return errSyntax
		}
		if given[at] {
			return errSyntax
		}
		*to, given[at] = r, true
	}
}

func (s *scanner) response() (r Response, ok bool, err error) {
	switch {
	case s.word("null"):
		return r, true, nil
	case s.word("error"):
		return Response{Kind: Error}, true, nil
	case s.word("default"):
		t := s.next()
		sign := ""
		if t.kind == mark && (t.text == "-" || t.text == "+") {
			sign = strings.TrimPrefix(t.text, "+")
			if t = s.next(); t.kind != number {
				return r, false, errSyntax
			}
		}
		if t.kind != str && t.kind != number {
			return r, false, errSyntax
		}
		return Response{Default, sign + t.text}, true, nil
	}
	return r, false, nil
}

type tokenKind uint8

const (
	end tokenKind = iota
	word
	quoted // a name in quotation marks
	str
	number
	mark
)

type token struct {
	kind tokenKind
	text string
	from int
}

func (t token) is(w string) bool { return t.kind == word && strings.EqualFold(t.text, w) }

// scanner reads the words of a text.
type scanner struct {
	text string
	mode Mode
	at   int
}

func (s *scanner) peek() token {
	at := s.at
	t := s.next()
	s.at = at
	return t
}

func (s *scanner) word(w string) bool {
	at := s.at
	if s.next().is(w) {
		return true
	}
	s.at = at
	return false
}

func (s *scanner) take(m string) bool {
	at := s.at
	if t := s.next(); t.kind == mark && t.text == m {
		return true
	}
	s.at = at
	return false
}

func (s *scanner) next() token {
	s.blank()
	if s.at >= len(s.text) {
		return token{kind: end, from: len(s.text)}
	}
	from := s.at
	switch c := s.text[s.at]; {
	case c == '`', c == '"' && s.mode.ANSIQuotes:
		return token{quoted, s.quotes(c, false), from}
	case c == '\'', c == '"':
		return token{str, s.quotes(c, !s.mode.NoBackslashEscapes), from}
	case c >= '0' && c <= '9':
		for s.at < len(s.text) && (wordByte(s.text[s.at]) || s.text[s.at] == '.') {
			s.at++
		}
		return token{number, s.text[from:s.at], from}
	case wordByte(c):
		for s.at < len(s.text) && wordByte(s.text[s.at]) {
			s.at++
		}
		return token{word, s.text[from:s.at], from}
	}
	s.at++
	return token{mark, s.text[from:s.at], from}
}

func wordByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// blank skips white space and comments.
func (s *scanner) blank() {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		stop, tail := "\n", 1
		switch {
		case rest[0] <= ' ':
			s.at++
			continue
		case strings.HasPrefix(rest, "/*") && !strings.HasPrefix(rest, "/*!") && !strings.HasPrefix(rest, "/*+"):
			stop, tail = "*/", 2
		case rest[0] == '#', strings.HasPrefix(rest, "--") && (len(rest) == 2 || rest[2] <= ' '):
		default:
			return
		}
		n := strings.Index(rest, stop)
		if n < 0 {
			s.at = len(s.text)
			return
		}
		s.at += n + tail
	}
}

// quotes reads a text up to its closing mark; two marks stand for one.
func (s *scanner) quotes(q byte, escapes bool) string {
	var out []byte
	for s.at++; s.at < len(s.text); s.at++ {
		c := s.text[s.at]
		switch {
		case c == q && s.at+1 < len(s.text) && s.text[s.at+1] == q:
			s.at++
		case c == q:
			s.at++
			return string(out)
		case c == '\\' && escapes && s.at+1 < len(s.text):
			s.at++
			out = append(out, escaped(s.text[s.at])...)
			continue
		}
		out = append(out, c)
	}
	return string(out)
}

// escaped is what a byte behind a backslash stands for.
func escaped(c byte) string {
	switch c {
	case '0':
		return "\x00"
	case 'b':
		return "\b"
	case 'n':
		return "\n"
	case 'r':
		return "\r"
	case 't':
		return "\t"
	case 'Z':
		return "\x1a"
	case '%', '_':
		return "\\" + string(c)
	}
	return string(c)
}
