package opt

import (
	"context"
	"errors"
	"testing"

	"github.com/godwitdb/godwit/sql/expr"
)

// asked counts how often the planner asks whether it may go on, and says no after most of them.
type asked struct {
	context.Context
	n, most int
}

// Err implements context.Context.
func (a *asked) Err() error {
	if a.n++; a.n > a.most {
		return context.Canceled
	}
	return nil
}

// TestListsAsk: what goes through the values of a long list asks meanwhile whether the statement
// may go on, and ends when it may not.
func TestListsAsk(t *testing.T) {
	const n = 100_000
	in := &expr.In{Left: &expr.Col{ID: 1, T: expr.TypeInt}, Cmp: expr.TypeInt}
	for i := range n {
		in.List = append(in.List, expr.IntConst(int64(i)))
	}
	list := func(a *asked) (vals []expr.Node, err error) {
		defer func() {
			if r, ok := recover().(interrupted); ok {
				err = r.error
			}
		}()
		o := &optimizer{env: &expr.Env{Ctx: a}, outer: set{}}
		vals, _ = o.inValues(in, 1, expr.TypeInt)
		return vals, nil
	}
	whole := &asked{most: n}
	if vals, err := list(whole); err != nil || len(vals) != n || whole.n < n/listStep {
		t.Fatalf("%d values, asked %d times, %v", len(vals), whole.n, err)
	}
	few := &asked{most: 3}
	if _, err := list(few); err == nil || few.n != 4 {
		t.Errorf("asked %d times: %v", few.n, errors.Unwrap(err))
	}
}
