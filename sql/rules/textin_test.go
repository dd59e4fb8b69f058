package rules

import (
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/analyzer"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// TestTextInIsIn says that the engine sees a comparison by collation as what it is: an IN that an
// index may serve, printed as its own set of a list.
func TestTextInIsIn(t *testing.T) {
	ctx := sql.NewEmptyContext()
	text := types.MustCreateString(types.LongText.Type(), 100, sql.Collation_utf8mb4_0900_ai_ci)
	in := expression.NewInTuple(expression.NewGetField(0, text, "a", false),
		expression.NewTuple(expression.NewLiteral("x", types.LongText), expression.NewLiteral("y", types.LongText)))
	e, _, err := collateIn(ctx, in)
	if err != nil {
		t.Fatal(err)
	}
	if _, is := e.(*textIn); !is {
		t.Fatalf("%T", e)
	}
	hashed, err := expression.NewHashInTuple(ctx, in.Left(), in.Right())
	if err != nil {
		t.Fatal(err)
	}
	if e.String() != hashed.String() || sql.DebugString(ctx, e) != sql.DebugString(ctx, hashed) {
		t.Errorf("%s, want %s", sql.DebugString(ctx, e), sql.DebugString(ctx, hashed))
	}
	op, left, right, ok := analyzer.IndexLeafChildren(e)
	if !ok || op != sql.IndexScanOpInSet || left != in.Left() || right.String() != in.Right().String() {
		t.Errorf("op %v of %v and %v, %v", op, left, right, ok)
	}
	for v, want := range map[string]bool{"X": true, "y": true, "z": false} {
		if got, err := e.Eval(ctx, sql.Row{v}); err != nil || got != want {
			t.Errorf("%s: %v, %v", v, got, err)
		}
	}
}
