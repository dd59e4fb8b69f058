package fn

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/expr/exprtest"
)

// TestCallsLeave: a statement that is told to end does not wait for a call that goes on. What the
// call takes is accounted for until it has ended, and it tells the statement nothing any more.
func TestCallsLeave(t *testing.T) {
	ctx, end := context.WithCancelCause(t.Context())
	killed := errors.New("killed")
	began, goOn, released := make(chan struct{}), make(chan struct{}), make(chan struct{})
	held := int64(0)
	env := &expr.Env{Ctx: ctx, Mem: refusing{t}, Held: func(n int64) (func(), error) {
		held += n
		return func() { close(released) }, nil
	}, Warn: func(int, string) { t.Error("it warned the statement that had left") }}
	c := &call{env: env, long: longArgs, make: func(env *expr.Env) (rowEval, error) {
		return func(_ []*expr.Vec, i int32, v *expr.Vec) error {
			close(began)
			<-goOn
			env.Note(1, "late")
			if env.Err() == nil || env.Mem.Grow(1) == nil {
				t.Error("the call does not know that its statement has left")
			}
			env.Mem.Shrink(1)
			v.I[i] = 7
			return nil
		}, nil
	}}
	arg, out := &expr.Vec{}, &expr.Vec{}
	arg.Reset(expr.TextType(0, sql.Collation_Default, expr.CoerceImplicit), 1)
	arg.S[0] = strings.Repeat("a", longCall)
	out.Reset(expr.TypeInt, 1)
	go func() { <-began; end(killed) }()
	if err := c.eval([]*expr.Vec{arg}, 0, out); !errors.Is(err, killed) || held < longCall {
		t.Errorf("%v, %d bytes held", err, held)
	}
	select {
	case <-released:
		t.Error("the memory was given back while the call runs")
	default:
	}
	close(goOn)
	<-released
	if out.I[0] != 0 {
		t.Error("the call has changed the statement's batch")
	}
}

// refusing is the account of a statement that is over.
type refusing struct{ t *testing.T }

// Grow implements expr.Memory.
func (r refusing) Grow(int64) error { r.t.Error("memory of a statement that is over"); return nil }

// Shrink implements expr.Memory.
func (r refusing) Shrink(int64) { r.t.Error("memory of a statement that is over") }

// TestRegexpEnds: a search that would take hours ends with its statement.
func TestRegexpEnds(t *testing.T) {
	for _, call := range []string{
		"REGEXP_LIKE(REPEAT('a', 60000000), CONCAT(REPEAT('a?', 20000), 'b'))",
		"LENGTH(REGEXP_REPLACE(REPEAT('a', 1000000), 'a*b|a', 'cd'))", // each match looks at the rest of the text
		"REGEXP_INSTR(REPEAT('a', 1000000), 'a*b|a', 1, 999999)",
		"REGEXP_INSTR(REPEAT('a', 40000), 'a*b|a', 1, 39999)", // no search is long, but all together
		"REGEXP_SUBSTR(REPEAT('a', 1000000), 'a*b|a', 1, 999999)",
	} {
		ctx, end := context.WithTimeout(t.Context(), 20*time.Millisecond)
		e := compiled(t, call, &expr.Env{Ctx: ctx})
		if _, err := e.Eval(&expr.Batch{N: 1, Sel: []int32{0}}, []int32{0}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", call, err)
		}
		end()
	}
}

// TestRegexp has the examples of MySQL's manual (8.0, 12.8.2), and what else was wrong in the
// engine's library: positions counted bytes, groups were not put in, and a match type of other
// letters let the collation's case go.
func TestRegexp(t *testing.T) {
	for call, want := range map[string]string{
		"REGEXP_INSTR('dog cat dog', 'dog')": "1", "REGEXP_INSTR('dog cat dog', 'dog', 2)": "9",
		"REGEXP_INSTR('aa aaa aaaa', 'a{2}')": "1", "REGEXP_INSTR('aa aaa aaaa', 'a{4}')": "8",
		"REGEXP_INSTR('dog cat dog', 'dog', 1, 2, 1)": "12", "REGEXP_INSTR('a', 'b')": "0",
		"REGEXP_LIKE('CamelCase', 'CAMELCASE')": "1", "REGEXP_LIKE('Michael!', '.*')": "1",
		"REGEXP_LIKE('a', '^[a-d]')": "1", "REGEXP_LIKE('abc', 'ABC', 'c')": "0", "REGEXP_LIKE('abc', 'ABC', 'm')": "1",
		"REGEXP_LIKE('abc', 'ABC', 'ci')": "1", "REGEXP_LIKE('new*\n*line', 'new\\*.\\*line')": "0",
		"REGEXP_LIKE('fo\nfo', '^fo$')": "0", "REGEXP_LIKE('fo\nfo', '^fo$', 'm')": "1", "REGEXP_LIKE('a\nb', 'a.b', 'n')": "1",
		"REGEXP_REPLACE('a b c', 'b', 'X')": "a X c", "REGEXP_REPLACE('abc def ghi', '[a-z]+', 'X', 1, 3)": "abc def X",
		"REGEXP_REPLACE('abc def ghi', '[a-z]+', 'X', 2)": "aX X X", "REGEXP_REPLACE('baac', 'a*', 'x')": "xbxxcx",
		"REGEXP_REPLACE('john doe', '([a-z]+) ([a-z]+)', '$2, $1 $0')": "doe, john john doe",
		"REGEXP_REPLACE('ab', '(a)', '$12')":                           "a2b",
		"REGEXP_REPLACE('abc', 'x', 'y')":                              "abc", "REGEXP_REPLACE('', '^', 'y')": "y",
		"REGEXP_SUBSTR('abc def ghi', '[a-z]+')": "abc", "REGEXP_SUBSTR('abc def ghi', '[a-z]+', 1, 3)": "ghi",
		"REGEXP_SUBSTR('abc', 'x')": "NULL", "REGEXP_SUBSTR('abc', NULL)": "NULL",
		"REGEXP_INSTR('äb', 'b')": "2", "REGEXP_INSTR('ääb', '.', 3)": "3", "REGEXP_REPLACE('ääb', 'ä', 'x', 2)": "äxb",
		"REGEXP_INSTR('abcabc', '^a', 4)": "0", "REGEXP_INSTR('abcabc', '^a|b', 4)": "5", "REGEXP_INSTR('ab', 'b|$', 3)": "3",
		"REGEXP_INSTR('a', 'a', 3)": "error 3686", "REGEXP_INSTR('a', 'a', 0)": "error 3686", "REGEXP_LIKE('a', '')": "error 3685",
		"REGEXP_LIKE('a', '(')": "error 3691", "REGEXP_LIKE('a', '[')": "error 3696", "REGEXP_LIKE('a', '*')": "error 3688",
		"REGEXP_LIKE('a', 'a', 'x')": "error 1210", "REGEXP_INSTR('a', 'a', 1, 1, 2)": "error 1210",
		"REGEXP_REPLACE('a', 'a', '$1')":                                              "error 3887",
		"REGEXP_REPLACE(REPEAT('a', 2000), CONCAT(REPEAT('(a?)', 16000), 'b'), '$1')": "error 3700",
	} {
		env := &expr.Env{Ctx: t.Context()}
		v, err := compiledIn(t, sql.Collation_utf8mb4_0900_ai_ci, call, env).Eval(&expr.Batch{N: 1, Sel: []int32{0}}, []int32{0})
		got := ""
		var e *mysql.SQLError
		switch {
		case errors.As(err, &e):
			got = "error " + strconv.Itoa(e.Num)
		case err != nil:
			got = err.Error()
		case v.IsNull(0) || v.T.Kind == expr.Null:
			got = "NULL"
		case v.T.Kind == expr.Text:
			got = v.S[0]
		default:
			got = strconv.FormatInt(v.I[0], 10)
		}
		if got != want {
			t.Errorf("%s: %s, not %s", call, got, want)
		}
	}
}

// TestCallsAside: what runs aside has the results, the warnings and the errors of what does not.
func TestCallsAside(t *testing.T) {
	for _, call := range []string{"MD5(x)", "LENGTH(HEX(x))", "LENGTH(UPPER(x))", "LENGTH(CONCAT(x, NULL))", "CRC32(COMPRESS(x))",
		"REGEXP_LIKE(x, 'b.*c')", "REGEXP_INSTR(x, 'q')", "FIELD('q', x)", "LEFT(x, 2) + 1",
		"REGEXP_LIKE(x, '(')", "SHA2(x, 256)", "LENGTH(REPLACE(x, 'a', 'bcd'))"} {
		var last string
		for _, n := range []int{1, longCall/2 + 1} { // run here, and aside
			var said []string
			env := &expr.Env{Ctx: t.Context(), Box: sql.NewEmptyContext(), Warn: func(_ int, msg string) { said = append(said, msg) }}
			done := 0
			env.Held = func(int64) (func(), error) { done++; return func() {}, nil }
			v, err := compiled(t, strings.ReplaceAll(call, "x", "REPEAT('ab', "+strconv.Itoa(n)+")"), env).
				Eval(&expr.Batch{N: 1, Sel: []int32{0}}, []int32{0})
			for _, w := range env.Box.Warnings() {
				said = append(said, w.Message)
			}
			text := strings.Join(said, "; ")
			if err != nil {
				text += "; " + err.Error()
			} else if v.IsNull(0) {
				text += "; NULL"
			}
			if n > 1 && text != last {
				t.Errorf("%s aside: %q, not %q", call, text, last)
			}
			if last = text; done > 0 {
				t.Errorf("%s took memory for after the statement", call)
			}
		}
	}
}

func compiled(t *testing.T, text string, env *expr.Env) expr.Expr {
	t.Helper()
	return compiledIn(t, sql.Collation_Default, text, env)
}

func compiledIn(t *testing.T, coll sql.CollationID, text string, env *expr.Env) expr.Expr {
	t.Helper()
	n, err := (&exprtest.Parser{Coll: coll}).Parse(text)
	if err != nil {
		t.Fatal(text[:min(len(text), 80)], err)
	}
	e, err := expr.Compile(n, nil, env)
	if err != nil {
		t.Fatal(err)
	}
	return e
}
