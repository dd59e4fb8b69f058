package weigh

import (
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/token"
)

// What is in strings, names and comments is no operator, and what stands between commas does not
// depend on each other.
func TestWeigh(t *testing.T) {
	many := func(s string) string { return strings.Repeat(s, 1000) }
	for _, c := range []struct {
		text   string
		deep   int // at least, and at most 10 more
		tokens int // at least
		mode   token.Mode
	}{
		{"SELECT " + many("1+") + "1", 1000, 2000, token.Mode{}},
		{"SELECT " + many("NOT ") + "1", 1000, 1000, token.Mode{}},
		{"SELECT " + many("(") + "1" + many(")"), 1000, 2000, token.Mode{}},
		{"SELECT " + many("f(1, ") + "1" + many(")"), 1000, 3000, token.Mode{}},
		{"SELECT 1" + many(" UNION SELECT 1"), 1000, 3000, token.Mode{}},
		{"SELECT 1 FROM " + many("t, ") + "t", 1000, 2000, token.Mode{}},
		{"SELECT 1 FROM t WHERE a IN (" + many("1, ") + "1) ORDER BY " + many("a, ") + "a", 2, 4000, token.Mode{}},
		{"UPDATE t SET " + many("a = 1, ") + "a = 1", 1, 4000, token.Mode{}},
		{"SELECT * FROM t" + many(" STRAIGHT_JOIN t"), 1000, 2000, token.Mode{}},
		{"SELECT 1 IN (" + many("1,") + "1)", 2, 2000, token.Mode{}},
		{"INSERT INTO t VALUES " + many("(1, -1), ") + "(1, 1)", 2, 5000, token.Mode{}},
		{"SELECT '" + many("+'' \\' ") + "'", 0, 2, token.Mode{}},
		{"SELECT '\\', '" + many("+") + "'", 0, 2, token.Mode{NoBackslashEscapes: true}},
		{"SELECT '\\'" + many("+1"), 1000, 2000, token.Mode{NoBackslashEscapes: true}},
		{"SELECT \"\\\"" + many("+1"), 1000, 2000, token.Mode{ANSIQuotes: true}},
		{"SELECT `" + many("+\\") + "`", 0, 2, token.Mode{}},
		{"SELECT 1 /* " + many("+") + " */ -- " + many("+") + "\n # " + many("+") + "\n", 0, 2, token.Mode{}},
		{"SELECT 1 /*! " + many("+1") + " */", 1000, 2000, token.Mode{}},
	} {
		w := Of(c.text, c.mode)
		if w.Deep < c.deep || w.Deep > c.deep+10 || w.Tokens < c.tokens {
			t.Errorf("%.30s...: %+v, want %d deep and at least %d tokens", c.text, w, c.deep, c.tokens)
		}
	}
}

// FuzzWeigh: any text is weighed, and weighs no more than its length.
func FuzzWeigh(f *testing.F) {
	for _, q := range []string{"", "SELECT 1 + (2, 3)", "'\\", "/* x", "-- y\n)(", "a.b@`c`", "FROM a, b WHERE c", "/*!1", "\"\\\"'"} {
		f.Add(q, true, false)
	}
	f.Fuzz(func(t *testing.T, q string, ansi, plain bool) {
		w := Of(q, token.Mode{ANSIQuotes: ansi, NoBackslashEscapes: plain})
		if w.Tokens > len(q) || w.Deep > len(q) || w.Tokens < 0 || w.Deep < 0 {
			t.Errorf("%q weighs %+v", q, w)
		}
	})
}
