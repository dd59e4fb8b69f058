package oneshot

import "strings"

// Tx is what a statement does to the transaction as a whole.
type Tx uint8

// What it does.
const (
	TxNone Tx = iota
	TxBegin
	TxCommit
	TxRollback
)

// TxOf recognises the plain statements that begin and end transactions.
func TxOf(q string) Tx {
	if len(q) > 32 {
		return TxNone
	}
	q = strings.Trim(q, " \t\r\n;")
	switch {
	case strings.EqualFold(q, "begin"), strings.EqualFold(q, "start transaction"):
		return TxBegin
	case strings.EqualFold(q, "commit"):
		return TxCommit
	case strings.EqualFold(q, "rollback"):
		return TxRollback
	}
	return TxNone
}

// Cut takes the first statement of a text. ok is false if it takes the real parser to tell where
// that ends: comments, escapes, double quotes.
func Cut(text string) (head, rest string, ok bool) {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ';':
			return text[:i], strings.TrimLeft(text[i+1:], "; \t\r\n"), true
		case '\'', '`':
			l := strings.IndexByte(text[i+1:], c)
			if l < 0 || strings.IndexByte(text[i:i+l+1], '\\') >= 0 {
				return "", "", false
			}
			i += l + 1
		case '"', '\\', '#':
			return "", "", false
		case '-', '/':
			if i+1 < len(text) && (c == '-' && text[i+1] == '-' || c == '/' && text[i+1] == '*') {
				return "", "", false
			}
		}
	}
	return text, "", true
}

// Plain reports whether a statement ends where Cut says: no semicolon stands inside one that begins
// so.
func Plain(text string) bool {
	switch strings.ToLower(firstWord(text)) {
	case "select", "update", "insert", "delete", "replace", "call", "begin", "start", "commit", "rollback":
		return true
	}
	return false
}

// firstWord is that of a text.
func firstWord(text string) string {
	text = strings.TrimLeft(text, " \t\r\n")
	if i := strings.IndexAny(text, " \t\r\n;("); i >= 0 {
		text = text[:i]
	}
	return text
}

// begins reports whether a text of several statements may begin a transaction, after a look at its
// first bytes.
func begins(text string) bool {
	const begin, start = "begin", "start transaction"
	text = strings.TrimLeft(text, " \t\r\n")
	return len(text) > len(begin) && strings.EqualFold(text[:len(begin)], begin) ||
		len(text) > len(start) && strings.EqualFold(text[:len(start)], start)
}
