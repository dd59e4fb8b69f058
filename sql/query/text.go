package query

import "strings"

// kind is what a statement does, as far as its first words tell.
type kind uint8

const (
	other    kind = iota
	reading       // SELECT
	changing      // UPDATE, DELETE, INSERT, REPLACE
	setting       // SET
	calling       // CALL
	doing         // DO
)

// kindOf reads the first words of a statement.
func kindOf(text string) kind {
	text = strings.TrimLeft(text, " \t\r\n(")
	for strings.HasPrefix(text, "/*") && !strings.HasPrefix(text, "/*!") {
		i := strings.Index(text, "*/")
		if i < 0 {
			return other
		}
		text = strings.TrimLeft(text[i+2:], " \t\r\n(")
	}
	n := 0
	for n < len(text) && wordByte(text[n]) {
		n++
	}
	if n == 0 || n > 7 || n == len(text) {
		return other
	}
	switch strings.ToLower(text[:n]) {
	case "select", "values", "table":
		return reading
	case "call":
		return calling
	case "do":
		return doing
	case "set":
		return setting
	case "with":
		return behindWith(text[n:])
	case "update", "delete", "insert", "replace":
		return changing
	}
	return other
}

// behindWith is what a statement does that begins with common table expressions.
func behindWith(text string) kind {
	found := reading
	words(text, func(w string, depth int) bool {
		if depth == 0 && (w == "update" || w == "delete") {
			found = changing
		}
		return depth > 0 || w != "select" && found == reading
	})
	return found
}

// words calls f for the words of a text, in lower case, that are not quoted, until it says no.
// depth counts the parentheses around them.
func words(text string, f func(w string, depth int) bool) {
	depth := 0
	for i := 0; i < len(text); {
		switch b := text[i]; {
		case b == '(':
			depth++
		case b == ')':
			depth--
		case b == '`' || b == '"' || b == '\'':
			end := strings.IndexByte(text[i+1:], b)
			if end < 0 {
				return
			}
			i += end + 1
		case wordByte(b):
			from := i
			for i < len(text) && wordByte(text[i]) {
				i++
			}
			if !f(strings.ToLower(text[from:i]), depth) {
				return
			}
			continue
		}
		i++
	}
}

func wordByte(b byte) bool {
	return b == '_' || b == '$' || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' || b >= 0x80
}
