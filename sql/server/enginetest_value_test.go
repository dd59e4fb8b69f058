package server

import (
	"fmt"
	"math"
	"strconv"
	"testing"

	"github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/enginetest/queries"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/shopspring/decimal"
	"gopkg.in/src-d/go-errors.v1"
)

// The suite wants Go's bool for truth values and float64 for SUM and AVG. A client of MySQL sees
// integers and DECIMALs there, and so do those of our own engine. The harness compares such values
// as numbers; strings must be the same, and with them the digits of a DECIMAL that the suite writes
// as a string.

var _ enginetest.ResultEvaluationHarness = (*gmsHarness)(nil)

// plainHarness has nothing but the methods of Harness, so that the suite compares in its own way.
type plainHarness struct{ enginetest.Harness }

// EvaluateQueryResults implements enginetest.ResultEvaluationHarness.
func (h *gmsHarness) EvaluateQueryResults(t *testing.T, want []sql.Row, wantCols []*sql.Column, sch sql.Schema,
	got []sql.Row, q string, wrap queries.WrapBehavior) {
	t.Helper()
	got, want = copyRows(got), copyRows(want)
	for _, r := range got {
		for k, v := range r {
			if w, ok := v.(sql.AnyWrapper); ok && wrap == queries.WrapBehavior_Hash {
				r[k] = w.Hash()
			}
		}
	}
	for k := range sch {
		if numbersIn(got, k) && numbersIn(want, k) {
			asNumbers(got, k)
			asNumbers(want, k)
		}
	}
	enginetest.CheckResults(h.NewContext(), t, plainHarness{h}, want, wantCols, sch, got, q, nil)
}

// EvaluateExpectedError implements enginetest.ResultEvaluationHarness.
func (h *gmsHarness) EvaluateExpectedError(t *testing.T, want string, err error) {
	t.Helper()
	if err.Error() != want {
		t.Fatalf("error %q instead of %q", err, want)
	}
}

// EvaluateExpectedErrorKind implements enginetest.ResultEvaluationHarness.
func (h *gmsHarness) EvaluateExpectedErrorKind(t *testing.T, want *errors.Kind, err error) {
	t.Helper()
	// an error of our own engine: a client sees its number
	if me, ok := err.(*mysql.SQLError); ok && me.Num != mysql.ERUnknownError {
		if n := sql.CastSQLError(want.New()).Num; n != me.Num {
			t.Fatalf("error %d instead of %d: %v", me.Num, n, err)
		}
		return
	}
	if !want.Is(err) {
		t.Fatalf("error %v is not %v", err, want)
	}
}

func copyRows(rows []sql.Row) []sql.Row {
	if rows == nil {
		return nil
	}
	out := make([]sql.Row, len(rows))
	for i, r := range rows {
		out[i] = r.Copy()
	}
	return out
}

// numbersIn reports whether the values of a column are numbers or NULL, as Go has them.
func numbersIn(rows []sql.Row, k int) bool {
	for _, r := range rows {
		if k >= len(r) {
			return false
		}
		if _, ok := numberText(r[k]); !ok {
			return false
		}
	}
	return true
}

func asNumbers(rows []sql.Row, k int) {
	for _, r := range rows {
		if r[k] != nil {
			r[k], _ = numberText(r[k])
		}
	}
}

// numberText is a number in one form, whatever its type: whole numbers exactly, others with 9
// digits.
func numberText(v any) (string, bool) {
	switch x := v.(type) {
	case nil:
		return "", true
	case bool:
		if x {
			return "1", true
		}
		return "0", true
	case float32:
		f, err := strconv.ParseFloat(fmt.Sprint(x), 64) // the digits that it shows
		return floatText(f), err == nil
	case float64:
		return floatText(x), true
	case decimal.Decimal:
		if x.IsInteger() {
			return x.Truncate(0).String(), true
		}
		f, _ := x.Float64()
		return floatText(f), true
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(x), true
	}
	return "", false
}

func floatText(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1<<53 {
		return strconv.FormatInt(int64(f), 10)
	}
	return strconv.FormatFloat(f, 'g', 9, 64)
}
