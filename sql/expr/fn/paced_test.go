package fn

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/exprtest"
)

// counted counts how often it is asked whether the statement may go on.
type counted struct {
	context.Context
	n, most int
}

// Err implements context.Context.
func (c *counted) Err() error {
	if c.n++; c.n > c.most {
		return context.Canceled
	}
	return nil
}

// TestFunctionsAsk: functions of many long strings ask whether the statement may go on, by the
// bytes that they get, and end when it may not.
func TestFunctionsAsk(t *testing.T) {
	const rows = 64
	text := "'" + strings.Repeat("ab", bytesBetween/4) + "'"
	for _, call := range []string{"HEX(x)", "MD5(x)", "UPPER(x)", "REVERSE(x)", "LOCATE('q', x)", "COMPRESS(x)", "x LIKE '%q%r%'"} {
		run := func(most int) (int, error) {
			ctx := &counted{Context: t.Context(), most: most}
			env := &expr.Env{Ctx: ctx}
			n, err := (&exprtest.Parser{Coll: sql.Collation_Default}).Parse(strings.Replace(call, "x", text, 1))
			if err != nil {
				t.Fatal(err)
			}
			e, err := expr.Compile(n, nil, env)
			if err != nil {
				t.Fatal(err)
			}
			sel := make([]int32, rows)
			for i := range sel {
				sel[i] = int32(i)
			}
			_, err = e.Eval(&expr.Batch{N: rows, Sel: sel}, sel)
			return ctx.n, err
		}
		all, err := run(1 << 30)
		if err != nil || all < rows/4 {
			t.Errorf("%s asked %d times, %v", call, all, err)
		}
		if n, err := run(3); !errors.Is(err, context.Canceled) || n != 4 {
			t.Errorf("%s was told to end: asked %d times, %v", call, n, err)
		}
	}
}

// TestHex: HEX of what would be too long is NULL, and is not made.
func TestHex(t *testing.T) {
	if got := upperHex("\x00\xffAz"); got != "00FF417A" {
		t.Error(got)
	}
	env := &expr.Env{MaxPacket: 10}
	var warned int
	env.Warn = func(code int, _ string) { warned = code }
	for text, null := range map[string]bool{"HEX('abcde')": false, "HEX('abcdef')": true} {
		n, err := (&exprtest.Parser{Coll: sql.Collation_Default}).Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		e, err := expr.Compile(n, nil, env)
		if err != nil {
			t.Fatal(err)
		}
		v, err := e.Eval(&expr.Batch{N: 1, Sel: []int32{0}}, []int32{0})
		if err != nil || v.IsNull(0) != null || null && warned != 1301 {
			t.Errorf("%s: NULL %v, warning %d, %v", text, v.IsNull(0), warned, err)
		}
	}
}
