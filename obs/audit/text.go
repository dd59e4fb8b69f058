package audit

import (
	"slices"
	"strings"
)

// This file reads the texts of statements, also of those that do not parse: what has a password in
// it may be misspelt.

// token is a piece of a statement without spaces and comments.
type token struct {
	from, to int
	text     string // in upper case, but for literals
	literal  bool   // a quoted string
}

// tokens cuts a text up. rest is where its first statement ends.
func tokens(q string) (out []token, rest int) {
	for i := 0; i < len(q); {
		start := i
		switch c := q[i]; {
		case c == ';':
			return out, i
		case c == '\'' || c == '"' || c == '`':
			i = quoted(q, i)
			out = append(out, token{start, i, q[start:i], c != '`'})
		case strings.HasPrefix(q[i:], "/*"):
			// What such a comment may hide is run: /*!50000 ... */
			if i += 2; i < len(q) && q[i] == '!' {
				i++
			} else if end := strings.Index(q[i:], "*/"); end >= 0 {
				i += end + 2
			} else {
				i = len(q)
			}
		case c == '#' || strings.HasPrefix(q[i:], "-- "):
			if end := strings.IndexByte(q[i:], '\n'); end >= 0 {
				i += end + 1
			} else {
				i = len(q)
			}
		case word(c):
			for i < len(q) && word(q[i]) {
				i++
			}
			out = append(out, token{start, i, strings.ToUpper(q[start:i]), false})
		case c == ' ' || c == '\t' || c == '\n' || c == '\r':
			i++
		default:
			i++
			out = append(out, token{start, i, q[start:i], false})
		}
	}
	return out, len(q)
}

func word(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

// quoted is the end of what is quoted from i on.
func quoted(q string, i int) int {
	quote := q[i]
	for i++; i < len(q); i++ {
		switch {
		case q[i] == '\\' && quote != '`':
			i++
		case q[i] != quote:
		case i+1 < len(q) && q[i+1] == quote:
			i++
		default:
			return i + 1
		}
	}
	return len(q)
}

// First is the first statement of a text.
func First(q string) string {
	_, end := tokens(q)
	return q[:end]
}

// hidden is what stands for a literal that is not shown.
const hidden = "'***'"

// names are the words behind which a literal is the name of an account.
var names = []string{"USER", "ROLE", "EXISTS", "TO", "FROM", "FOR", "ON", ",", "GRANT", "REVOKE", "INTO", "BACKUP"}

// Mask hides the passwords of a statement: all literals, if it speaks of accounts or passwords, but
// those that are names of accounts where they stand.
func Mask(q string) string {
	ts, end := tokens(q)
	if !slices.ContainsFunc(ts, secret) {
		return q[:end]
	}
	sink := slices.ContainsFunc(ts, func(t token) bool { return sinkText(t.text) })
	var b strings.Builder
	at := 0
	for i, t := range ts {
		before, after := "", ""
		if i > 0 {
			before = ts[i-1].text
		}
		if i+1 < len(ts) {
			after = ts[i+1].text
		}
		// Behind BY is a password, also if the quotes are missing.
		isName := !sink && len(t.text) < 70 && !secretText(t.text) && (before == "@" || after == "@" || slices.Contains(names, before))
		if t.literal && !isName || before == "BY" && t.text != "RANDOM" && t.text != "PASSWORD" {
			b.WriteString(q[at:t.from])
			b.WriteString(hidden)
			at = t.to
		}
	}
	b.WriteString(q[at:end])
	return b.String()
}

// secret reports whether a token speaks of accounts or passwords. A literal may be a statement
// (PREPARE ... FROM '...').
func secret(t token) bool {
	return secretText(t.text) || !t.literal && t.text == "USER"
}

func secretText(s string) bool {
	s = strings.ToUpper(s)
	return strings.Contains(s, "IDENTIF") || strings.Contains(s, "PASSWORD") || strings.Contains(s, "PASSPHR") || sinkText(s)
}

// sinkText reports whether a text speaks of a sink of changes: addresses of sinks, and options
// about them, may be passwords as a whole.
func sinkText(s string) bool {
	s = strings.ToUpper(s)
	return strings.Contains(s, "CHANGEFE") || strings.Contains(s, "WEBHOOK") || strings.Contains(s, "KAFKA:") || strings.Contains(s, "SASL_")
}

// Digest replaces the literals and numbers of a statement: it shows what was asked for, and none of
// the data.
func Digest(q string) string {
	ts, end := tokens(q)
	var b strings.Builder
	at := 0
	for _, t := range ts {
		if t.literal || t.text[0] >= '0' && t.text[0] <= '9' {
			b.WriteString(q[at:t.from])
			b.WriteByte('?')
			at = t.to
		}
	}
	b.WriteString(q[at:end])
	return b.String()
}

// Classify says what kind of event a statement is; empty: none, whatever tables it names.
func Classify(q string) Kind {
	ts, _ := tokens(q)
	w := func(i int) string {
		if i < len(ts) {
			return ts[i].text
		}
		return ""
	}
	object := slices.ContainsFunc(ts[:min(len(ts), 6)], func(t token) bool { return t.text == "USER" || t.text == "ROLE" })
	switch w(0) {
	case "GRANT", "REVOKE":
		return Account
	case "RENAME", "CREATE", "DROP", "ALTER":
		if w(1) == "CHANGEFEED" {
			return Admin
		}
		if object && slices.Contains([]string{"USER", "ROLE", "OR", "IF"}, w(1)) {
			return Account
		}
		return DDL
	case "TRUNCATE":
		return DDL
	case "SET":
		return classifySet(ts)
	case "KILL", "SHUTDOWN", "PROMOTE", "FLUSH", "RESET", "PURGE", "INSTALL", "UNINSTALL", "CLONE", "RESTART",
		"BACKUP", "RESTORE", "VERIFY", "PAUSE", "RESUME", "CHANGE":
		return Admin
	case "START", "STOP":
		if w(1) == "REPLICA" || w(1) == "SLAVE" {
			return Admin
		}
	case "PREPARE":
		for _, t := range ts {
			if t.literal {
				return Classify(t.text[1 : len(t.text)-1])
			}
		}
	}
	return ""
}

// classifySet looks at all assignments of a SET.
func classifySet(ts []token) (kind Kind) {
	for i, t := range ts[1:] {
		// SET @@GLOBAL.a: two tokens before it; SET @global is a user's variable.
		system := i > 1 && ts[i].text == "@" && ts[i-1].text == "@"
		first := i == 0 || ts[i].text == "," || system
		switch {
		case !first:
		case t.text == "PASSWORD", t.text == "DEFAULT" && i+2 < len(ts) && ts[i+2].text == "ROLE":
			return Account
		case slices.Contains([]string{"GLOBAL", "PERSIST", "PERSIST_ONLY", "CLUSTER"}, t.text):
			kind = Setting
		}
	}
	return kind
}
