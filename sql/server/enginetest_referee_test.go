package server

import (
	"context"
	gosql "database/sql"
	"fmt"
	"math/big"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/enginetest/scriptgen/setup"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	_ "github.com/go-sql-driver/mysql" // the other server's protocol
	"github.com/shopspring/decimal"
)

// refereeEnv names another server: data source names as of go-sql-driver/mysql, one for each
// process of the suite that may run at a time, with blanks between them. Each statement of the
// suite runs there as well, and the logs say where its answers are not ours
// (GODWIT_ENGINETEST_LOGS).
const refereeEnv = "GODWIT_ENGINETEST_JUDGE"

// referee is the other server, as one test uses it.
type referee struct {
	db   *gosql.DB
	conn *gosql.Conn
}

func newReferee(t *testing.T) *referee {
	dsn := os.Getenv(refereeEnv)
	if dsn == "" {
		return nil
	}
	db, err := gosql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	return &referee{db: db}
}

// prepare makes the other server what the engine is at the begin of a test.
func (j *referee) prepare(t *testing.T, scripts []setup.SetupScript) {
	if j == nil {
		return
	}
	ctx := context.Background()
	if j.conn != nil {
		_ = j.conn.Close()
	}
	var err error
	if j.conn, err = j.db.Conn(ctx); err != nil {
		t.Fatal(err)
	}
	rows, err := j.conn.QueryContext(ctx, "SELECT schema_name FROM information_schema.schemata WHERE schema_name NOT "+
		"IN ('mysql', 'sys', 'information_schema', 'performance_schema')")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for rows.Next() {
		var n string
		if err := rows.Scan(&n); err != nil {
			t.Fatal(err)
		}
		names = append(names, n)
	}
	qs := []string{"SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin", "SET foreign_key_checks = 0"}
	for _, n := range names {
		qs = append(qs, "DROP DATABASE `"+n+"`")
	}
	qs = append(qs, "SET foreign_key_checks = 1", "CREATE DATABASE mydb", "USE mydb")
	for _, s := range scripts {
		qs = append(qs, s...)
	}
	for _, q := range qs {
		if _, err := j.run(ctx, q); err != nil {
			fmt.Printf("JUDGE\tsetup\t%q\t%v\n", q, err)
		}
	}
}

func (j *referee) run(ctx context.Context, q string) (out []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	rows, err := j.conn.QueryContext(ctx, q)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	cells, dest := make([]gosql.RawBytes, len(cols)), make([]any, len(cols))
	for i := range cells {
		dest[i] = &cells[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		row := make([]string, len(cells))
		for i, c := range cells {
			row[i] = "NULL"
			if c != nil {
				row[i] = refereeText(string(c))
			}
		}
		out = append(out, strings.Join(row, " | "))
	}
	return out, rows.Err()
}

// compare runs a statement on the other server, and says how its answer differs from ours.
func (j *referee) compare(ctx *sql.Context, q string, sch sql.Schema, rows []sql.Row, own bool, failed error) {
	if j == nil {
		return
	}
	if db := ctx.GetCurrentDatabase(); db != "" {
		_, _ = j.run(ctx, "USE `"+db+"`")
	}
	theirs, err := j.run(ctx, q)
	ours := make([]string, len(rows))
	for i, r := range rows {
		var cells []string
		for k, v := range r {
			cells = append(cells, refereeValue(ctx, sch, k, v))
		}
		ours[i] = strings.Join(cells, " | ")
	}
	verdict := "same"
	a, b := slices.Clone(ours), slices.Clone(theirs)
	slices.Sort(a)
	slices.Sort(b)
	switch {
	case err != nil && failed != nil:
		verdict = "refused"
	case err != nil:
		verdict, theirs = "theirs fails", []string{err.Error()}
	case failed != nil:
		verdict, ours = "ours fails", []string{failed.Error()}
	case !slices.Equal(a, b):
		verdict = "rows"
	case !slices.Equal(ours, theirs):
		verdict = "order"
	}
	var warned []string
	for _, w := range ctx.Warnings() {
		warned = append(warned, fmt.Sprint(w.Code, " ", w.Message))
	}
	theirWarnings, _ := j.run(ctx, "SHOW WARNINGS")
	engine := "old"
	if own {
		engine = "own"
	}
	fmt.Printf("JUDGE\t%s\t%s\t%q\t%q\t%q\t%q\t%q\n", verdict, engine, q, ours, theirs, warned, theirWarnings)
}

func refereeValue(ctx *sql.Context, sch sql.Schema, k int, v any) string {
	switch x := v.(type) {
	case nil:
		return "NULL"
	case bool:
		if x {
			return "1"
		}
		return "0"
	case types.OkResult:
		return ""
	case []byte:
		return refereeText(string(x))
	case decimal.Decimal:
		return refereeText(x.String())
	}
	if k < len(sch) {
		if val, err := sch[k].Type.SQL(ctx, nil, v); err == nil {
			return refereeText(val.ToString())
		}
	}
	return refereeText(fmt.Sprint(v))
}

// refereeText is a value in one form: numbers by their first digits, times without zeros behind.
func refereeText(s string) string {
	if r, ok := new(big.Rat).SetString(s); ok && len(s) < 400 {
		f, _ := r.Float64()
		return fmt.Sprintf("%.6g", f)
	}
	if _, err := time.Parse("2006-01-02 15:04:05.999999", s); err == nil && strings.Contains(s, ".") {
		return strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}
