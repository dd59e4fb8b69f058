package sqldiff

import (
	"context"
	"path/filepath"
	"slices"
	"testing"
)

// TestText: forms stand in the place of others, for all kinds of kids or for some, and notes of
// columns are kept.
func TestText(t *testing.T) {
	year := leaf(Int, "a1.c2")
	year.Note = noteYear
	row := node(Bool, "(($, $) = ($, $))", leaf(Int, "a"), leaf(Int, "b"), leaf(Int, "1"), node(Int, "($ + $)", year, leaf(Int, "2")))
	n := node(Bool, "($ AND $)", row, node(Bool, "($ = $)", leaf(Double, "1.5e0"), leaf(Int, "c")))
	for _, c := range []struct {
		forms map[string]string
		want  string
	}{
		{nil, "(((a, b) = (1, (a1.c2 + 2))) AND (1.5e0 = c))"},
		{map[string]string{"(($, $) = ($, $))": "(($1 = $3) AND ($2 = $4))"},
			"(((a = 1) AND (b = (a1.c2 + 2))) AND (1.5e0 = c))"},
		{map[string]string{"double integer ($ = $)": "($1 = ($2 + 0e0))", noteYear: "($1 + 0)"},
			"(((a, b) = (1, ((a1.c2 + 0) + 2))) AND (1.5e0 = (c + 0e0)))"},
		{map[string]string{"integer integer ($ = $)": "x"}, "(((a, b) = (1, (a1.c2 + 2))) AND (1.5e0 = c))"},
	} {
		if got := n.Text(c.forms); got != c.want {
			t.Errorf("%v: %s\nnot %s", c.forms, got, c.want)
		}
	}
	d := Difference{St: &Statement{Root: n}}
	if !d.has(map[string]string{noteYear: ""}) || !d.has(map[string]string{"double integer ($ = $)": ""}) ||
		d.has(map[string]string{"integer integer ($ = $)": ""}) {
		t.Error("has does not say which forms are there")
	}
}

// TestRules: the rules that ask no server hold for what they are about, and for nothing near it.
func TestRules(t *testing.T) {
	st := func(q string) *Statement { return &Statement{Root: leaf(Query, q)} }
	number := func(n int) *Result { return &Result{Errno: n} }
	set := &Table{Name: "t1", Cols: []*Column{{Name: "id", Type: "INT"}, {Name: "c0", Type: "SET('x')"}}}
	w := &worker{schema: &Schema{Tables: []*Table{set}}}
	rows := func(s, id string) *Result { return &Result{Types: []Kind{Int, Text}, Rows: [][]string{{id, s}}} }
	for _, c := range []struct {
		rule string
		d    Difference
		want bool
	}{
		{"the type of a UNION of unsigned and signed integers, and NULL", Difference{Class: TypeClass,
			Detail: "column 1 is integer instead of decimal", SQL: "SELECT a UNION SELECT b"}, true},
		{"the type of a UNION of unsigned and signed integers, and NULL", Difference{Class: Rows,
			Detail: "column 1 is integer instead of decimal", SQL: "SELECT a UNION SELECT b"}, false},
		{"the type of a UNION of unsigned and signed integers, and NULL", Difference{Class: TypeClass,
			Detail: "column 1 is text instead of decimal", SQL: "SELECT a UNION SELECT b"}, false},
		{"INSERT IGNORE of a row that a CHECK OPTION forbids", Difference{Class: ErrorGone, Got: &Result{}, Want: number(1369),
			St: st("INSERT IGNORE INTO v VALUES (1)")}, true},
		{"INSERT IGNORE of a row that a CHECK OPTION forbids", Difference{Class: ErrorGone, Got: &Result{}, Want: number(1369),
			St: st("INSERT INTO v VALUES (1)")}, false},
		{"the plan decides which of several wrong values is found first", Difference{Class: ErrorNo, Got: number(1292),
			Want: number(1365), St: st("DELETE FROM t"), Sts: []*Statement{st("DELETE FROM t")}}, true},
		{"the plan decides which of several wrong values is found first", Difference{Class: ErrorNo, Got: number(1292),
			Want: number(1062), St: st("INSERT INTO t VALUES (1)"), Sts: []*Statement{st("")}}, false},
		{"the plan decides which of several wrong values is found first", Difference{Class: ErrorNo, Got: number(1105),
			Want: number(1365), St: st("DELETE FROM t"), Sts: []*Statement{st("")}}, false},
		{"a text that is no member of a SET, but a number of more members than it has, is ''", Difference{Class: Stored,
			Detail: "SELECT * FROM t1: rows", SQL: "INSERT IGNORE INTO t1", Got: rows("", "1"), Want: rows("x", "1")}, true},
		{"a text that is no member of a SET, but a number of more members than it has, is ''", Difference{Class: Stored,
			Detail: "SELECT * FROM t1: rows", SQL: "INSERT IGNORE INTO t1", Got: rows("", "1"), Want: rows("x", "2")}, false},
	} {
		i := slices.IndexFunc(rules, func(r rule) bool { return r.Name == c.rule })
		if i < 0 {
			t.Fatalf("there is no rule %q", c.rule)
		}
		if got := rules[i].holds(context.Background(), w, &c.d); got != c.want {
			t.Errorf("%q holds: %v, for %+v", c.rule, got, c.d)
		}
	}
}

// TestJournal: a journal says which rounds are done, and which are to be run anew; the last line
// of a seed counts, and one that was cut short does not.
func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j")
	open := func(build string) *Journal {
		j, err := OpenJournal(path, build)
		if err != nil {
			t.Fatal(err)
		}
		return j
	}
	round := func(n, wrong int) *Report {
		p := newReport()
		p.Statements, p.Wrong = n, wrong
		return p
	}
	j := open("one")
	for seed, p := range map[uint64]*Report{1: round(10, 0), 2: round(20, 1), 3: round(30, 2)} {
		if err := j.add(seed, p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := j.file.WriteString(`{"Seed": 4, "Rep`); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	j = open("two")
	defer j.Close()
	if !j.done(2) || j.done(4) || !slices.Equal(j.unexplained(), []uint64{2, 3}) {
		t.Errorf("done: %v %v; not explained: %v", j.done(2), j.done(4), j.unexplained())
	}
	if err := j.add(3, round(31, 0)); err != nil {
		t.Fatal(err)
	}
	if all, builds := j.Sum(1); all.Statements != 61 || all.Wrong != 1 || builds["one"] != 30 || builds["two"] != 31 {
		t.Errorf("%d statements, %d wrong, %v", all.Statements, all.Wrong, builds)
	}
	again := open("three")
	defer again.Close()
	if got := again.unexplained(); !slices.Equal(got, []uint64{2}) {
		t.Errorf("not explained: %v", got)
	}
}
