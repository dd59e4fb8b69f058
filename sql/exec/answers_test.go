package exec_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	gms "github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	driver "github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/sql/bind"
	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/exec/helper"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/opt"
)

// A way is one of the ways to run a query. All must give the same answer.
type way struct {
	name  string
	batch int
	limit int64 // of memory
	opts  opt.Options
	// workers are the goroutines of a statement; the rows are in the order that they have without
	// helpers, but where memory decides what goes to files.
	workers int
}

var ways = []way{
	{name: "plain", batch: 1024},
	{name: "batches of 1", batch: 1},
	{name: "batches of 7", batch: 7},
	{name: "no look-up joins", batch: 1024, opts: opt.Options{NoLookup: true}},
	{name: "joins as written", batch: 64, opts: opt.Options{NoReorder: true}},
	{name: "no index", batch: 64, opts: opt.Options{NoIndex: true, NoLookup: true}},
	{name: "little memory", batch: 64, limit: 60_000},
	{name: "little memory, batches of 1", batch: 1, limit: 60_000},
	{name: "helpers, batches of 1", batch: 1, workers: 4},
	{name: "helpers, batches of 7, no look-up joins", batch: 7, workers: 3, opts: opt.Options{NoLookup: true}},
	{name: "helpers, little memory", batch: 3, workers: 3, limit: 60_000},
}

// TestAnswers runs the scripts of testdata/answers over tables in memory: text is bound, planned
// and executed, in all ways. Their commands take one statement a line:
//
//	exec      CREATE TABLE, CREATE VIEW, INSERT, SET of a variable
//	query     SELECTs and their rows, sorted
//	ordered   SELECTs and their rows, whose order counts
//
// With "unlimited", the ways with little memory are left out. GODWIT_MARIADB names a MariaDB that
// must answer alike, but where "mysql" says that MySQL 8 is followed and MariaDB differs. Errors
// are alike if both are errors.
func TestAnswers(t *testing.T) {
	datadriven.Walk(t, "testdata/answers", func(t *testing.T, path string) {
		w := newWorld()
		db := judge(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var out strings.Builder
			for _, text := range strings.Split(d.Input, "\n") {
				if d.Cmd == "exec" {
					if err := w.exec(text); err != nil {
						t.Fatalf("%s: %v", text, err)
					}
					if db != nil {
						if _, err := db.Exec(text); err != nil {
							t.Fatalf("MariaDB: %s: %v", text, err)
						}
					}
					continue
				}
				got := w.inAllWays(t, d, text)
				if db != nil && !d.HasArg("mysql") {
					compare(t, db, text, got, d.Cmd == "ordered")
				}
				if strings.Contains(d.Input, "\n") {
					fmt.Fprintf(&out, "%s\n", text)
				}
				for _, r := range got {
					fmt.Fprintf(&out, "  %s\n", r)
				}
				if len(got) == 0 {
					out.WriteString("  (no rows)\n")
				}
			}
			return out.String()
		})
	})
}

func (w *world) inAllWays(t *testing.T, d *datadriven.TestData, text string) (first []string) {
	t.Helper()
	was := expr.BatchSize
	helper.Eager = true
	defer func() { expr.BatchSize, helper.Eager = was, false }()
	for n, way := range ways {
		if way.limit > 0 && d.HasArg("unlimited") {
			continue
		}
		expr.BatchSize = way.batch
		got := w.answer(t, text, way)
		if alone := way; way.workers > 0 && way.limit == 0 {
			alone.workers = 0
			if want := w.answer(t, text, alone); !slices.Equal(got, want) {
				d.Fatalf(t, "%s\n%s: %d rows\n%s\nwithout helpers: %d rows\n%s", text, way.name, len(got), shown(got), len(want), shown(want))
			}
		}
		if d.Cmd != "ordered" {
			slices.Sort(got)
		}
		if n == 0 {
			first = got
		} else if !slices.Equal(got, first) {
			d.Fatalf(t, "%s\n%s: %d rows\n%s\nplain: %d rows\n%s", text, way.name, len(got), shown(got), len(first), shown(first))
		}
	}
	return first
}

func shown(rows []string) string { return strings.Join(rows[:min(len(rows), 20)], "\n") }

// answer runs a query in one way: its rows, or its error.
func (w *world) answer(t *testing.T, text string, way way) []string {
	t.Helper()
	mem := exec.NewMem(nil, way.limit)
	rows, err := w.run(text, way, mem)
	if mem.Used() != 0 {
		t.Fatalf("%s\n%s: %d bytes are still taken at the end", text, way.name, mem.Used())
	}
	if err != nil {
		return []string{errText(err)}
	}
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i] = strings.Join(r, "|")
	}
	return out
}

func errText(err error) string {
	var e *mysql.SQLError
	if errors.As(err, &e) {
		return fmt.Sprintf("error %d: %s", e.Num, e.Message)
	}
	return "error: " + err.Error()
}

// run is a query with its rows as text.
func (w *world) run(text string, way way, mem *exec.Mem) (out [][]string, err error) {
	w.workers = way.workers
	err = w.each(text, way.opts, mem, func(vals []expr.Value, cols []bind.Output) error {
		row := make([]string, len(vals))
		for i, v := range vals {
			row[i] = v.Text(cols[i].Type)
		}
		out = append(out, row)
		return nil
	})
	return out, err
}

// plan binds and plans a query.
func (w *world) plan(text string, opts opt.Options) (*opt.Plan, error) {
	q, err := w.bind(text)
	if err != nil {
		return nil, err
	}
	return opt.Optimize(q, &w.env, opts)
}

func (w *world) bind(text string) (*bind.Query, error) {
	mode := bind.Mode{OnlyFullGroupBy: true}
	stmt, err := bind.Parse(text, mode)
	if err != nil {
		return nil, err
	}
	return bind.Bind(stmt, &bind.Session{
		Catalog: w, DB: "db", Mode: mode, Collation: gms.Collation_utf8mb4_0900_ai_ci,
		DefaultCollation: func(string) (gms.CollationID, bool) { return gms.Collation_utf8mb4_0900_ai_ci, true },
		SysVar:           func(string, bool, bool) (expr.Node, error) { return expr.IntConst(1), nil },
		UserVar:          func(string) (expr.Node, error) { return expr.NullConst(), nil },
	})
}

// each gives out the rows of a query as values of the types of its columns.
func (w *world) each(text string, opts opt.Options, mem *exec.Mem, f func(vals []expr.Value, cols []bind.Output) error) error {
	q, err := w.bind(text)
	if err != nil {
		return err
	}
	p, err := opt.Optimize(q, &w.env, opts)
	if err != nil {
		return err
	}
	op, err := opt.Build(p)
	if err != nil {
		return err
	}
	ctx := &exec.Ctx{Context: context.Background(), Mem: mem, Env: &w.env, Workers: w.workers}
	defer op.Close()
	if err := op.Open(ctx); err != nil {
		return err
	}
	for {
		b, err := op.Next()
		if err != nil || b == nil {
			return err
		}
		for _, i := range b.Sel {
			vals := make([]expr.Value, len(q.Out))
			for k, c := range q.Out {
				if vals[k], err = w.local(b.Cols[slices.Index(op.Cols(), c.ID)].At(i), c.Type); err != nil {
					return err
				}
			}
			if err := f(vals, q.Out); err != nil {
				return err
			}
		}
	}
}

// local is a TIMESTAMP in the session's time zone, as clients see it.
func (w *world) local(v expr.Value, t expr.Type) (expr.Value, error) {
	if t.Kind != expr.Timestamp || v.IsNull() {
		return v, nil
	}
	return expr.EvalConst(expr.NewCast(expr.ConstOf(v, t), expr.DatetimeType(t.Scale)), &w.env)
}

// judge opens the MariaDB that GODWIT_MARIADB names, with an empty database; nil if it names none.
func judge(t *testing.T) *sql.DB {
	t.Helper()
	dsn := os.Getenv("GODWIT_MARIADB")
	if dsn == "" {
		return nil
	}
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	db.SetMaxOpenConns(1)
	for _, q := range []string{
		"DROP DATABASE IF EXISTS answers", "CREATE DATABASE answers", "USE answers",
		"SET NAMES utf8mb4 COLLATE utf8mb4_general_ci",
		"SET timestamp = UNIX_TIMESTAMP('2024-02-29 13:14:15'), time_zone = '+00:00', max_recursive_iterations = 1000",
		"SET sql_mode = 'STRICT_TRANS_TABLES,ERROR_FOR_DIVISION_BY_ZERO,NO_ZERO_DATE,NO_ZERO_IN_DATE,ONLY_FULL_GROUP_BY'",
	} {
		if _, err := db.Exec(q); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

func compare(t *testing.T, db *sql.DB, text string, got []string, ordered bool) {
	t.Helper()
	want, err := ask(db, text)
	if err != nil {
		var e *driver.MySQLError
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		if len(got) != 1 || !strings.HasPrefix(got[0], "error") {
			t.Errorf("%s\n  here %v\n  MariaDB %v", text, got, err)
		}
		return
	}
	if !ordered {
		slices.Sort(want)
	}
	if !slices.EqualFunc(got, want, alike) {
		t.Errorf("%s\n  here:\n%s\n  MariaDB:\n%s", text, shown(got), shown(want))
	}
}

// alike compares rows: fields that are numbers by value, to 13 digits.
func alike(a, b string) bool {
	return slices.EqualFunc(strings.Split(a, "|"), strings.Split(b, "|"), func(a, b string) bool {
		if a == b {
			return true
		}
		x, err := strconv.ParseFloat(a, 64)
		y, err2 := strconv.ParseFloat(b, 64)
		d, m := x-y, max(x, -x, 1e-9)
		return err == nil && err2 == nil && d <= m*1e-13 && -d <= m*1e-13
	})
}

func ask(db *sql.DB, text string) (out []string, err error) {
	rows, err := db.Query(text)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	for rows.Next() {
		vals, ptrs := make([]sql.NullString, len(cols)), make([]any, len(cols))
		for i := range vals {
			ptrs[i] = &vals[i]
		}
		if err := rows.Scan(ptrs...); err != nil {
			return nil, err
		}
		line := make([]string, len(cols))
		for i, v := range vals {
			if line[i] = "NULL"; v.Valid {
				line[i] = v.String
			}
		}
		out = append(out, strings.Join(line, "|"))
	}
	return out, rows.Err()
}

// now is the time of all statements.
var now = time.Date(2024, 2, 29, 13, 14, 15, 0, time.UTC)
