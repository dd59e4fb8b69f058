package bound

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	"github.com/dolthub/go-mysql-server/sql/types"
)

func likeOf(t *testing.T, text, pattern any, escape sql.Expression) (ours, engines sql.Expression) {
	t.Helper()
	engines = expression.NewLike(expression.NewLiteral(text, types.LongText), expression.NewLiteral(pattern, types.LongText), escape)
	ours, _, err := interruptible(nil, engines)
	if err != nil || ours == engines {
		t.Fatal(ours, err)
	}
	return ours, engines
}

// TestLike: LIKE is what the engine's is.
func TestLike(t *testing.T) {
	ctx := sql.NewEmptyContext()
	bang := expression.NewLiteral("!", types.LongText)
	for _, x := range []struct {
		text, pattern any
		escape        sql.Expression
	}{
		{"abc", "abc", nil}, {"abc", "ABC", nil}, {"abc", "a%", nil}, {"abc", "%c", nil}, {"abc", "%b%", nil}, {"abc", "a_c", nil},
		{"abc", "_", nil}, {"abc", "%_%_%_%", nil}, {"abc", "%_%_%_%_%", nil}, {"", "", nil}, {"", "%", nil}, {"", "_", nil},
		{"a%c", `a\%c`, nil}, {"abc", `a\%c`, nil}, {"a%c", "a!%c", bang}, {"abc", "a!%c", bang}, {"a!", "a!!", bang}, {"äöü", "ä_ü", nil},
		{"abcabc", "%c%a%c", nil}, {"abcabd", "a%c", nil}, {nil, "a", nil}, {"a", nil, nil}, {int64(12), "1%", nil},
		{"a", "a", expression.NewLiteral(nil, types.Null)},
	} {
		ours, engines := likeOf(t, x.text, x.pattern, x.escape)
		want, err := engines.Eval(ctx, nil)
		if err != nil {
			t.Fatal(x, err)
		}
		for range 2 {
			if got, err := ours.Eval(ctx, nil); got != want || err != nil {
				t.Errorf("%v LIKE %v: %v, %v, the engine has %v", x.text, x.pattern, got, err, want)
			}
		}
		again, err := ours.WithChildren(ctx, ours.Children()...)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := again.Eval(ctx, nil); got != want || err != nil {
			t.Errorf("%v LIKE %v again: %v, %v", x.text, x.pattern, got, err)
		}
	}
	two := expression.NewLiteral("!!", types.LongText)
	if ours, _ := likeOf(t, "a", "a", two); ours != nil {
		if _, err := ours.Eval(ctx, nil); !sql.ErrInvalidArgument.Is(err) {
			t.Error(err)
		}
	}
}

// TestInterruptedLike: a search that takes long ends with its statement. The engine's would take
// longer than anybody waits.
func TestInterruptedLike(t *testing.T) {
	kctx, cancel := context.WithCancel(context.Background())
	ctx := sql.NewContext(kctx)
	ours, _ := likeOf(t, strings.Repeat("a", 4<<20), strings.Repeat("%a", 20)+"%"+strings.Repeat("a", 1<<20)+"b%", nil)
	cancel()
	if _, err := ours.Eval(ctx, nil); !errors.Is(err, errInterrupted) {
		t.Error(err)
	}
	ours, _ = likeOf(t, strings.Repeat("a", 1000), strings.Repeat("%a", 20)+"%b", nil)
	if got, err := ours.Eval(sql.NewEmptyContext(), nil); got != false || err != nil {
		t.Error(got, err)
	}
}
