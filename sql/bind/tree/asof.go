package tree

import (
	"regexp"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/token"
)

var reAsOf = regexp.MustCompile(`(?i)\bAS\s+OF\b`)

// plainAsOf brings the forms of AS OF behind a table to the only one that the parser knows: the
// alias, then AS OF TIMESTAMP. Clients write it before the alias too, with SYSTEM TIME instead of
// TIMESTAMP or with nothing, and as MariaDB has it: FOR SYSTEM_TIME AS OF.
func plainAsOf(text string, m Mode) string {
	if !base.ContainsFold(text, "OF") || !reAsOf.MatchString(text) {
		return text
	}
	ts := token.Scan(text, token.Mode{ANSIQuotes: m.ANSIQuotes, NoBackslashEscapes: m.NoBackslashEscapes})
	var out strings.Builder
	at := 0
	for i := 0; i+2 < len(ts); i++ {
		if !ts[i].Is("as") || !ts[i+1].Is("of") {
			continue
		}
		from, next := i, i+2
		if i >= 2 && ts[i-1].Is("system_time") && ts[i-2].Is("for") {
			from = i - 2
		}
		timestamp := ts[next].Is("timestamp")
		switch {
		case timestamp:
			next++
		case ts[next].Is("system") && ts[next+1].Is("time"):
			next += 2
		}
		end := operandEnd(ts, next)
		if end == next {
			continue // AS of is an alias
		}
		alias, after := "", end
		if ts[after].Is("as") {
			after++
		}
		if ts[after].Named() && !behindTable(ts[after]) {
			alias = text[ts[after].From:ts[after].To] + " "
			after++
		} else {
			after = end
		}
		i = end - 1
		if alias == "" && timestamp && from+2 == next-1 {
			continue // it is in this form, and names of columns stay as they were written
		}
		out.WriteString(text[at:ts[from].From] + alias + "AS OF TIMESTAMP (" + text[ts[next].From:ts[end-1].To] + ")")
		at = ts[after-1].To
	}
	return out.String() + text[at:]
}

// behindTable reports whether a word is one that may follow a table, and is no alias of it.
func behindTable(t token.Token) bool {
	return t.Is("where", "join", "inner", "left", "right", "cross", "straight_join", "natural", "on", "using", "group", "order",
		"having", "limit", "union", "except", "intersect", "for", "window", "use", "force", "ignore", "lock", "procedure", "into",
		"set", "as", "tablesample", "partition", "values", "full", "from", "end", "then", "do")
}

// operandEnd is the position behind the expression that begins at a token; the same if there is
// none.
func operandEnd(ts []token.Token, first int) int {
	i := first
	whole, interval := false, false // an operand stands before; INTERVAL without its unit, too
	for ; i < len(ts); i++ {
		t := ts[i]
		switch {
		case t.Kind == token.End || t.Is(",", ")", ";"):
			return i
		case t.Is("("):
			i = closing(ts, i)
			if ts[i].Kind == token.End {
				return first
			}
			whole = true
		case t.Is("div", "mod", "collate"):
			whole = false
		case whole && interval && t.Kind == token.Word:
			interval = false // the unit
		case whole && t.Named(), t.Is("from", "as"):
			return i
		case t.Is("interval"):
			interval = true
		case t.Kind == token.Op:
			whole = false
		default:
			whole = true
		}
	}
	return i
}

// closing is the position of the parenthesis that closes one, or the end.
func closing(ts []token.Token, i int) int {
	depth := 0
	for ; ts[i].Kind != token.End; i++ {
		if ts[i].Is("(") {
			depth++
		} else if ts[i].Is(")") {
			if depth--; depth == 0 {
				break
			}
		}
	}
	return i
}
