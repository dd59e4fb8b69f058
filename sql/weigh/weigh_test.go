package weigh

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

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
		w, err := Of(c.text, c.mode, goOn)
		if err != nil || w.Deep < c.deep || w.Deep > c.deep+10 || w.Tokens < c.tokens {
			t.Errorf("%.30s...: %+v, want %d deep and at least %d tokens", c.text, w, c.deep, c.tokens)
		}
	}
}

func goOn() error { return nil }

// budget is a memory of any size.
type budget struct{ used int64 }

// Grow implements Memory.
func (b *budget) Grow(n int64) error { b.used += n; return nil }

// Shrink implements Memory.
func (b *budget) Shrink(n int64) { b.used -= n }

// TestLists: the lists of INs count to what the statement may keep, and no others do.
func TestLists(t *testing.T) {
	many := strings.Repeat("1, ", 100_000)
	for _, c := range []struct {
		text   string
		listed int
	}{
		{"SELECT a FROM t WHERE a IN (" + many + "1) AND b = f(" + many + "2)", 200_001},
		{"SELECT a FROM t WHERE a NOT IN(" + many + "1)", 200_001},
		{"SELECT a FROM t WHERE (a, b) /* x */ in ((1, 2), " + strings.Repeat("(1, 2), ", 50_000) + "(1, 2))", 300_011},
		{"SELECT a FROM t WHERE a IN (SELECT b FROM u WHERE b IN (" + many + "1))", 200_010},
		{"INSERT INTO `in` VALUES (" + many + "'in (')", 0},
	} {
		mem := &budget{}
		mode := func() token.Mode { return token.Mode{} }
		for _, most := range []int64{int64(c.listed) * listedBytes, int64(c.listed)*listedBytes - 1} {
			_, listed, done, err := Admit(c.text, mode, goOn, func() Memory { return mem }, func() int64 { return most })
			if fits := most == int64(c.listed)*listedBytes || c.listed == 0 && most >= 0; fits != (err == nil) {
				t.Fatalf("%.50s: %v with %d bytes", c.text, err, most)
			}
			if err != nil {
				if err != errLists || mem.used != 0 {
					t.Errorf("%.50s: %v, %d bytes taken", c.text, err, mem.used)
				}
				continue
			}
			if done(); listed != int64(c.listed)*listedBytes || mem.used != 0 {
				t.Errorf("%.50s: %d tokens, want %d; %d bytes taken", c.text, listed/listedBytes, c.listed, mem.used)
			}
		}
	}
}

// TestWidth: how wide the lists of a query are, whatever stands in and behind them.
func TestWidth(t *testing.T) {
	many := func(s string) string { return strings.Repeat(s, mostWide-1) }
	for _, c := range []struct {
		text        string
		wide, stars int
	}{
		{"SELECT " + many("1, ") + "1", mostWide, 0},
		{"SELECT " + many("f(1, 2), ") + "1, 2 FROM t, u ORDER BY 1, 2", mostWide + 1, 0},
		{"SELECT 1 FROM t GROUP BY " + many("a, ") + "a, a", mostWide + 1, 0},
		{"SELECT 1 FROM t WHERE a IN (" + many("1, ") + "1) ORDER BY a, b", 2, 0},
		{"SELECT 1 FROM t ORDER BY " + many("(SELECT 1, 2), ") + "1, 2 LIMIT 1, 2", mostWide + 1, 0},
		{"SELECT SUM(a) OVER (PARTITION BY " + many("a, ") + "a, 1 ORDER BY a) FROM t", mostWide + 1, 0},
		{"SELECT f(" + many("1, ") + "1, 2), 'a, b, c' FROM t", 2, 0},
		{"INSERT INTO t VALUES " + many("(1, 2), ") + "(1, 2)", 0, 0},
		{"INSERT INTO t (a, b) SELECT a, b FROM t ON DUPLICATE KEY UPDATE " + many("a = 1, ") + "a = 1", 2, 0},
		{"UPDATE t SET " + many("a = 1, ") + "a = 1", 0, 0},
		{"SET " + many("@a = 1, ") + "@a = 1", 0, 0},
		{many("SELECT 1;"), 2, 0},
		{"SELECT 1" + many(";"), 2, 0},
		{"GRANT " + many("SELECT (a), ") + "SELECT (b) ON t TO u", 2, 0},
		{"SELECT " + strings.Repeat("t.*, ", mostStars) + "a * b, t.* FROM t", mostStars + 2, mostStars + 1},
	} {
		w, err := Of(c.text, token.Mode{}, func() error { return nil })
		if err != nil || w.Wide != c.wide || w.Stars != c.stars {
			t.Errorf("%.60s: %d expressions, %d stars, %v, want %d and %d", c.text, w.Wide, w.Stars, err, c.wide, c.stars)
		}
		if refused := w.Refused() != nil; refused != (c.wide > mostWide || c.stars > mostStars) {
			t.Errorf("%.60s: refused is %v", c.text, refused)
		}
	}
}

// TestWeighAsks: a long text is not looked at to its end when the statement is told to end.
func TestWeighAsks(t *testing.T) {
	killed, asked := errors.New("killed"), 0
	text := "SELECT 1 IN (" + strings.Repeat("1, '\\'', ", askEvery/2) + "1)"
	w, err := Of(text, token.Mode{}, func() error {
		if asked++; asked == 2 {
			return killed
		}
		return nil
	})
	if err != killed || w.Tokens > len(text)/4 {
		t.Errorf("%v after %d of %d bytes", err, w.Tokens, len(text))
	}
}

// TestForEngine: what the engine would take long to analyze is refused.
func TestForEngine(t *testing.T) {
	long := func(n int) string { return "SELECT " + strings.Repeat("1 + ", n) + "1" }
	if err := ForEngine(sql.NewEmptyContext(), long(mostForEngine-1)); err != nil {
		t.Error(err)
	}
	if err := ForEngine(sql.NewEmptyContext(), long(mostForEngine+1)); err != errTooDeepForEngine {
		t.Error(err)
	}
	in := func(n int) string { return "SELECT a FROM t WHERE a IN (1" + strings.Repeat(", 1", n-1) + ")" }
	if err := ForEngine(sql.NewEmptyContext(), in(mostListedForEngine)); err != nil {
		t.Error(err)
	}
	if err := ForEngine(sql.NewEmptyContext(), in(mostListedForEngine+1)); err != errTooListedForEngine {
		t.Error(err)
	}
}

// TestExpanded: a statement that uses its WITHs too often is refused, wherever they stand, and one
// that uses them seldom is not.
func TestExpanded(t *testing.T) {
	chain := func(n, uses int) string {
		q := "c0 AS (SELECT 1 AS a)"
		for i := 1; i < n; i++ {
			q += fmt.Sprintf(", c%d AS (SELECT c%d.a FROM c%d", i, i-1, i-1) + strings.Repeat(fmt.Sprintf(", c%d x", i-1), uses-1) + ")"
		}
		return q
	}
	for _, c := range []struct {
		q    string
		want error
	}{
		{"SELECT a FROM t", nil},
		{"WITH " + chain(100, 1) + " SELECT a FROM c99", nil},
		{"WITH " + chain(13, 2) + " SELECT a FROM c12", nil},
		{"WITH " + chain(40, 2) + " SELECT a FROM c39", errBlocks},
		{"INSERT INTO t WITH " + chain(40, 2) + " SELECT a FROM c39", errBlocks},
		{"SELECT (WITH " + chain(40, 2) + " SELECT a FROM c39)", errBlocks},
		{"WITH o AS (WITH " + chain(12, 2) + " SELECT a FROM c11), p AS (SELECT x.a FROM o x, o y), q AS (SELECT x.a FROM p x, p y) SELECT a FROM q, q z",
			errBlocks},
		{"WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 9) SELECT n FROM r", nil},
	} {
		stmt, err := sqlparser.Parse(c.q)
		if err != nil {
			t.Fatal(err)
		}
		if err := Expanded(stmt); err != c.want {
			t.Errorf("%.60s...: %v, want %v", c.q, err, c.want)
		}
	}
}

// FuzzWeigh: any text is weighed, and weighs no more than its length.
func FuzzWeigh(f *testing.F) {
	for _, q := range []string{"", "SELECT 1 + (2, 3)", "'\\", "/* x", "-- y\n)(", "a.b@`c`", "FROM a, b WHERE c", "/*!1", "\"\\\"'"} {
		f.Add(q, true, false)
	}
	f.Fuzz(func(t *testing.T, q string, ansi, plain bool) {
		w, err := Of(q, token.Mode{ANSIQuotes: ansi, NoBackslashEscapes: plain}, goOn)
		if err != nil || w.Tokens > len(q) || w.Deep > len(q) || w.Tokens < 0 || w.Deep < 0 {
			t.Errorf("%q weighs %+v", q, w)
		}
	})
}
