package lent

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/expression"
	builtin "github.com/dolthub/go-mysql-server/sql/expression/function"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/sql/aside"
	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/function"
)

// longCalls have an argument that is long enough to run aside: of each function of the engine that
// may get one.
func longCalls() map[string][]any {
	text, doc := strings.Repeat("aB1é", bound.LongCall/4), `["`+strings.Repeat("a", bound.LongCall)+`"]`
	out := map[string][]any{
		"char": {65, text}, "elt": {2, "a", text}, "export_set": {3, "a", text[:100<<10], ",", 60}, "field": {"a", text, "a"},
		"instr": {text, "x"}, "left": {text, 4_200_000}, "right": {text, 4_200_000}, "locate": {"x", text},
		"lpad": {text, 5_000_000, "x"}, "rpad": {text, 5_000_000, "x"}, "mid": {text, 5, 4_200_000},
		"substr": {text, 5, 4_200_000}, "substring": {text, 5}, "substring_index": {text, "1", 3}, "sha2": {text, 256},
		"strcmp": {text, text + "a"}, "make_set": {3, text, "b"}, "from_base64": {strings.Repeat("YWJj", bound.LongCall/4)},
		"unhex": {strings.Repeat("4142", bound.LongCall/4)}, "json_array": {text, 1}, "json_array_append": {doc, "$", 1},
		"json_array_insert": {doc, "$[0]", 1}, "json_insert": {doc, "$[3]", 1}, "json_merge": {doc, "[1]"},
		"json_merge_patch": {doc, "[1]"}, "json_merge_preserve": {doc, "[1]"}, "json_object": {"a", text}, "json_overlaps": {doc, "[1]"},
		"json_remove": {doc, "$[0]"}, "json_replace": {doc, "$[0]", 1}, "json_set": {doc, "$[0]", 1}, "json_keys": {`{"a": ` + doc + `}`},
	}
	for _, name := range theirs {
		switch {
		case out[name] != nil:
		case strings.HasPrefix(name, "json_"):
			out[name] = []any{doc}
		default:
			out[name] = []any{text}
		}
	}
	delete(out, "json_pretty") // it takes no long ones
	delete(out, "export_set")
	return out
}

// plain is a call of a function of the engine as it is.
func plain(t *testing.T, name string, args []any) sql.Expression {
	t.Helper()
	f, ok := function.Lookup(name)
	for _, b := range builtin.BuiltIns {
		if !ok && strings.EqualFold(b.FunctionName(), name) {
			f = b
		}
	}
	e, err := f.NewInstance(sql.NewEmptyContext(), literals(args))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return e
}

func literals(args []any) (es []sql.Expression) {
	for _, a := range args {
		if n, ok := a.(int); ok {
			es = append(es, expression.NewLiteral(int64(n), types.Int64))
		} else {
			es = append(es, expression.NewLiteral(a, types.LongText))
		}
	}
	return es
}

// TestAside: a call whose arguments are long answers as the engine's function does, and runs aside.
func TestAside(t *testing.T) {
	// Somebody else has all lanes but one, or all.
	_, most := aside.Calls.Taken()
	goOn := make(chan struct{})
	taken := func(n int) (free func()) {
		begun, ended := make(chan struct{}), make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range n {
			go func() {
				_ = aside.Calls.Run(ctx, func() (func(), error) { return func() {}, nil }, func() { begun <- struct{}{}; <-goOn })
				ended <- struct{}{}
			}()
			<-begun
		}
		return func() {
			for range n {
				goOn <- struct{}{}
				<-ended
			}
		}
	}
	for name, args := range longCalls() {
		want, wantErr := plain(t, name, args).Eval(sql.NewEmptyContext(), nil)
		var es []any
		for _, e := range literals(args) {
			es = append(es, e)
		}
		e := call(t, name, es...)
		ctx, cancel := context.WithCancelCause(t.Context())
		got, err := e.Eval(sql.NewContext(ctx), nil)
		if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(boxed(t, got), boxed(t, want)) {
			t.Errorf("%s: %.60v, %v; the engine has %.60v, %v", name, got, err, want, wantErr)
		}
		free := taken(most)
		killed := errors.New("killed")
		cancel(killed)
		if _, err := e.Eval(sql.NewContext(ctx), nil); err == nil {
			t.Errorf("%s does not run aside", name)
		}
		free()
	}
}

// boxed is a value that can be compared.
func boxed(t *testing.T, v any) any {
	t.Helper()
	if d, ok := v.(sql.JSONWrapper); ok {
		x, err := d.ToInterface(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	return v
}
