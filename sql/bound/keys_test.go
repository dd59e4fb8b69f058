package bound

import (
	"context"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// TestKeys: long texts become digests that are equal if they are, or their beginnings; short ones
// stay as they are.
func TestKeys(t *testing.T) {
	ctx := sql.NewContext(t.Context())
	typ := types.CreateLongText(sql.Collation_utf8mb4_0900_ai_ci)
	column := expression.NewGetField(0, typ, "t", true)
	eval := func(e sql.Expression, text any) any {
		t.Helper()
		v, err := e.Eval(ctx, sql.Row{text})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	e := digested(ctx, column)
	long, other := strings.Repeat("aé字", LongCall/6+1), strings.Repeat("AÉ字", LongCall/6+1)
	if eval(e, long) != eval(e, other) || eval(e, long) == eval(e, long+"x") || eval(e, "a") != "a" || eval(e, nil) != nil {
		t.Error("digests")
	}
	killed, kill := context.WithCancelCause(t.Context())
	kill(errors.New("killed"))
	if _, err := e.Eval(sql.NewContext(killed), sql.Row{long}); err == nil {
		t.Error("a digest cannot be interrupted")
	}
	for _, text := range []string{long, "x" + long, "xx" + long, "xxx" + long, "xxxx" + long} {
		s := eval(sortedBy(ctx, sql.SortFields{{Column: column}})[0].Column, text).(string)
		if !utf8.ValidString(s) || !strings.HasPrefix(text, s) || len(s) < mostSorted-utf8.UTFMax || len(s) > mostSorted {
			t.Errorf("a beginning of %d bytes", len(s))
		}
	}
	if _, err := keyed(ctx, column, refuse).Eval(ctx, sql.Row{long}); !errors.Is(err, ErrLongKey) {
		t.Errorf("a long text: %v", err)
	}
	if number := expression.NewGetField(0, types.Int64, "n", true); digested(ctx, number) != sql.Expression(number) {
		t.Error("a number has a digest")
	}
}
