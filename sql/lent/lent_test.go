package lent

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/sql/expr"
)

// packetBytes is what max_allowed_packet is for these tests, as at a node.
const packetBytes = 64 << 20

func TestMain(m *testing.M) {
	if err := sql.SystemVariables.AssignValues(map[string]any{"max_allowed_packet": int64(packetBytes)}); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// call makes a call of a function as the engine does.
func call(t *testing.T, name string, args ...any) sql.Expression {
	t.Helper()
	var es []sql.Expression
	for _, a := range args {
		switch a := a.(type) {
		case sql.Expression:
			es = append(es, a)
		case int:
			es = append(es, expression.NewLiteral(int64(a), types.Int64))
		case string:
			es = append(es, expression.NewLiteral(a, types.Text))
		case decimal.Decimal:
			es = append(es, expression.NewLiteral(a, types.MustCreateDecimalType(10, 2)))
		case nil:
			es = append(es, expression.NewLiteral(nil, types.Null))
		}
	}
	e, err := Functions()[name].NewInstance(sql.NewEmptyContext(), es)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestLent: what our engine computes is what MySQL answers, whatever the arguments are.
func TestLent(t *testing.T) {
	for _, c := range []struct {
		name string
		args []any
		want any
	}{
		{"concat", []any{"a", 1, decimal.New(15, -1)}, "a11.50"},
		{"concat", []any{"a", nil}, nil},
		{"concat_ws", []any{"-", 1, nil, "b"}, "1-b"},
		{"hex", []any{255}, "FF"},
		{"hex", []any{"abc"}, "616263"},
		{"hex", []any{decimal.New(17, -1)}, "2"},
		{"insert", []any{"abcdef", 2, 2, "ZZ"}, "aZZdef"},
		{"lpad", []any{"ab", 5, "x"}, "xxxab"},
		{"find_in_set", []any{"b", "a,b"}, int64(2)},
		{"rpad", []any{12, 4, "0"}, "1200"},
		{"quote", []any{"a'b"}, `'a\'b'`},
		{"repeat", []any{"ab", 3}, "ababab"},
		{"replace", []any{"aXbX", "X", "yy"}, "ayybyy"},
		{"space", []any{3}, "   "},
		{"to_base64", []any{"abc"}, "YWJj"},
		// Longer than max_allowed_packet.
		{"space", []any{1_000_000_000}, nil},
		{"repeat", []any{"a", 1_000_000_000}, nil},
		{"lpad", []any{"a", 1_000_000_000, "b"}, nil},
		{"concat", []any{call(t, "space", 60_000_000), call(t, "space", 60_000_000)}, nil},
		{"replace", []any{call(t, "repeat", "a", 1_000_000), "a", call(t, "repeat", "b", 1_000_000)}, nil},
		{"json_array", []any{call(t, "space", 60_000_000), call(t, "space", 60_000_000)}, nil},
	} {
		ctx := sql.NewEmptyContext()
		e := call(t, c.name, c.args...)
		for range 2 { // the second time it is compiled already
			if got, err := e.Eval(ctx, nil); err != nil || got != c.want {
				t.Errorf("%s%.60v is %.60v, %v; MySQL says %v", c.name, c.args, got, err, c.want)
			}
		}
		if c.want == nil && c.args[len(c.args)-1] != nil && ctx.WarningCount() == 0 {
			t.Errorf("%s%.60v is too long, and nobody is warned", c.name, c.args)
		}
	}
}

// TestAllThere: the engine has the functions that are counted, and ours has those that are lent.
func TestAllThere(t *testing.T) {
	all := Functions()
	for _, n := range append(append([]string(nil), ours...), theirs...) {
		if all[n] == nil {
			t.Errorf("the engine has no %s", n)
		}
	}
	for _, n := range ours {
		if expr.Lookup(n) == nil {
			t.Errorf("our engine has no %s", n)
		}
	}
}

// TestInterrupted: a long result is not made any more once the statement has been interrupted.
func TestInterrupted(t *testing.T) {
	kctx, cancel := context.WithCancel(context.Background())
	ctx := sql.NewContext(kctx)
	e := call(t, "replace", strings.Repeat("a", 1<<20), "a", "bb")
	if v, err := e.Eval(ctx, nil); err != nil || len(v.(string)) != 2<<20 {
		t.Fatalf("%v", err)
	}
	cancel()
	if _, err := e.Eval(ctx, nil); err == nil {
		t.Error("it was made to its end")
	}
}
