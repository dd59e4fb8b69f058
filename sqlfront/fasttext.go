package sqlfront

import "strings"

// literal is a constant of a statement: its text and what kind of constant it is.
type literal struct {
	kind literalKind
	text string
}

type literalKind uint8

const (
	litInt literalKind = iota
	litDecimal
	litString
	litNull
)

const maxFastText = 4096

// normalize replaces the constants of a simple statement by question marks. ok is
// false for text with anything in it that needs the real parser to tell
// (comments, double quotes, escapes, several statements, hexadecimal numbers).
func normalize(q string) (text string, args []literal, ok bool) {
	if len(q) > maxFastText {
		return "", nil, false
	}
	q = strings.TrimSpace(q)
	q = strings.TrimRight(q, "; \t\r\n")
	b := make([]byte, 0, len(q))
	last := byte(0) // last byte that is not white space
	for i := 0; i < len(q); {
		c := q[i]
		switch {
		case c == '\'':
			j := strings.IndexByte(q[i+1:], '\'')
			if j < 0 {
				return "", nil, false
			}
			end := i + 1 + j
			if end+1 < len(q) && q[end+1] == '\'' || strings.IndexByte(q[i+1:end], '\\') >= 0 {
				return "", nil, false
			}
			args = append(args, literal{litString, q[i+1 : end]})
			b = append(b, '?')
			last = '?'
			i = end + 1
		case c == '`':
			j := strings.IndexByte(q[i+1:], '`')
			if j < 0 {
				return "", nil, false
			}
			b = append(b, q[i:i+j+2]...)
			last = '`'
			i += j + 2
		case c == '"' || c == '\\' || c == '#' || c == ';' || c == '?' || c == '@' || c == ':':
			return "", nil, false
		case c == '-' && i+1 < len(q) && q[i+1] == '-', c == '/' && i+1 < len(q) && q[i+1] == '*':
			return "", nil, false
		case isDigit(c) || c == '-' && i+1 < len(q) && isDigit(q[i+1]) && (last == '=' || last == '(' || last == ','):
			j := i + 1
			kind := litInt
			for j < len(q) && (isDigit(q[j]) || q[j] == '.') {
				if q[j] == '.' {
					kind = litDecimal
				}
				j++
			}
			if j < len(q) && isWord(q[j]) {
				return "", nil, false // 0x.., 1e5, 1abc
			}
			args = append(args, literal{kind, q[i:j]})
			b = append(b, '?')
			last = '?'
			i = j
		case isWord(c):
			j := i + 1
			for j < len(q) && (isWord(q[j]) || isDigit(q[j])) {
				j++
			}
			if w := q[i:j]; len(w) == 4 && strings.EqualFold(w, "null") && (last == '=' || last == '(' || last == ',') {
				args = append(args, literal{litNull, ""})
				b = append(b, '?')
				last = '?'
			} else if j < len(q) && q[j] == '\'' {
				return "", nil, false // _utf8'..', x'..', date'..'
			} else {
				b = append(b, w...)
				last = q[j-1]
			}
			i = j
		default:
			b = append(b, c)
			if c != ' ' && c != '\t' && c != '\n' && c != '\r' {
				last = c
			}
			i++
		}
	}
	return string(b), args, true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isWord(c byte) bool {
	return c == '_' || c == '$' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}
