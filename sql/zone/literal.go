package zone

import (
	"strconv"
	"strings"
	"time"

	"github.com/godwitdb/godwit/sql/expr/calendar"
)

// The literal that a TIMESTAMP has by default is the moment that the session which declares it
// means. Definitions have it in UTC.

// parseLiteral reads a literal of a date with a time: a text in quotes or a number.
func parseLiteral(text string) (p int64, ok bool) {
	text = strings.TrimSpace(text)
	if n := len(text); n > 1 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		x, ok := calendar.ParseDatetime(text[1 : n-1])
		if !ok || x.Trailing || x.Zoned {
			return 0, false
		}
		p, ok = x.Packed()
		return p, ok && calendar.Complete(p)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, false
	}
	t, _, ok := calendar.FromNumber(n)
	p = calendar.Pack(t)
	return p, ok && calendar.Complete(p)
}

// literalOf is a packed value as a text without quotes.
func literalOf(p int64) string {
	digits := 0
	if calendar.Unpack(p).Micro != 0 {
		digits = 6
	}
	return string(calendar.AppendDatetime(nil, p, digits))
}

// Declared is a literal of a session's zone in UTC, without quotes; ok is false if it is none, or
// one that stands for no moment.
func Declared(literal string, loc *time.Location) (utc string, ok bool) {
	p, ok := parseLiteral(literal)
	if !ok {
		return "", false
	}
	return literalOf(calendar.Shift(p, loc, time.UTC)), true
}

// Shown is a literal of a definition as a session's clock shows it, without quotes.
func Shown(literal string, loc *time.Location) (text string, ok bool) {
	p, ok := parseLiteral(literal)
	if !ok {
		return "", false
	}
	return literalOf(calendar.Shift(p, time.UTC, loc)), true
}

// Fixed is a literal of a definition with the offset of UTC, so that it is the same moment in all
// sessions. What is no such literal is left as it is.
func Fixed(literal string) string {
	p, ok := parseLiteral(literal)
	if !ok {
		return literal
	}
	return "'" + literalOf(p) + "+00:00'"
}
