package fast

import "strings"

// Literal is a constant of a statement: its text and what kind of constant it is.
type Literal struct {
	Kind LiteralKind
	Text string
}

// LiteralKind is what kind of constant it is.
type LiteralKind uint8

// The kinds of constants.
const (
	LitInt LiteralKind = iota
	LitDecimal
	LitString
	LitNull
	LitNow // the statement's time; the text is the number of digits of the second
)

const maxFastText = 4096

// Normalize replaces the constants of a simple statement by question marks. ok is false for text
// with anything in it that needs the real parser to tell (comments, double quotes, escapes, several
// statements, hexadecimal numbers).
func Normalize(q string) (text string, args []Literal, ok bool) {
	if len(q) > maxFastText {
		return "", nil, false
	}
	q = strings.TrimSpace(q)
	q = strings.TrimRight(q, "; \t\r\n")
	n := normalizer{q: q, out: make([]byte, 0, len(q))}
	for n.at < len(q) {
		if !n.next() {
			return "", nil, false
		}
	}
	return string(n.out), n.args, true
}

// normalizer is a text on its way through Normalize.
type normalizer struct {
	q    string
	at   int // the next byte of q
	out  []byte
	args []Literal
	last byte // last byte that is not white space
}

// next takes a constant, a name, a word or a byte; false if it needs the real parser.
func (n *normalizer) next() bool {
	c, after := n.q[n.at], byte(0)
	if n.at+1 < len(n.q) {
		after = n.q[n.at+1]
	}
	switch {
	case c == '\'':
		return n.text()
	case c == '`':
		return n.name()
	case needsParser[c], c == '-' && after == '-', c == '/' && after == '*':
		return false
	case isDigit(c), c == '-' && isDigit(after) && n.startsValue():
		return n.number()
	case isWord(c):
		return n.word()
	}
	n.out = append(n.out, c)
	if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
		n.last = c
	}
	n.at++
	return true
}

// needsParser are bytes that mean more than this package knows.
var needsParser = [256]bool{'"': true, '\\': true, '#': true, ';': true, '?': true, '@': true, ':': true}

// startsValue reports whether what comes next can only be a value, so that a minus sign belongs to
// it.
func (n *normalizer) startsValue() bool { return n.last == '=' || n.last == '(' || n.last == ',' }

// constant puts a question mark in the place of a constant that ends at a byte.
func (n *normalizer) constant(kind LiteralKind, text string, end int) bool {
	n.args = append(n.args, Literal{kind, text})
	n.out = append(n.out, '?')
	n.last, n.at = '?', end
	return true
}

// text takes a string in single quotes without escapes.
func (n *normalizer) text() bool {
	from := n.at + 1
	l := strings.IndexByte(n.q[from:], '\'')
	if l < 0 {
		return false
	}
	end := from + l
	if end+1 < len(n.q) && n.q[end+1] == '\'' || strings.IndexByte(n.q[from:end], '\\') >= 0 {
		return false
	}
	return n.constant(LitString, n.q[from:end], end+1)
}

// name takes a quoted name as it is.
func (n *normalizer) name() bool {
	l := strings.IndexByte(n.q[n.at+1:], '`')
	if l < 0 {
		return false
	}
	n.out = append(n.out, n.q[n.at:n.at+l+2]...)
	n.last = '`'
	n.at += l + 2
	return true
}

// number takes an integer or a decimal; 0x.., 1e5 and 1abc are not for this package.
func (n *normalizer) number() bool {
	end, kind := n.at+1, LitInt
	for ; end < len(n.q) && (isDigit(n.q[end]) || n.q[end] == '.'); end++ {
		if n.q[end] == '.' {
			kind = LitDecimal
		}
	}
	if end < len(n.q) && isWord(n.q[end]) {
		return false
	}
	return n.constant(kind, n.q[n.at:end], end)
}

// word takes a keyword or a name as it is, but for NULL, which is a constant; _utf8'..', x'..' and
// date'..' are not for this package.
func (n *normalizer) word() bool {
	end := n.at
	for end < len(n.q) && (isWord(n.q[end]) || isDigit(n.q[end])) {
		end++
	}
	w := n.q[n.at:end]
	if len(w) == 4 && strings.EqualFold(w, "null") && n.startsValue() {
		return n.constant(LitNull, "", end)
	}
	if end < len(n.q) && n.q[end] == '\'' {
		return false
	}
	n.out = append(n.out, w...)
	n.last, n.at = n.q[end-1], end
	return true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return c == '_' || c == '$' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}
