package query

import (
	"fmt"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/session"
)

// What a long statement may cost before it is parsed.
const (
	// weighed is how long a statement is at least that could be too much.
	weighed = 100_000
	// mostDeep is how many operators may depend on each other: each is a step deeper for whatever
	// walks through the expression, and a stack that grows too far ends the process.
	mostDeep = 100_000
	// tokenBytes is about what a name, number or sign takes once it is parsed.
	tokenBytes = 256
)

// mostDigits is how long a number may be.
const mostDigits = 65_536

var errLongNumber = mysql.NewSQLError(1426, "42000", "Too-big precision: a number of the statement has more than %d digits",
	mostDigits)

var errTooDeep = mysql.NewSQLError(1436, "HY000", "Thread stack overrun: more than %d operators of the statement depend on "+
	"each other: split it, or use IN", mostDeep)

// Admit refuses a statement that would take too much to parse, whoever parses it, and takes the
// memory that this needs from the node's budget until done is called.
func (r *Runner) Admit(s *session.Session, query string) (done func(), err error) {
	if len(query) < weighed {
		return func() {}, nil
	}
	mode, _ := s.GetSessionVariable(sql.NewEmptyContext(), sql.SqlModeSessionVar)
	w := weigh(query, bind.ModeOf(fmt.Sprint(mode)))
	if err := w.refused(); err != nil {
		return nil, err
	}
	mem, n := r.Memory(), int64(w.tokens)*tokenBytes
	if err := mem.Grow(n); err != nil {
		return nil, err
	}
	return func() { mem.Shrink(n) }, nil
}

// AdmitText does so for a text that no client has sent as it is, such as what PREPARE gets from a
// variable. No more may be taken than a statement may keep.
func (r *Runner) AdmitText(ctx *sql.Context, text string) (done func(), err error) {
	if len(text) < weighed {
		return func() {}, nil
	}
	w := weigh(text, bind.ModeOf(sql.LoadSqlMode(ctx).String()))
	if err := w.refused(); err != nil {
		return nil, err
	}
	mem := r.Budget()
	if err := mem.Grow(int64(w.tokens) * tokenBytes); err != nil {
		return nil, err
	}
	return mem.Release, nil
}

// refused is why a text is not parsed at all.
func (w weight) refused() error {
	switch {
	case w.deep > mostDeep:
		return errTooDeep
	case w.digits > mostDigits:
		return errLongNumber
	}
	return nil
}

// weight is what of a text matters to the cost of parsing it.
type weight struct {
	tokens int
	// deep bounds how many operators depend on each other: those between two commas do, with those
	// around the parentheses that they stand in.
	deep int
	// digits is how long the longest number is. The time to read one grows with its square.
	digits int
}

// weigh looks at a text without parsing it.
func weigh(query string, m bind.Mode) weight {
	var w weight
	type level struct {
		here  int  // operators since the last comma
		joins bool // the commas are between tables, of which each depends on those before
	}
	var open []level // before each parenthesis that is open
	sum, here, joins := 0, 0, false
	step := func() {
		here++
		w.deep = max(w.deep, sum+here)
	}
	for i := 0; i < len(query); {
		c := query[i]
		if end := skipped(query, i, m); end > i {
			w.tokens++
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
			w.tokens++
			if c >= '0' && c <= '9' && query[i+1:min(end, i+2)] != "x" {
				w.digits = max(w.digits, end-i)
			}
			switch word := strings.ToLower(query[i:min(end, i+longestOperator)]); {
			case operators[word]:
				step()
			case word == "from" || word == "update":
				joins = true
			case ends[word]:
				joins = false
			}
			i = end
			continue
		case c == ',' && joins:
			w.tokens++
			step()
		case c == ',' || c == ';':
			w.tokens, here, joins = w.tokens+1, 0, false
		case c == '(':
			w.tokens++
			step()
			open, sum = append(open, level{here, joins}), sum+here
			here, joins = 0, false
		case c == ')' && len(open) > 0:
			w.tokens++
			last := open[len(open)-1]
			here, joins = last.here, last.joins
			open, sum = open[:len(open)-1], sum-here
		default:
			w.tokens++
			step()
		}
		i++
	}
	return w
}

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

func tokenByte(c byte) bool { return wordByte(c) || c == '.' || c == '@' }

// skipped is where the string, quoted name or comment ends that begins at i; i if none does.
func skipped(s string, i int, m bind.Mode) int {
	switch c := s[i]; {
	case c == '\'' || c == '"' || c == '`':
		escapes := !m.NoBackslashEscapes && (c == '\'' || c == '"' && !m.ANSIQuotes)
		for k := i + 1; k < len(s); k++ {
			switch {
			case s[k] == '\\' && escapes:
				k++
			case s[k] == c:
				return k + 1
			}
		}
		return len(s)
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
