package sqldiff

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// TestSeeds: a seed makes the same schema and statements again, another one others; statements are
// of all kinds.
func TestSeeds(t *testing.T) {
	text := func(seed uint64) string {
		r := rand.New(rand.NewPCG(seed, 1))
		s := NewSchema(r)
		g := NewGen(r, s)
		out := s.DDL()
		for range 300 {
			out = append(out, g.Query().Root.String(), g.Change().Root.String())
			for _, st := range g.Transaction() {
				out = append(out, st.Root.String())
			}
			for _, rel := range []*Relation{g.Partition(), g.NoRec(), g.Pivot()} {
				l, r := rel.Queries(rel.Items.String(), rel.From.String(), rel.Cond.String())
				out = append(append(out, l...), r...)
			}
		}
		return strings.Join(out, "\n")
	}
	a := text(1)
	if text(1) != a {
		t.Error("a seed does not make the same statements again")
	}
	if text(2) == a {
		t.Error("another seed makes the same statements")
	}
	for _, w := range []string{
		"LEFT JOIN", "RIGHT JOIN", "CROSS JOIN", "USING", "EXISTS", "NOT IN", "> ALL", "GROUP BY",
		"HAVING", "DISTINCT", "UNION ALL", "EXCEPT", "INTERSECT", "OVER (", "WITH RECURSIVE",
		"ORDER BY", "LIMIT", "OFFSET", "ON DUPLICATE KEY", "REPLACE INTO", "INSERT IGNORE", "DELETE me FROM",
		"UPDATE", "UPDATE vt", "INTO wt", "CHECK OPTION", "SAVEPOINT", "IS UNKNOWN", "LIKE", "CASE",
	} {
		if !strings.Contains(a, w) {
			t.Errorf("no statement has %s", w)
		}
	}
	if strings.Contains(a, "$") {
		t.Error("a form is not filled in")
	}
}

// TestReduce: what does not matter is left out, and what does is kept.
func TestReduce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	g := NewGen(r, NewSchema(r))
	reduced := 0
	for range 2000 {
		st := g.Query()
		q := st.Root.String()
		if !strings.Contains(q, "GREATEST(") || len(q) < 300 {
			continue
		}
		small := Reduce(st.Root, 2000, func(q string) bool { return strings.Contains(q, "GREATEST(") }).String()
		if !strings.Contains(small, "GREATEST(") {
			t.Fatalf("%s\nbecame\n%s", q, small)
		}
		if len(small) > 220 {
			t.Errorf("%s\nbecame only\n%s", q, small)
		}
		reduced++
	}
	if reduced < 10 {
		t.Errorf("%d statements were tried", reduced)
	}
}

// TestCompare: what is the same is found to be, and what is not gets its class.
func TestCompare(t *testing.T) {
	rows := func(types []Kind, rs ...[]string) *Result { return &Result{Types: types, Rows: rs} }
	one := func(k Kind, vs ...string) *Result {
		r := &Result{Types: []Kind{k}}
		for _, v := range vs {
			r.Rows = append(r.Rows, []string{v})
		}
		return r
	}
	for _, c := range []struct {
		name      string
		st        Statement
		sql       string
		got, want *Result
		class     string
	}{
		{"a bag", Statement{}, "", one(Int, "1", "2"), one(Int, "2", "1"), Same},
		{"how often", Statement{}, "", one(Int, "1", "1", "2"), one(Int, "2", "2", "1"), Rows},
		{"a row too many", Statement{}, "", one(Int, "1", "2"), one(Int, "1"), Rows},
		{"NULL is no text", Statement{}, "", one(Text, null), one(Text, "NULL"), Rows},
		{"an order", Statement{Ordered: 1}, "", one(Int, "1", "2"), one(Int, "2", "1"), Order},
		{"ties", Statement{Ordered: 1}, "", rows([]Kind{Int, Int}, []string{"1", "5"}, []string{"1", "6"}),
			rows([]Kind{Int, Int}, []string{"1", "6"}, []string{"1", "5"}), Same},
		{"ties that are cut", Statement{Ordered: 1, Cut: true}, "", rows([]Kind{Int, Int}, []string{"1", "5"}),
			rows([]Kind{Int, Int}, []string{"1", "6"}), Same},
		{"a cut without order", Statement{Ordered: 1, Cut: true}, "", rows([]Kind{Int, Int}, []string{"2", "5"}),
			rows([]Kind{Int, Int}, []string{"1", "6"}), Rows},
		{"digits", Statement{}, "", one(Decimal, "1.50"), one(Decimal, "1.5"), Digits},
		{"exact numbers", Statement{}, "", one(Decimal, "12345678901234567890.13"),
			one(Decimal, "12345678901234567890.14"), Rows},
		{"doubles", Statement{}, "", one(Double, "0.30000000000000004"), one(Double, "0.3"), Same},
		{"other doubles", Statement{}, "", one(Double, "0.31"), one(Double, "0.3"), Rows},
		{"a type", Statement{}, "", one(Double, "3"), one(Decimal, "3"), TypeClass},
		{"a type of NULL", Statement{}, "", one(Double, null), one(Decimal, null), Same},
		{"case", Statement{}, "SELECT x", one(Text, "One"), one(Text, "ONE"), Rows},
		{"any of equal texts", Statement{}, "SELECT DISTINCT x", one(Text, "One"), one(Text, "ONE"), Same},
		{"an error", Statement{}, "", &Result{Errno: 1105}, one(Int, "1"), ErrorHere},
		{"no error", Statement{}, "", one(Int, "1"), &Result{Errno: 1690}, ErrorGone},
		{"the same error", Statement{}, "", &Result{Errno: 1690}, &Result{Errno: 1690}, Same},
		{"another error", Statement{}, "", &Result{Errno: 1105}, &Result{Errno: 1690}, ErrorNo},
		{"a statement that nobody judges", Statement{}, "", one(Int, "1"), &Result{Errno: syntaxError}, Same},
		{"no connection", Statement{}, "", &Result{Errno: lostConnection}, one(Int, "1"), Lost},
		{"columns", Statement{}, "", one(Int, "1"), rows([]Kind{Int, Int}, []string{"1", "5"}), Width},
		{"changed rows", Statement{}, "", &Result{Affected: 2}, &Result{Affected: 1}, Affected},
	} {
		if class, detail := Compare(&c.st, c.sql, c.got, c.want); class != c.class {
			t.Errorf("%s: %q (%s), not %q", c.name, class, detail, c.class)
		}
	}
}

// TestShape: a class has neither names nor constants.
func TestShape(t *testing.T) {
	a := Shape(`SELECT a1.c0 AS x0 FROM t1 a1 WHERE a1.c3 IN ('a\'b', 'c') AND a1.id = 17`)
	b := Shape(`SELECT a7.id AS x2 FROM t3 a7 WHERE a7.c1 IN ('', 'x', 'y') AND a7.c0 = 1.5e3`)
	if a != b || strings.Contains(a, "17") {
		t.Errorf("%s\n%s", a, b)
	}
}
