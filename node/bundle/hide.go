package bundle

import (
	"encoding/json"
	"regexp"
	"strings"

	"github.com/godwitdb/godwit/obs/audit"
)

// removed stands for a value that its name forbids to show.
const removed = "(removed)"

// partsOfSecret are in names of what is secret.
var partsOfSecret = []string{"password", "passwd", "passphrase", "secret", "token", "credential", "auth_string"}

// values are names of what holds texts of statements, or values of rows.
var values = map[string]bool{"key": true, "span": true, "row": true, "row_name": true, "statement": true, "sql": true,
	"query": true, "sample": true, "pk": true, "value_text": true}

// forbidden reports whether what has a name is not shown.
func forbidden(name string) bool {
	name = strings.ToLower(name)
	if values[name] {
		return true
	}
	for _, p := range partsOfSecret {
		if strings.Contains(name, p) {
			return true
		}
	}
	return false
}

// Hide is v without what strangers may not see. v is a value as package json decodes it, and name
// that of the field that holds it. Numbers stay, unless the name is one of a value of a row.
func Hide(name string, v any) any {
	switch x := v.(type) {
	case string:
		if x == "" {
			return x
		}
		if forbidden(name) {
			return removed
		}
		if name == "kind" || name == "job_type" { // the words of a statement
			return audit.Digest(x)
		}
		return Text(x)
	case json.Number, float64:
		if values[name] {
			return removed
		}
	case []any:
		if forbidden(name) && scalars(x) {
			return removed
		}
		for i := range x {
			x[i] = Hide(name, x[i])
		}
	case map[string]any:
		for k := range x {
			x[k] = Hide(k, x[k])
		}
	}
	return v
}

// scalars reports whether none of the values is a list or an object.
func scalars(list []any) bool {
	for _, v := range list {
		switch v.(type) {
		case []any, map[string]any:
			return false
		}
	}
	return true
}

var (
	// rowNames are those that people are shown: shop.carts(7, x).
	rowNames = regexp.MustCompile(`([\w$]+\.[\w$]+)\([^\n]*\)`)
	// duplicates are what unique keys say of values.
	duplicates = regexp.MustCompile(`(?i)(key given: ?|duplicate entry ?|incorrect [a-z]+ value: ?)[^\n]*`)
)

// Text is a text for people without literals and values of rows: what stands in single quotes, or
// behind the name of a table in parentheses, is ?.
func Text(s string) string {
	s = quotes(s)
	s = rowNames.ReplaceAllString(s, "$1(?)")
	return duplicates.ReplaceAllString(s, "${1}?")
}

// quotes replaces what stands in single quotes. A quote behind a letter is an apostrophe, unless
// the word introduces a literal: N'x', _utf8mb4'x'. A literal without an end reaches to that of the
// text.
func quotes(s string) string {
	if strings.IndexByte(s, '\'') < 0 {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		c := s[i]
		b.WriteByte(c)
		i++
		if c != '\'' || !opens(s[:i-1]) {
			continue
		}
		b.WriteString("?'")
		for i < len(s) {
			if s[i] == '\\' {
				i += 2
				continue
			}
			if s[i] != '\'' {
				i++
				continue
			}
			if i++; i >= len(s) || s[i] != '\'' { // two of them are one inside
				break
			}
			i++
		}
	}
	return b.String()
}

// opens reports whether a quote behind this text begins a literal.
func opens(before string) bool {
	i := len(before)
	for i > 0 && word(before[i-1]) {
		i--
	}
	w := strings.ToLower(before[i:])
	return w == "" || w == "n" || w == "x" || w == "b" || w[0] == '_'
}

func word(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
