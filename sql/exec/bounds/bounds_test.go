package bounds

import (
	"testing"

	"github.com/godwitdb/godwit/sql/expr"
)

// TestOf: bounds are found on either side, with the value that a parameter has now. None is taken
// from behind a condition that may be an error: a row of which it is one must not be left out.
func TestOf(t *testing.T) {
	big := expr.Type{Kind: expr.Int}
	a, b := &expr.Col{ID: 1, T: big}, &expr.Col{ID: 2, T: big}
	outer := &expr.Col{ID: 9, T: big}
	num := func(i int64) expr.Node { return &expr.Const{V: expr.Value{Kind: expr.Int, I: i}, T: big} }
	null := &expr.Const{T: big}
	call := func(name string, args ...expr.Node) expr.Node {
		n, err := expr.NewCall(expr.Lookup(name), args...)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	env := &expr.Env{Params: []expr.Value{{Kind: expr.Int, I: 7}}}
	of := func(conds ...expr.Node) []Bound { return Of(conds, []expr.ColID{1, 2}, env) }

	got := of(call("<", num(3), a), call("=", a, b), call("<=", b, &expr.Param{N: 0, T: big}))
	if len(got) != 2 || got[0].Col != 0 || got[0].Op != Gt || got[0].V.I != 3 || got[1].Col != 1 || got[1].Op != Le || got[1].V.I != 7 {
		t.Errorf("%+v", got)
	}
	for name, cond := range map[string]expr.Node{
		"of an outer query": call("=", outer, num(1)), "NULL": call("=", a, null), "two columns": call("<", a, b),
		"<>": call("<>", a, num(1)), "a parameter that is not there": call("=", a, &expr.Param{N: 5, T: big}),
	} {
		if got := of(cond); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	overflows := call("=", call("*", a, num(1<<62)), num(1))
	if got := of(call("=", b, num(1)), overflows, call("=", a, num(0))); len(got) != 1 || got[0].Col != 1 {
		t.Errorf("with a condition that may be an error: %+v", got)
	}
}
