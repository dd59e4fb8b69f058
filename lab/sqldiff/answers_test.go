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
