package sqldiff

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
)

// answers is a server for tests of rules: a function from what the session has run, the statement
// that it runs now included, to the answer.
type answers func(ran []string) *Result

// side is a connection to it.
func (a answers) side(t *testing.T) *Side {
	db := sql.OpenDB(&answering{answer: a})
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = conn.Close(), db.Close() })
	return &Side{db: db, conn: conn, Patience: time.Minute}
}

// answering is the driver of one connection.
type answering struct {
	answer answers
	ran    []string
}

func (c *answering) Connect(context.Context) (driver.Conn, error) { return c, nil }
func (c *answering) Driver() driver.Driver                        { return nil }
func (c *answering) Prepare(string) (driver.Stmt, error)          { return nil, driver.ErrSkip }
func (c *answering) Close() error                                 { return nil }
func (c *answering) Begin() (driver.Tx, error)                    { return nil, driver.ErrSkip }

func (c *answering) run(q string) (*Result, error) {
	c.ran = append(c.ran, q)
	r := c.answer(c.ran)
	if r.Errno != 0 {
		return nil, &mysql.MySQLError{Number: uint16(r.Errno), Message: r.Message}
	}
	return r, nil
}

func (c *answering) ExecContext(_ context.Context, q string, _ []driver.NamedValue) (driver.Result, error) {
	r, err := c.run(q)
	if err != nil {
		return nil, err
	}
	return driver.RowsAffected(r.Affected), nil
}

func (c *answering) QueryContext(_ context.Context, q string, _ []driver.NamedValue) (driver.Rows, error) {
	r, err := c.run(q)
	if err != nil {
		return nil, err
	}
	return &answered{rows: r.Rows, width: len(r.Types)}, nil
}

// answered are rows of texts.
type answered struct {
	rows  [][]string
	width int
}

func (r *answered) Columns() []string { return make([]string, r.width) }
func (r *answered) Close() error      { return nil }

func (r *answered) Next(dest []driver.Value) error {
	if len(r.rows) == 0 {
		return io.EOF
	}
	for i, v := range r.rows[0] {
		dest[i] = v
	}
	r.rows = r.rows[1:]
	return nil
}

// TestRulesThatAsk: rules that ask the reference in other words, or without strict mode, hold if it
// agrees then, and not if it does not.
func TestRulesThatAsk(t *testing.T) {
	last := func(ran []string) string { return ran[len(ran)-1] }
	rows := func(name string) *Node {
		return node(Bool, name, leaf(Int, "a"), leaf(Int, "b"), leaf(Int, "c"), leaf(Int, "d"))
	}
	year := rows("(($, $) < ($, $))")
	year.Kids[0].Note = noteYear
	change := func(form string, kids ...*Node) *Statement {
		return &Statement{Root: node(Other, form, kids...), Changes: []string{"t"}}
	}
	affected := func(n int64) *Result { return &Result{Affected: n} }
	failed := func(n int) *Result { return &Result{Errno: n} }
	begin := change("START TRANSACTION")
	first := change("UPDATE t SET a = 1 WHERE $", rows("(($, $) = ($, $))"))
	insert := change("INSERT INTO t SELECT 1 FROM u WHERE $", rows("(($, $) < ($, $))"))
	in := change("DELETE FROM t WHERE $", node(Bool, "(($, $) IN (($, $), ($, $)))", leaf(Int, "a"), leaf(Text, "b"),
		leaf(Int, "c"), leaf(Text, "d"), leaf(Int, "e"), leaf(Text, "f")))
	older := change("DELETE FROM t WHERE $", year)
	null := change("INSERT INTO t VALUES (IF(5 = 'two', 1, 2), NULL)")
	zero := change("UPDATE t SET c = 1 WHERE $ = 0", node(Int, "($ % $)", leaf(Int, "a"), leaf(Int, "b")))
	div := &Statement{Root: node(Query, "SELECT $ UNION ALL SELECT c", node(Int, "($ DIV $)", leaf(Int, "a"), leaf(Int, "1")))}
	product := &Statement{Root: node(Query, "SELECT $", node(Decimal, "($ * $)", leaf(Decimal, "a"), leaf(Decimal, "b")))}
	digits := func(v string) *Result { return &Result{Types: []Kind{Int}, Rows: [][]string{{v}}} }
	from := func(item *Node) *Node {
		return node(Query, "SELECT $ FROM $$", item, leaf(From, "u b"), leaf(Other, ""))
	}
	query := func(form string, kids ...*Node) *Statement { return &Statement{Root: node(Query, form, kids...)} }
	anyOf := func(left *Node) *Node { return node(Bool, "($ <= ANY ($))", left, from(leaf(Int, "a.c"))) }
	outer := query("SELECT 1 FROM t a WHERE ($ IS UNKNOWN)", anyOf(leaf(Int, "3")))
	aggregated := query("SELECT 1 FROM t a HAVING ($ IS UNKNOWN)", anyOf(leaf(Int, "COUNT(*)")))
	key := leaf(Int, "a.k")
	key.Note = noteGroup
	having := query("SELECT a.k FROM t a GROUP BY a.k HAVING $", node(Bool, "($ <> ALL ($))", key, from(leaf(Int, "1"))))
	most := query("SELECT 1 FROM t HAVING ($ <> 1)", node(Int, "MAX($)", leaf(Int, "a")))
	deviation := query("SELECT 1 FROM t HAVING (($ > 2) IS UNKNOWN)", node(Double, "VAR_SAMP($)", leaf(Int, "a")))
	inner := query("SELECT $ FROM t JOIN u ON t.a = u.a", node(Int, "COUNT($)", node(Int, "(SELECT $ FROM u)", leaf(Int, "MAX(b)"))))
	union := query("SELECT 1.50 UNION ALL SELECT $", node(Decimal, "IF($, $, $)", leaf(Bool, "TRUE"), leaf(Decimal, "NULL"), leaf(Decimal, "NULL")))
	text := func(v string) *Result { return &Result{Types: []Kind{Text}, Rows: [][]string{{v}}} }
	decimal := func(v string) *Result { return &Result{Types: []Kind{Decimal}, Rows: [][]string{{v}}} }
	both := node(Bool, "($ AND $)", leaf(Bool, "NULL"), leaf(Bool, "(2 = 'x')"))
	choice := change("INSERT INTO t VALUES ($, 1), (3, NULL)", node(Int, "CASE WHEN $ THEN $ ELSE $ END", both, leaf(Int, "1"), leaf(Int, "2")))
	// rowsOf answers with a number of rows if the statement has one of the words, else with none.
	rowsOf := func(n int, words ...string) answers {
		return func(ran []string) *Result {
			r := &Result{Types: []Kind{Int}}
			for _, w := range words {
				if strings.Contains(last(ran), w) {
					r.Rows = slices.Repeat([][]string{{"1"}}, n)
				}
			}
			return r
		}
	}
	one, none := digits("1"), &Result{Types: []Kind{Int}}
	always := func(r *Result) answers { return func([]string) *Result { return r } }
	// says answers so where the statement has the words, and else otherwise.
	says := func(words string, r, otherwise *Result) answers {
		return func(ran []string) *Result {
			if strings.Contains(last(ran), words) {
				return r
			}
			return otherwise
		}
	}
	anyRule := "ANY and ALL are NULL over nothing but NULL, also for columns of other tables"
	numbers := "MIN and MAX of no numbers are NULL, also in HAVING and by an index"
	deviations := "VARIANCE and its like are DOUBLEs with all their digits, and no NULL where there are rows"
	truth := "the condition of a CASE is true or not: of an AND with NULL, that is known"
	mixOrAggregate := "a mix of collations, and an aggregate of a subquery that has one: one of them is found first"
	noType := "NULL has no type of its own in a common or derived table, IF and UNION"
	longProduct := "a product of long factors is exact, up to 65 and 30 digits"
	warnings := func(codes ...string) *Result {
		r := &Result{Types: []Kind{Text, Int, Text}}
		for _, c := range codes {
			r.Rows = append(r.Rows, []string{"Warning", c, ""})
		}
		return r
	}
	strict := func(ran []string) bool { return !slices.Contains(ran, lenient.before[0]) }
	binary := &Schema{Tables: []*Table{{Name: "t", Cols: []*Column{{Name: "f", Type: "TEXT COLLATE utf8mb4_bin"}}}}}
	plain := &Schema{Tables: []*Table{{Name: "t", Cols: []*Column{{Name: "f", Type: "TEXT"}}}}}

	for _, c := range []struct {
		name, rule string
		sts        []*Statement // nil: st is a query
		st         *Statement
		class      string
		got, want  *Result
		here, ref  answers
		schema     *Schema
		holds      bool
	}{
		{name: "only the statement that differs is written so", rule: "a comparison of rows", sts: []*Statement{begin, first, insert},
			st: insert, class: Affected, got: affected(2), want: affected(0),
			here: func(ran []string) *Result {
				if strings.HasPrefix(last(ran), "INSERT INTO t SELECT") {
					return affected(2)
				}
				return affected(0)
			},
			ref: func(ran []string) *Result {
				switch q := last(ran); {
				case strings.Contains(q, "(a = c)") && strings.HasPrefix(q, "UPDATE"):
					return failed(1267)
				case strings.Contains(q, "(a < c)"):
					return affected(2)
				}
				return affected(0)
			}, holds: true},
		{name: "it differs, however it is written", rule: "a comparison of rows", sts: []*Statement{begin, first, insert},
			st: insert, class: Affected, got: affected(2), want: affected(0),
			here: func(ran []string) *Result {
				if strings.HasPrefix(last(ran), "INSERT INTO t SELECT") {
					return affected(2)
				}
				return affected(0)
			},
			ref: func([]string) *Result { return affected(0) }},
		{name: "a YEAR", rule: "a comparison of rows, one of them a YEAR: without strict mode all is the same",
			sts: []*Statement{older}, st: older, class: Affected, got: affected(1), want: affected(0),
			here: func(ran []string) *Result { return affected(int64(strings.Count(last(ran), "DELETE"))) },
			ref: func(ran []string) *Result {
				switch q := last(ran); {
				case !strings.Contains(q, "(a < c)"):
					return affected(0)
				case strict(ran):
					return failed(1292)
				}
				return affected(1)
			}, holds: true},
		{name: "no YEAR", rule: "a comparison of rows, one of them a YEAR: without strict mode all is the same",
			sts: []*Statement{insert}, st: insert, class: Affected, got: affected(1), want: affected(0),
			here: func([]string) *Result { return affected(1) }, ref: func([]string) *Result { return affected(1) }},
		{name: "bytes", rule: "an IN of rows compares texts by the collation of both", sts: []*Statement{in}, st: in, schema: binary,
			class: Affected, got: affected(0), want: affected(8),
			here: func([]string) *Result { return affected(0) },
			ref: func(ran []string) *Result {
				if strings.Contains(last(ran), "DELETE FROM t WHERE ((a, b)") {
					return affected(8)
				}
				return affected(0)
			}, holds: true},
		{name: "no column of bytes", rule: "an IN of rows compares texts by the collation of both", sts: []*Statement{in}, st: in,
			class: Affected, got: affected(0), want: affected(8),
			here: func([]string) *Result { return affected(0) }, ref: func([]string) *Result { return affected(0) }},
		{name: "other bytes", rule: "an IN of rows compares texts by the collation of both", sts: []*Statement{in}, st: in, schema: binary,
			class: Affected, got: affected(0), want: affected(8),
			here: func([]string) *Result { return affected(0) },
			ref:  func(ran []string) *Result { return affected(8 * int64(strings.Count(last(ran), "WHERE"))) }},
		{name: "DIV", rule: "DIV has all digits of its dividend, also in a UNION with an unsigned integer", st: div, class: Rows,
			got: digits("-2147483648"), want: digits("-999999999"),
			here: func([]string) *Result { return digits("-2147483648") },
			ref: func(ran []string) *Result {
				if strings.Contains(last(ran), "((a DIV 1) + 0)") {
					return digits("-2147483648")
				}
				return digits("-999999999")
			}, holds: true},
		{name: "another quotient", rule: "DIV has all digits of its dividend, also in a UNION with an unsigned integer", st: div,
			class: Rows, got: digits("-2147483648"), want: digits("7"),
			here: func([]string) *Result { return digits("-2147483648") }, ref: func([]string) *Result { return digits("7") }},
		{name: "a product", rule: "a product of long factors is exact, up to 65 and 30 digits", st: product, class: Rows,
			got: digits("450053345677.5"), want: digits("438942234666.4"),
			here: func([]string) *Result { return digits("450053345677.5") },
			ref: func(ran []string) *Result {
				if strings.Contains(last(ran), "(CAST(a AS DECIMAL(50,9)) * CAST(b AS DECIMAL(50,9)))") {
					return digits("450053345677.5")
				}
				return digits("438942234666.4")
			}, holds: true},
		{name: "another product", rule: "a product of long factors is exact, up to 65 and 30 digits", st: product, class: Rows,
			got: digits("450053345677.5"), want: digits("7"),
			here: func([]string) *Result { return digits("450053345677.5") }, ref: func([]string) *Result { return digits("7") }},
		{name: "a plan, and the sign of a zero", sts: []*Statement{zero}, st: zero, class: ErrorHere, got: failed(1365),
			rule: "the plan decides which values are computed: without strict mode, written as other rules have it, all is the same",
			want: affected(0), here: func(ran []string) *Result {
				if strict(ran) && strings.HasPrefix(last(ran), "UPDATE") {
					return failed(1365)
				}
				return affected(4)
			}, ref: func(ran []string) *Result {
				if strings.Contains(last(ran), "(0 + (a % b))") {
					return affected(4)
				}
				return affected(0)
			}, holds: true},
		{name: "a plan, and other rows", sts: []*Statement{zero}, st: zero, class: ErrorHere, got: failed(1365),
			rule: "the plan decides which values are computed: without strict mode, written as other rules have it, all is the same",
			want: affected(0), here: func(ran []string) *Result {
				if strict(ran) && strings.HasPrefix(last(ran), "UPDATE") {
					return failed(1365)
				}
				return affected(4)
			}, ref: func([]string) *Result { return affected(0) }},
		{name: "ANY over NULLs of another table", rule: anyRule, st: outer, class: Rows, got: one, want: none, here: always(one),
			ref: rowsOf(1, "EXISTS (SELECT a.c AS c FROM u b HAVING (3 <= c) IS NULL) THEN NULL"), holds: true},
		{name: "ANY, however it is written", rule: anyRule, st: outer, class: Rows, got: one, want: none, here: always(one),
			ref: always(none)},
		{name: "ANY, and more rows than there are", rule: anyRule, st: outer, class: Rows, got: one, want: none, here: always(one),
			ref: rowsOf(2, "EXISTS (")},
		{name: "ANY over an aggregate", rule: anyRule, st: aggregated, class: Rows, got: one, want: none, here: always(one),
			ref: rowsOf(1, "EXISTS (")},
		{name: "a key in HAVING, and ALL", rule: "HAVING finds the keys of GROUP BY", st: having, class: ErrorGone, got: none,
			want: failed(1463), here: always(none), ref: func(ran []string) *Result {
				switch q := last(ran); {
				case !strings.Contains(q, "MIN(a.k)"):
					return failed(1463)
				case strings.Contains(q, "HAVING (MIN(a.k) = c)"):
					return none
				}
				return one
			}, holds: true},
		{name: "a key in HAVING, and other rows", rule: "HAVING finds the keys of GROUP BY", st: having, class: ErrorGone, got: none,
			want: failed(1463), here: always(none), ref: says("MIN(a.k)", one, failed(1463))},
		{name: "MAX of no rows", rule: numbers, st: most, class: Rows, got: none, want: one, here: always(none),
			ref: says("MAX((a) + 0)", none, one), holds: true},
		{name: "MAX of other rows", rule: numbers, st: most, class: Rows, got: none, want: one, here: always(none), ref: always(one)},
		{name: "VAR_SAMP in HAVING", rule: deviations, st: deviation, class: Rows, got: none, want: one, here: always(none),
			ref: says("(VAR_SAMP((a) + 0e0) + 0)", none, one), holds: true},
		{name: "another VAR_SAMP", rule: deviations, st: deviation, class: Rows, got: none, want: one, here: always(none),
			ref: always(one)},
		{name: "NULL AND in a CASE", rule: truth, sts: []*Statement{choice}, st: choice, class: ErrorNo, got: failed(1048),
			want: failed(1292), here: says("INSERT", failed(1048), affected(0)), ref: func(ran []string) *Result {
				switch q := last(ran); {
				case strings.Contains(q, "CASE WHEN IF((NULL AND (2 = 'x')), TRUE, FALSE) THEN 1 ELSE 2 END"):
					return failed(1048)
				case strings.Contains(q, "INSERT"):
					return failed(1292)
				}
				return affected(0)
			}, holds: true},
		{name: "an error in a CASE, however it is written", rule: truth, sts: []*Statement{choice}, st: choice, class: ErrorNo,
			got: failed(1048), want: failed(1292), here: says("INSERT", failed(1048), affected(0)),
			ref: says("INSERT", failed(1292), affected(0))},
		{name: "a mix, and an aggregate", rule: mixOrAggregate, st: inner, class: ErrorNo, got: failed(1267), want: failed(1140),
			here: always(failed(1267)), ref: says("COUNT(1)", failed(1267), failed(1140)), holds: true},
		{name: "an aggregate, and no mix", rule: mixOrAggregate, st: inner, class: ErrorNo, got: failed(1267), want: failed(1140),
			here: always(failed(1267)), ref: says("COUNT(1)", one, failed(1140))},
		{name: "an aggregate, and another error here", rule: mixOrAggregate, st: inner, class: ErrorNo, got: failed(1690),
			want: failed(1140), here: always(failed(1690)), ref: says("COUNT(1)", failed(1267), failed(1140))},
		{name: "NULLs without a type", rule: noType, st: union, class: Rows, got: decimal("1.50"), want: text("1.5"),
			here: always(decimal("1.50")),
			ref:  says("IF(TRUE, CAST(NULL AS DECIMAL(1,0)), CAST(NULL AS DECIMAL(1,0)))", decimal("1.50"), text("1.5")), holds: true},
		{name: "NULLs without a type, and another number", rule: noType, st: union, class: Rows, got: decimal("1.60"), want: text("1.5"),
			here: always(decimal("1.60")), ref: says("CAST(NULL", decimal("1.50"), text("1.5"))},
		{name: "no number among the NULLs", rule: noType, st: product, class: Rows, got: decimal("1.60"), want: text("1.5"),
			here: always(decimal("1.60")), ref: always(decimal("1.60"))},
		{name: "other words that are refused", rule: longProduct, st: product, class: Rows, got: digits("1"), want: digits("2"),
			here: always(digits("1")), ref: says("CAST(", failed(syntaxError), digits("2"))},
		{name: "other words that take too long", rule: longProduct, st: product, class: Rows, got: digits("1"), want: digits("2"),
			here: always(digits("1")), ref: says("CAST(", failed(outOfTime), digits("2"))},
		{name: "other words of a change that are refused", rule: truth, sts: []*Statement{choice}, st: choice, class: ErrorNo,
			got: failed(1048), want: failed(1292), here: says("INSERT", failed(1048), affected(0)),
			ref: says("INSERT", failed(syntaxError), affected(0))},
		{name: "a warning before a NULL", rule: "a change fails where MariaDB warns", sts: []*Statement{null}, st: null,
			class: ErrorNo, got: failed(1292), want: failed(1048), here: func([]string) *Result { return affected(0) },
			ref: func([]string) *Result { return warnings("1292", "1048") }, holds: true},
		{name: "no warning before a NULL", rule: "a change fails where MariaDB warns", sts: []*Statement{null}, st: null,
			class: ErrorNo, got: failed(1292), want: failed(1048), here: func([]string) *Result { return affected(0) },
			ref: func([]string) *Result { return warnings("1048") }},
		{name: "a warning before another error", rule: "a change fails where MariaDB warns", sts: []*Statement{null}, st: null,
			class: ErrorNo, got: failed(1292), want: failed(1062), here: func([]string) *Result { return affected(0) },
			ref: func([]string) *Result { return warnings("1292", "1062") }},
	} {
		w := &worker{Runner: &Runner{}, report: newReport(), schema: plain, here: c.here.side(t), ref: c.ref.side(t)}
		if c.schema != nil {
			w.schema = c.schema
		}
		i := slices.IndexFunc(rules, func(r rule) bool { return r.Name == c.rule })
		if i < 0 {
			t.Fatalf("there is no rule %q", c.rule)
		}
		d := Difference{Class: c.class, Got: c.got, Want: c.want, St: c.st, Sts: c.sts, SQL: c.st.Root.String()}
		if got := rules[i].holds(t.Context(), w, &d); got != c.holds {
			t.Errorf("%s: %q holds: %v", c.name, c.rule, got)
		}
	}
}
