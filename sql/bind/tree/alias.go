package tree

import (
	"strings"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// Aliased is an INSERT whose rows have a name, which the parser does not know: VALUES (1) AS new ON
// DUPLICATE KEY UPDATE a = new.a.
type Aliased struct {
	*ast.InsertStmt
	Alias RowAlias
}

// RowAlias is the name that VALUES (...) AS new(a, b) gives the new row, and its columns.
type RowAlias struct {
	Name string
	Cols []string
}

// word is one of a text, or a single character between words.
type word struct {
	text     string
	from, to int
	quoted   bool
}

// wordsOf splits a text; strings and comments are no words.
func wordsOf(s string) (out []word) {
	for i := 0; i < len(s); {
		from := i
		switch b := s[i]; {
		case b <= ' ':
			i++
			continue
		case comment(s[i:]) > 0:
			i += comment(s[i:])
			continue
		case b == '\'' || b == '"' || b == '`':
			for i++; i < len(s) && s[i] != b; i++ {
				if s[i] == '\\' && b != '`' {
					i++
				}
			}
			i = min(i+1, len(s))
			if b == '`' {
				out = append(out, word{strings.Trim(s[from:i], "`"), from, i, true})
			}
			continue
		case nameByte(b):
			for i < len(s) && nameByte(s[i]) {
				i++
			}
		default:
			i++
		}
		out = append(out, word{s[from:i], from, i, false})
	}
	return out
}

// comment is the length of the comment that a text begins with. Those that are executed are none.
func comment(s string) int {
	end, tail := "\n", 0
	switch {
	case strings.HasPrefix(s, "/*") && !strings.HasPrefix(s, "/*!") && !strings.HasPrefix(s, "/*+"):
		end, tail = "*/", 2
	case s[0] == '#', s == "--", strings.HasPrefix(s, "--") && s[2] <= ' ':
	default:
		return 0
	}
	if n := strings.Index(s, end); n >= 0 {
		return n + tail
	}
	return len(s)
}

func nameByte(b byte) bool {
	return b == '_' || b == '$' || b >= '0' && b <= '9' || b|0x20 >= 'a' && b|0x20 <= 'z' || b >= 0x80
}

func (w word) is(text string) bool { return !w.quoted && strings.EqualFold(w.text, text) }

// cutRowAlias finds the name of the new row before ON DUPLICATE KEY UPDATE, and is the text without
// it; the name is empty if there is none.
func cutRowAlias(text string) (plain string, alias RowAlias) {
	ws := wordsOf(text)
	for i, w := range ws {
		if !w.is("as") || i == 0 {
			continue
		}
		rest := ws[i+1:]
		if len(rest) < 3 {
			continue
		}
		a := RowAlias{Name: rest[0].text}
		rest = rest[1:]
		if rest[0].is("(") {
			for rest = rest[1:]; len(rest) > 2 && !rest[0].is(")"); rest = rest[1:] {
				if !rest[0].is(",") {
					a.Cols = append(a.Cols, rest[0].text)
				}
			}
			rest = rest[1:]
		}
		if len(rest) > 2 && rest[0].is("on") && rest[1].is("duplicate") {
			return text[:w.from] + text[rest[0].from:], a
		}
	}
	return "", RowAlias{}
}
