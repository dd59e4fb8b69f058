package rules

import (
	"reflect"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// TestShortOperands: the engine gets little of a long text where it makes a number of it, and all
// of it where it is compared with a text.
func TestShortOperands(t *testing.T) {
	ctx := sql.NewEmptyContext()
	text, bytes := expression.NewGetField(0, types.LongText, "t", true), expression.NewGetField(1, types.LongBlob, "b", true)
	one, list := expression.NewLiteral(int64(1), types.Int64), expression.NewTuple(expression.NewLiteral(1.5, types.Float64))
	day, now := expression.NewGetField(2, types.Date, "d", true), expression.NewLiteral("2020-01-01", types.Text)
	year := function.NewYear(ctx, text)
	for _, k := range []struct {
		e    sql.Expression
		cuts bool
	}{
		{expression.NewEquals(text, day), true},
		{expression.NewInTuple(text, expression.NewTuple(day)), true},
		{expression.NewBetween(text, now, day), true},
		{expression.NewConvert(text, expression.ConvertToDatetime), true},
		{expression.NewConvert(text, expression.ConvertToDate), true},
		{expression.NewConvert(text, expression.ConvertToTime), true},
		{expression.NewConvert(bytes, expression.ConvertToDate), true},
		{year, true},
		{expression.NewUnaryMinus(text), true},
		{expression.NewSetField(day, text), true},
		{expression.NewCase(day, []expression.CaseBranch{{Cond: text, Value: one}}, nil), true},
		{expression.NewCase(day, []expression.CaseBranch{{Cond: day, Value: text}}, text), false},
		{expression.NewCase(nil, []expression.CaseBranch{{Cond: text, Value: day}}, one), false},
		{expression.NewCase(one, []expression.CaseBranch{{Cond: one, Value: day}, {Cond: text, Value: text}}, day), true},
		{expression.NewEquals(text, one), true},
		{expression.NewLessThan(one, text), true},
		{expression.NewInTuple(text, list), true},
		{expression.NewBetween(text, one, one), true},
		{expression.NewPlus(text, text), true},
		{expression.NewConvert(text, expression.ConvertToSigned), true},
		{expression.NewConvert(text, expression.ConvertToDouble), true},
		{expression.NewConvert(text, expression.ConvertToChar), false},
		{expression.NewEquals(text, text), false},
		{expression.NewEquals(bytes, one), false},
	} {
		short, _, err := shortBelow(ctx, k.e)
		if err != nil {
			t.Fatal(err)
		}
		most := 0
		sql.Inspect(ctx, short, func(_ *sql.Context, e sql.Expression) bool {
			if n, ok := e.(*number); ok {
				v, err := n.Eval(ctx, sql.Row{strings.Repeat("x", 1<<20), []byte(strings.Repeat("x", 1<<20)), nil})
				if err != nil {
					t.Fatal(err)
				}
				most = reflect.ValueOf(v).Len()
				return false
			}
			return true
		})
		if cuts := most == mostOther || most == mostMoment; cuts != k.cuts {
			t.Errorf("%s: cut %v, want %v", k.e, cuts, k.cuts)
		}
	}
}
