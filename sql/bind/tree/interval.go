package tree

import (
	"strings"

	"github.com/godwitdb/godwit/base"
)

// The parser takes INTERVAL (n) DAY for a call of the function INTERVAL, with DAY as an alias or a
// wrong word behind it. A sign before the parentheses keeps it from that; the comment makes it
// possible to take it out of names again.
const intervalSign = "/**/+"

// signIntervals puts a sign into each INTERVAL (n) unit. The function has at least two arguments.
func signIntervals(text string) string {
	if !base.ContainsFold(text, "interval") {
		return text
	}
	var out strings.Builder
	from := 0
	ws := wordsOf(text)
	for i, w := range ws {
		if w.is("interval") && i+1 < len(ws) && ws[i+1].is("(") && oneArgument(ws[i+2:]) {
			out.WriteString(text[from:ws[i+1].from] + intervalSign)
			from = ws[i+1].from
		}
	}
	return out.String() + text[from:]
}

// oneArgument reports whether the parentheses that are open hold no comma.
func oneArgument(ws []word) bool {
	depth := 0
	for _, w := range ws {
		switch {
		case w.is("("):
			depth++
		case w.is(")") && depth == 0:
			return true
		case w.is(")"):
			depth--
		case w.is(",") && depth == 0:
			return false
		}
	}
	return false
}

// Unsigned is a text of a statement without what signIntervals has put into it.
func Unsigned(text string) string { return strings.ReplaceAll(text, intervalSign, "") }
