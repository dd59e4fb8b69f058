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
	fits(t, map[string]bool{"HEX('abcde')": true, "HEX('abcdef')": false})
}

// TestDocumentsFit: a document that is longer than max_allowed_packet is NULL, as a text is.
func TestDocumentsFit(t *testing.T) {
	fits(t, map[string]bool{"JSON_ARRAY('abcdef')": true, "JSON_ARRAY('abcdefg')": false, "JSON_OBJECT('a', 100)": true,
		"JSON_OBJECT('a', 1000)": false, "JSON_QUOTE('abcdefgh')": true, "JSON_QUOTE('abcdefghi')": false,
		"JSON_UNQUOTE('abcdefghij')": true, "JSON_UNQUOTE('abcdefghijk')": false, "JSON_ARRAY(JSON_ARRAY(1, 2))": true,
		"JSON_ARRAY(JSON_ARRAY(1, 2222))": false, "JSON_LENGTH(JSON_ARRAY(1, 2, 3))": true})
	for name, k := range map[string]struct{ fit, not int }{"json_arrayagg": {3, 4}, "json_objectagg": {1, 2}} {
		for _, rows := range []int{k.fit, k.not} {
			warned := 0
			env := &expr.Env{MaxPacket: 10, Warn: func(code int, _ string) { warned = code }}
			names, vals := &expr.Vec{}, &expr.Vec{}
			names.Reset(expr.TextType(0, sql.Collation_Default, expr.CoerceImplicit), rows)
			vals.Reset(expr.TypeInt, rows)
			in := []*expr.Vec{vals}
			if name == "json_objectagg" {
				in = []*expr.Vec{names, vals}
			}
			var args []expr.Node
			for i, v := range in {
				args = append(args, &expr.Col{ID: expr.ColID(i + 1), T: v.T})
			}
			for i := range rows {
				names.S[i] = strings.Repeat("n", i)
			}
			n, err := expr.NewAgg(expr.LookupAgg(name), args, false, nil, "")
			if err != nil {
				t.Fatal(err)
			}
			acc, err := NewAcc(n.(*expr.Agg), env)
			if err != nil {
				t.Fatal(err)
			}
			acc.Grow(1)
			if err := acc.Add(make([]int32, rows), in, expr.All(rows)); err != nil {
				t.Fatal(err)
			}
			var out expr.Vec
			out.Reset(expr.TypeJSON, 1)
			if err := acc.Result(&out, 0, 1); err != nil {
				t.Fatal(err)
			}
			if null := rows == k.not; out.IsNull(0) != null || (warned == 1301) != null {
				t.Errorf("%s of %d: %q, NULL %v, warning %d", name, rows, out.S[0], out.IsNull(0), warned)
			}
		}
	}
}

// fits checks which results fit into 10 bytes; those that do not are NULL, with a warning.
func fits(t *testing.T, calls map[string]bool) {
	t.Helper()
	for text, fits := range calls {
		warned := 0
		env := &expr.Env{MaxPacket: 10, Warn: func(code int, _ string) { warned = code }}
		n, err := (&exprtest.Parser{Coll: sql.Collation_Default}).Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		e, err := expr.Compile(n, nil, env)
		if err != nil {
			t.Fatal(err)
		}
		v, err := e.Eval(&expr.Batch{N: 1, Sel: []int32{0}}, []int32{0})
		if err != nil || v.IsNull(0) == fits || (warned == 1301) == fits {
			t.Errorf("%s: NULL %v, warning %d, %v", text, v.IsNull(0), warned, err)
		}
	}
}
