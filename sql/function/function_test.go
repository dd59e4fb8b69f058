package function

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"
)

// eval calls a function as the engine does, by its name.
func eval(t *testing.T, name string, args ...any) any {
	t.Helper()
	ctx := sql.NewEmptyContext()
	f, ok := Lookup(name)
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	var es []sql.Expression
	for _, a := range args {
		var typ sql.Type = types.Null
		switch a.(type) {
		case int64:
			typ = types.Int64
		case uint64:
			typ = types.Uint64
		case float64:
			typ = types.Float64
		case string:
			typ = types.Text
		case decimal.Decimal:
			typ = types.MustCreateDecimalType(10, 2)
		}
		es = append(es, expression.NewLiteral(a, typ))
	}
	e, err := f.NewInstance(ctx, es)
	if err != nil {
		t.Fatal(err)
	}
	v, err := e.Eval(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSign(t *testing.T) {
	for _, c := range []struct {
		x, want any
	}{
		{0.3, int8(1)}, {-0.3, int8(-1)}, {0.0, int8(0)}, {int64(-7), int8(-1)}, {uint64(1 << 63), int8(1)}, {nil, nil},
		{decimal.New(-1, -2), int8(-1)}, {decimal.New(0, 0), int8(0)}, {"-2.5", int8(-1)}, {"x", int8(0)},
	} {
		if got := eval(t, "SIGN", c.x); got != c.want {
			t.Errorf("SIGN(%v) is %v, MySQL says %v", c.x, got, c.want)
		}
	}
}

// TestWeek has the examples of MySQL's manual, and for some years whose first of January is another
// day of the week what a server of MySQL's family answered.
func TestWeek(t *testing.T) {
	for _, c := range []struct {
		day  string
		want [8]int32 // by mode
	}{
		{"2008-02-20", [8]int32{7, 8, 7, 8, 8, 7, 8, 7}},
		{"2008-12-31", [8]int32{52, 53, 52, 1, 53, 52, 53, 52}},
		{"2000-01-01", [8]int32{0, 0, 52, 52, 0, 0, 52, 52}},
		{"2016-01-03", [8]int32{1, 0, 1, 53, 1, 0, 1, 52}},
		{"2018-12-31", [8]int32{52, 53, 52, 1, 53, 53, 1, 53}},
		{"2021-01-03", [8]int32{1, 0, 1, 53, 1, 0, 1, 52}},
	} {
		for mode, want := range c.want {
			if got := eval(t, "week", c.day, int64(mode)); got != want {
				t.Errorf("WEEK('%s', %d) is %v, MySQL says %d", c.day, mode, got, want)
			}
		}
	}
	for _, x := range []any{nil, "no date", "0000-00-00"} {
		if got := eval(t, "week", x, int64(0)); got != nil {
			t.Errorf("WEEK(%v) is %v, MySQL says NULL", x, got)
		}
	}
	if got := eval(t, "week", "0000-01-01", int64(0)); got != int32(1) {
		t.Errorf("WEEK('0000-01-01') is %v, MySQL says 1", got)
	}
}
