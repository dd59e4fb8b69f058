package expr_test

import (
	gosql "database/sql"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/exprtest"
	_ "github.com/godwitdb/godwit/sql/expr/fn"
)

func testEnv() *expr.Env {
	return &expr.Env{
		Now:   time.Date(2024, 2, 29, 13, 14, 15, 123456000, time.UTC),
		Mode:  expr.Strict | expr.ErrorForDivisionByZero | expr.NoZeroDate | expr.NoZeroInDate,
		Facts: expr.Facts{Database: "db", User: "root@localhost", CurrentUser: "root@%", Version: "8.0.43", ConnectionID: 7},
	}
}

func errText(err error) string {
	var e *mysql.SQLError
	if errors.As(err, &e) {
		return fmt.Sprintf("error %d: %s", e.Num, e.Message)
	}
	return "error: " + err.Error()
}

// evaluate computes an expression as a value and as a condition, in batches where it is alone and
// where it is one of several rows, and looks whether all agree.
func evaluate(text string, coll sql.CollationID, env *expr.Env, withType bool) string {
	p := &exprtest.Parser{Coll: coll}
	n, err := p.Parse(text)
	if err != nil {
		return errText(err)
	}
	var warnings []string
	env.Warn = func(code int, msg string) { warnings = append(warnings, fmt.Sprintf("%d: %s", code, msg)) }
	e, err := expr.Compile(n, nil, env)
	if err != nil {
		return errText(err)
	}
	b := &expr.Batch{N: 3, Sel: []int32{1}}
	v, err := e.Eval(b, b.Sel)
	if err != nil {
		return errText(err)
	}
	out := v.At(1).Text(v.T)
	if got := e.Type(); got.Kind != n.Type().Kind {
		return fmt.Sprintf("type %s of the node, %s compiled", n.Type(), got)
	}
	if n.Type().NotNull && v.IsNull(1) {
		return "NULL of type NOT NULL"
	}
	if bad := agrees(n, env, out); bad != "" {
		return bad
	}
	if withType {
		out += "\t" + n.Type().String()
	}
	for _, w := range warnings {
		if withType {
			out += "\n  " + w
		}
	}
	return out
}

// agrees compares the value of a condition with what Filter says.
func agrees(n expr.Node, env *expr.Env, out string) string {
	if n.Type().Kind != expr.Int || n.Type().Length != 1 {
		return ""
	}
	quiet := *env
	quiet.Warn = nil
	p, err := expr.CompilePred(n, nil, &quiet)
	if err != nil {
		return errText(err)
	}
	b := &expr.Batch{N: 2, Sel: []int32{0, 1}}
	yes, err := p.Filter(b, b.Sel, true)
	if err != nil {
		return errText(err)
	}
	nyes := len(yes)
	no, err := p.Filter(b, b.Sel, false)
	if err != nil {
		return errText(err)
	}
	want, ok := map[string][2]int{"0": {0, 2}, "NULL": {0, 0}}[out]
	if !ok {
		want = [2]int{2, 0}
	}
	if nyes != want[0] || len(no) != want[1] {
		return fmt.Sprintf("value %s, but %d rows are true and %d false", out, nyes, len(no))
	}
	return ""
}

// TestScripts evaluates the expressions of testdata, one a line. Command "type" shows value, type
// and warnings, "value" the value beside the expression. GODWIT_MARIADB names a MariaDB that must
// agree on what "value" shows, but where "mysql" says that MySQL 8 is followed and MariaDB differs.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var db *gosql.DB
		if os.Getenv("GODWIT_MARIADB") != "" {
			db = connect(t)
		}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			var b strings.Builder
			for _, line := range strings.Split(d.Input, "\n") {
				if d.Cmd == "type" {
					fmt.Fprintf(&b, "%s\n", evaluate(line, sql.Collation_utf8mb4_0900_ai_ci, testEnv(), true))
					continue
				}
				got := evaluate(line, sql.Collation_utf8mb4_0900_ai_ci, testEnv(), false)
				fmt.Fprintf(&b, "%s\t%s\n", line, got)
				if db == nil || d.HasArg("mysql") {
					continue
				}
				if want := ask(db, line); !same(got, want) {
					t.Errorf("%s\n  here %s\n  MariaDB %s", line, got, want)
				}
			}
			return b.String()
		})
	})
}
