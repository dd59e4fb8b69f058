package token

import "strings"

// Verb is what a statement does, as far as its first words tell.
type Verb uint8

// The kinds of statements.
const (
	Other    Verb = iota
	Reading       // SELECT
	Changing      // UPDATE, DELETE, INSERT, REPLACE, LOAD DATA
	Setting       // SET
	Calling       // CALL
	Doing         // DO
)

// VerbOf reads the first words of a statement.
func VerbOf(text string) Verb {
	text = strings.TrimLeft(text, " \t\r\n(")
	for strings.HasPrefix(text, "/*") && !strings.HasPrefix(text, "/*!") {
		i := strings.Index(text, "*/")
		if i < 0 {
			return Other
		}
		text = strings.TrimLeft(text[i+2:], " \t\r\n(")
	}
	n := 0
	for n < len(text) && wordByte(text[n]) {
		n++
	}
	if n == 0 || n > 7 || n == len(text) {
		return Other
	}
	switch strings.ToLower(text[:n]) {
	case "select", "values", "table":
		return Reading
	case "call":
		return Calling
	case "do":
		return Doing
	case "set":
		return Setting
	case "with":
		return behindWith(text[n:])
	case "update", "delete", "insert", "replace", "load":
		return Changing
	}
	return Other
}

// behindWith is what a statement does that begins with common table expressions.
func behindWith(text string) Verb {
	found := Reading
	words(text, func(w string, depth int) bool {
		if depth == 0 && (w == "update" || w == "delete") {
			found = Changing
		}
		return depth > 0 || w != "select" && found == Reading
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
