package exec_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/godwitdb/godwit/sql/algebra"
	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/collate"
	"github.com/godwitdb/godwit/sql/expr/exprtest"
	"github.com/godwitdb/godwit/sql/opt"
)

// A world has tables in memory, and a session.
type world struct {
	tables map[string]*table
	views  map[string]*algebra.View
	env    expr.Env
	// workers is exec.Ctx.Workers of its statements.
	workers int
}

func newWorld() *world {
	return &world{tables: map[string]*table{}, views: map[string]*algebra.View{}, env: expr.Env{
		Now: now, Mode: expr.Strict | expr.ErrorForDivisionByZero | expr.NoZeroDate | expr.NoZeroInDate,
	}}
}

// Resolve implements algebra.Catalog.
func (w *world) Resolve(_, name string) (algebra.Table, *algebra.View, error) {
	if t := w.tables[strings.ToLower(name)]; t != nil {
		return t, nil, nil
	}
	return nil, w.views[strings.ToLower(name)], nil
}

// exec runs what is not a query.
func (w *world) exec(text string) error {
	word := strings.Fields(text)
	switch strings.ToLower(word[0] + " " + word[1]) {
	case "create table":
		return w.create(text)
	case "create view":
		name, def, _ := strings.Cut(strings.TrimSpace(text[len("create view "):]), " AS ")
		w.views[strings.ToLower(name)] = &algebra.View{DB: "db", Name: name, Text: def}
		return nil
	case "insert into":
		return w.insert(text)
	}
	return w.set(text)
}

// create takes CREATE TABLE name (column type [NOT NULL], ..., {PRIMARY KEY | UNIQUE name | KEY
// name} (column, ...)).
func (w *world) create(text string) error {
	head, body, _ := strings.Cut(text, "(")
	t := &table{name: strings.Fields(head)[2]}
	for _, def := range splitList(strings.TrimSuffix(strings.TrimSpace(body), ")")) {
		if err := t.define(def); err != nil {
			return fmt.Errorf("%s: %w", def, err)
		}
	}
	w.tables[strings.ToLower(t.name)] = t
	return nil
}

// splitList splits at the commas outside of parentheses and strings.
func splitList(s string) (out []string) {
	depth, start, quoted := 0, 0, false
	for i, c := range s {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			out = append(out, strings.TrimSpace(s[start:i]))
			start = i + 1
		}
	}
	return append(out, strings.TrimSpace(s[start:]))
}

func (t *table) define(def string) error {
	name, rest, _ := strings.Cut(def, " ")
	kind := strings.ToLower(name)
	if kind == "primary" || kind == "unique" || kind == "key" {
		x := algebra.Index{Name: "PRIMARY", Number: len(t.indexes), Primary: kind == "primary", Unique: kind != "key"}
		head, list, _ := strings.Cut(rest, "(")
		if !x.Primary {
			x.Name, x.Covers = strings.TrimSpace(head), []int{}
		}
		for _, c := range splitList(strings.TrimSuffix(list, ")")) {
			i := t.column(c)
			if i < 0 {
				return fmt.Errorf("no column %s", c)
			}
			x.Cols = append(x.Cols, algebra.IndexCol{Col: i})
		}
		t.indexes = append(t.indexes, x)
		return nil
	}
	rest, notNull := strings.CutSuffix(rest, " NOT NULL")
	ty, err := exprtest.ParseType(rest)
	if err != nil {
		return err
	}
	ty.NotNull = notNull
	t.cols = append(t.cols, algebra.Column{Name: name, Type: ty})
	return nil
}

func (t *table) column(name string) int {
	return slices.IndexFunc(t.cols, func(c algebra.Column) bool { return strings.EqualFold(c.Name, name) })
}

// insert takes INSERT INTO name VALUES (...), ... and INSERT INTO name SELECT ...
func (w *world) insert(text string) error {
	word := strings.Fields(text)
	t := w.tables[strings.ToLower(word[2])]
	if t == nil {
		return fmt.Errorf("no table %s", word[2])
	}
	_, rest, _ := strings.Cut(text, word[2]+" ")
	if list, ok := strings.CutPrefix(rest, "VALUES "); ok {
		var rows []string
		for _, r := range splitList(list) {
			rows = append(rows, "SELECT "+strings.TrimSuffix(strings.TrimPrefix(r, "("), ")"))
		}
		for _, r := range rows {
			if err := w.insertRows(t, r); err != nil {
				return err
			}
		}
		return nil
	}
	return w.insertRows(t, rest)
}

func (w *world) insertRows(t *table, query string) error {
	return w.each(query, opt.Options{}, exec.NewMem(nil, 0), func(vals []expr.Value, cols []bind.Output) error {
		if len(vals) != len(t.cols) {
			return fmt.Errorf("%d values for %d columns", len(vals), len(t.cols))
		}
		row := make([]expr.Value, len(vals))
		for i, v := range vals {
			x := expr.NewCast(expr.ConstOf(v, cols[i].Type), t.cols[i].Type)
			var err error
			if row[i], err = expr.EvalConst(x, &w.env); err != nil {
				return err
			}
		}
		t.rows = append(t.rows, row)
		return nil
	})
}

func (w *world) set(text string) error {
	name, value, ok := strings.Cut(strings.TrimPrefix(text, "SET "), " = ")
	n, _ := strconv.Atoi(value)
	switch name {
	case "time_zone":
		at, err := time.Parse("'-07:00'", value)
		if err != nil {
			return err
		}
		_, off := at.Zone()
		w.env.Loc = time.FixedZone(value, off)
		return nil
	case "group_concat_max_len":
		w.env.GroupConcatMax = n
		return nil
	case "max_recursive_iterations": // MariaDB's name of cte_max_recursion_depth
		w.env.CTEDepth = n
		return nil
	}
	return fmt.Errorf("unknown statement %q (%v)", text, ok)
}

// table is a table in memory, which plans can read in all ways.
type table struct {
	name    string
	cols    []algebra.Column
	indexes []algebra.Index
	rows    [][]expr.Value
}

// DB implements algebra.Table.
func (t *table) DB() string { return "db" }

// Name implements algebra.Table.
func (t *table) Name() string { return t.name }

// Columns implements algebra.Table.
func (t *table) Columns() []algebra.Column { return t.cols }

// Indexes implements algebra.Table.
func (t *table) Indexes() []algebra.Index { return t.indexes }

// Rows implements algebra.Table.
func (t *table) Rows() float64 { return float64(len(t.rows)) }

// Distinct implements algebra.Table.
func (t *table) Distinct(int) float64 { return 0 }

// Fraction implements algebra.Table.
func (t *table) Fraction(int, any, any) (float64, bool) { return 0, false }

// RowBytes implements algebra.Table.
func (t *table) RowBytes() float64 { return 50 }

// Shares implements algebra.Table.
func (t *table) Shares() []algebra.Share { return nil }

// compareAt orders values of a column, NULLs first.
func (t *table) compareAt(col int, a, b expr.Value) int {
	if a.IsNull() || b.IsNull() {
		return one(!a.IsNull()) - one(!b.IsNull())
	}
	ty := t.cols[col].Type
	var x, y expr.Vec
	x.Reset(ty, 1)
	y.Reset(ty, 1)
	x.Put(0, a)
	y.Put(0, b)
	return expr.NewComparer(ty)(&x, 0, &y, 0)
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Start implements exec.Source. Only what a read asks for is given out, in an order that nobody
// asked for if it asks for none.
func (t *table) Start(_ *exec.Ctx, r exec.Read) (exec.Rows, error) {
	var key []int
	if r.Index >= 0 {
		for _, c := range t.indexes[r.Index].Cols {
			key = append(key, c.Col)
		}
	} else if len(t.indexes) > 0 && t.indexes[0].Primary {
		for _, c := range t.indexes[0].Cols {
			key = append(key, c.Col)
		}
	}
	var rows [][]expr.Value
	for _, row := range t.rows {
		if t.wanted(row, key, r) {
			rows = append(rows, row)
		}
	}
	if r.Ordered || r.Limit > 0 {
		slices.SortStableFunc(rows, func(a, b []expr.Value) int {
			for _, c := range key {
				if x := t.compareAt(c, a[c], b[c]); x != 0 {
					return x
				}
			}
			return 0
		})
	} else {
		slices.Reverse(rows)
	}
	if r.Reverse {
		slices.Reverse(rows)
	}
	if r.Limit > 0 {
		rows = rows[:min(r.Limit, int64(len(rows)))]
	}
	return &cursor{t: t, rows: rows, cols: r.Cols}, nil
}

func (t *table) wanted(row []expr.Value, key []int, r exec.Read) bool {
	switch {
	case r.Keys != nil:
		for _, i := range r.Keys.Sel {
			all := true
			for k, v := range r.Keys.Cols {
				all = all && !row[key[k]].IsNull() && t.compareAt(key[k], row[key[k]], v.At(i)) == 0
			}
			if all {
				return true
			}
		}
		return false
	case r.Spans != nil:
		return slices.ContainsFunc(r.Spans, func(s exec.Span) bool {
			if n := len(s.Lo) - 1; s.Begins {
				like := collate.Of(t.cols[key[n]].Type.Coll).NewLike(strings.ReplaceAll(strings.ReplaceAll(s.Lo[n].S, "_", "\\_"), "%", "\\%")+"%", '\\')
				fits, err := like.Match(row[key[n]].S, nil)
				return t.against(row, key, s.Lo[:n]) == 0 && !row[key[n]].IsNull() && fits && err == nil
			}
			lo, hi := t.against(row, key, s.Lo), t.against(row, key, s.Hi)
			return (lo > 0 || lo == 0 && !(s.LoOpen && len(s.Lo) > 0)) && (hi < 0 || hi == 0 && !(s.HiOpen && len(s.Hi) > 0))
		})
	}
	return true
}

// against compares the first columns of the key with a bound.
func (t *table) against(row []expr.Value, key []int, bound []expr.Value) int {
	for k, v := range bound {
		if c := t.compareAt(key[k], row[key[k]], v); c != 0 {
			return c
		}
	}
	return 0
}

type cursor struct {
	t    *table
	rows [][]expr.Value
	cols []int
}

// Next implements exec.Rows.
func (c *cursor) Next(b *expr.Batch) (bool, error) {
	n := min(expr.BatchSize, len(c.rows))
	if n == 0 {
		return false, nil
	}
	for len(b.Cols) < len(c.cols) {
		b.Cols = append(b.Cols, &expr.Vec{})
	}
	for k, col := range c.cols {
		b.Cols[k].Reset(c.t.cols[col].Type, n)
		for i := range n {
			b.Cols[k].Put(i, c.rows[i][col])
		}
	}
	c.rows = c.rows[n:]
	b.N, b.Sel = n, expr.All(n)
	return true, nil
}

// Take implements exec.Parted.
func (c *cursor) Take() (any, error) {
	n := min(expr.BatchSize, len(c.rows))
	if n == 0 {
		return nil, nil
	}
	part := c.rows[:n]
	c.rows = c.rows[n:]
	return part, nil
}

// Ready implements exec.Parted.
func (c *cursor) Ready() bool { return true }

// Decoder implements exec.Parted.
func (c *cursor) Decoder() func(part any, b *expr.Batch) error {
	return func(part any, b *expr.Batch) error {
		one := &cursor{t: c.t, rows: part.([][]expr.Value), cols: c.cols}
		_, err := one.Next(b)
		return err
	}
}

// Close implements exec.Rows.
func (c *cursor) Close() error { return nil }
