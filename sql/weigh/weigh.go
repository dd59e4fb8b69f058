// Package weigh says what the text of a statement would cost to parse, without parsing it: long
// texts are refused, or counted, before a parser sees them.
package weigh

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/token"
)

// What a long statement may cost before it is parsed.
const (
	// Least is how long a statement is at least that could be too much.
	Least = 100_000
	// mostDeep is how many operators may depend on each other: each is a step deeper for whatever
	// walks through the expression, and a stack that grows too far ends the process.
	mostDeep = 100_000
	// TokenBytes is about what a name, number or sign takes once it is parsed.
	TokenBytes = 256
	// listedBytes is about what one in the list of an IN takes until the statement ends. A list of
	// 200,000 numbers was measured to take 640 bytes for each, with the comma behind it, and 920 in
	// a DELETE; one of pairs 2,440.
	listedBytes = 384
)

// What is planned in a time that grows with the square of its width is bounded, as in MySQL the
// columns of a table are. (MySQL and MariaDB take longer lists of a SELECT.)
const (
	// mostWide is how many expressions a list of a query may have, of SELECT, GROUP BY, ORDER BY or
	// PARTITION BY.
	mostWide = 4096
	// leastWide is how long a text is at least that could have more.
	leastWide = 2 * mostWide
	// mostStars is how many times "t.*" may stand in one of them: each is all columns of a table.
	mostStars = 64
)

var errTooWide = mysql.NewSQLError(1117, "HY000", "Too many columns: a list of SELECT, GROUP BY, ORDER BY or PARTITION BY has "+
	"more than %d expressions, or %d times all columns of a table", mostWide, mostStars)

// mostDigits is how long a number may be.
const mostDigits = 65_536

var errLongNumber = mysql.NewSQLError(1426, "42000", "Too-big precision: a number of the statement has more than %d digits",
	mostDigits)

var errTooDeep = mysql.NewSQLError(1436, "HY000", "Thread stack overrun: more than %d operators of the statement depend on "+
	"each other: split it, or use IN", mostDeep)

// Refused is why a text is not parsed at all.
func (w Weight) Refused() error {
	switch {
	case w.Deep > mostDeep:
		return errTooDeep
	case w.Digits > mostDigits:
		return errLongNumber
	case w.Wide > mostWide || w.Stars > mostStars:
		return errTooWide
	}
	return nil
}

// Weight is what of a text matters to the cost of parsing it.
type Weight struct {
	Tokens int
	// Listed is how many of the tokens stand in the lists of INs.
	Listed int
	// Deep bounds how many operators depend on each other: those between two commas do, with those
	// around the parentheses that they stand in.
	Deep int
	// Digits is how long the longest number is. The time to read one grows with its square.
	Digits int
	// Wide is how many expressions the longest list of SELECT, GROUP BY, ORDER BY or PARTITION BY
	// has, Stars how many of one are all columns of a table.
	Wide, Stars int
}

// askEvery is how many bytes are looked at until it is asked again whether to go on.
const askEvery = 256 << 10

// Of looks at a text without parsing it. An error of ask, which is asked now and then, ends it.
func Of(query string, m token.Mode, ask func() error) (w Weight, err error) {
	type level struct {
		here  int  // operators since the last comma
		joins bool // the commas are between tables, of which each depends on those before
		list  int  // the number of tokens before the list of an IN, -1 if it is none
		wide  width
	}
	var open []level // before each parenthesis that is open
	sum, here, joins := 0, 0, false
	in, lists := -1, 0 // behind which token an IN stands; how many of its lists are open
	wide := width{}
	step := func() {
		here++
		w.Deep = max(w.Deep, sum+here)
	}
	for i, next := 0, askEvery; i < len(query); {
		if i >= next {
			if err := ask(); err != nil {
				return w, err
			}
			next = i + askEvery
		}
		c := query[i]
		if end := skipped(query, i, m); end > i {
			w.Tokens++
			i = end
			continue
		}
		switch {
		case c <= ' ':
		case tokenByte(c):
			end := i + 1
			for end < len(query) && tokenByte(query[end]) {
				end++
			}
			w.Tokens++
			if c >= '0' && c <= '9' && query[i+1:min(end, i+2)] != "x" {
				w.Digits = max(w.Digits, end-i)
			}
			switch word := strings.ToLower(query[i:min(end, i+longestOperator)]); {
			case operators[word]:
				step()
				if word == "in" {
					in = w.Tokens
				}
			case word == "from" || word == "update":
				joins = true
			case ends[word]:
				joins = false
			}
			wide.word(strings.ToLower(query[i:min(end, i+longestOperator)]))
			i = end
			continue
		case c == ',' && joins:
			w.Tokens++
			step()
		case c == ',' || c == ';':
			w.Tokens, here, joins = w.Tokens+1, 0, false
			if wide.comma(&w); c == ';' {
				wide = width{}
			}
		case c == '(':
			w.Tokens++
			step()
			list := -1
			if in == w.Tokens-1 {
				list, lists = w.Tokens, lists+1
			}
			open, sum = append(open, level{here, joins, list, wide}), sum+here
			here, joins, wide = 0, false, width{}
		case c == ')' && len(open) > 0:
			w.Tokens++
			last := open[len(open)-1]
			here, joins, wide = last.here, last.joins, last.wide
			if last.list >= 0 {
				if lists--; lists == 0 {
					w.Listed += w.Tokens - 1 - last.list
				}
			}
			open, sum = open[:len(open)-1], sum-here
		default:
			if c == '*' && i > 0 && query[i-1] == '.' {
				wide.star(&w)
			}
			w.Tokens++
			step()
		}
		i++
	}
	return w, nil
}

// width counts the expressions of the list of a query that a place in the text belongs to.
type width struct {
	items int // 0: it belongs to none
	stars int
}

func (n *width) word(w string) {
	switch {
	case wideLists[w]:
		*n = width{items: 1}
	case ends[w] || w == "from" || w == "update" || w == "union" || w == "except" || w == "intersect" || w == "into":
		*n = width{}
	}
}

func (n *width) comma(w *Weight) {
	if n.items > 0 {
		n.items++
		w.Wide = max(w.Wide, n.items)
	}
}

func (n *width) star(w *Weight) {
	if n.items > 0 {
		n.stars++
		w.Stars = max(w.Stars, n.stars)
	}
}

// starry reports whether a text may have more than n times "t.*".
func starry(text string, n int) bool { return len(text) > 4*n && strings.Count(text, ".*") > n }

// wideLists are the words that such lists begin with.
var wideLists = map[string]bool{"select": true, "group": true, "order": true, "partition": true}

// operators are the words that make an expression, or a query, deeper.
var operators = func() map[string]bool {
	out := map[string]bool{}
	for _, w := range strings.Fields(`and or not xor div mod in is like rlike regexp between collate binary interval case
		when then else union except intersect join straight_join begin if loop while repeat`) {
		out[w] = true
	}
	return out
}()

// ends are the words behind the tables of a statement.
var ends = map[string]bool{"where": true, "group": true, "having": true, "order": true, "limit": true, "window": true,
	"select": true, "set": true, "for": true}

// longestOperator is the length of the longest of them, and one more.
const longestOperator = 14

func tokenByte(c byte) bool {
	return c == '_' || c == '$' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80 || c == '.' || c == '@'
}

// skipped is where the string, quoted name or comment ends that begins at i; i if none does.
func skipped(s string, i int, m token.Mode) int {
	switch c := s[i]; {
	case c == '\'' || c == '"' || c == '`':
		return quoted(s, i, !m.NoBackslashEscapes && (c == '\'' || c == '"' && !m.ANSIQuotes))
	case c == '/' && strings.HasPrefix(s[i:], "/*") && !strings.HasPrefix(s[i:], "/*!"):
		if n := strings.Index(s[i+2:], "*/"); n >= 0 {
			return i + 2 + n + 2
		}
		return len(s)
	case c == '#' || c == '-' && strings.HasPrefix(s[i:], "-- "):
		if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
			return i + n
		}
		return len(s)
	}
	return i
}

// quoted is where the string or quoted name ends that begins at i. Long ones are documents and
// pictures: they are looked through at the speed of memory.
func quoted(s string, i int, escapes bool) int {
	c, escape := s[i], -1
	for k := i + 1; k < len(s); {
		if escapes && escape < k {
			if escape = strings.IndexByte(s[k:], '\\'); escape < 0 {
				escape = len(s)
			} else {
				escape += k
			}
		}
		end := strings.IndexByte(s[k:], c)
		switch {
		case end < 0:
			return len(s)
		case !escapes || k+end < escape:
			return k + end + 1
		}
		k = escape + 2
	}
	return len(s)
}

// mostForEngine is how many operators may depend on each other in what go-mysql-server parses: it
// derives types in time that grows with the square of that, and cannot be interrupted there. So
// many take some tenths of a second.
const mostForEngine = 2000

// It takes time that grows with the square of the width of a query, too: 1,000 expressions, or as
// many columns in 16 "t.*", take some tenths of a second.
const (
	mostWideForEngine  = 1000
	mostStarsForEngine = 16
)

// mostListedForEngine is how many values the lists of INs may have there: each of its rules goes
// through them all, 200,000 in 0.2 to 0.4 s.
const mostListedForEngine = 40_000

// leastForEngine is how long a text is at least that could have so many.
const leastForEngine = 2 * mostWideForEngine

var errTooWideForEngine = mysql.NewSQLError(1117, "HY000", "Too many columns: a list of SELECT, GROUP BY, ORDER BY or PARTITION "+
	"BY has more than %d expressions, or %d times all columns of a table, which only our own engine takes", mostWideForEngine,
	mostStarsForEngine)

var errTooDeepForEngine = mysql.NewSQLError(1436, "HY000", "Thread stack overrun: more than %d operators of the statement "+
	"depend on each other, which only our own engine takes: split it, or use IN", mostForEngine)

var errTooListedForEngine = mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support 'more than %d values in "+
	"lists of IN, in a statement that our own engine does not take': put them into a table", mostListedForEngine)

// ForEngine is why go-mysql-server is not given a text.
func ForEngine(ctx context.Context, query string) error {
	sctx, ok := ctx.(*sql.Context)
	if !ok || len(query) < leastForEngine && !starry(query, mostStarsForEngine) {
		return nil
	}
	w, err := Of(query, token.ModeOf(sql.LoadSqlMode(sctx).String()), ctx.Err)
	switch {
	case err != nil:
	case w.Deep > mostForEngine:
		err = errTooDeepForEngine
	case (w.Listed+1)/2 > mostListedForEngine: // their commas count, too
		err = errTooListedForEngine
	case w.Wide > mostWideForEngine || w.Stars > mostStarsForEngine:
		err = errTooWideForEngine
	}
	return err
}
