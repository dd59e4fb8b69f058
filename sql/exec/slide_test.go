package exec_test

import (
	"context"
	"testing"

	"github.com/godwitdb/godwit/sql/exec"
	"github.com/godwitdb/godwit/sql/expr"
)

// counted is an aggregate that counts how many rows it is given, and how many are taken away.
type counted struct {
	expr.Acc
	added, removed *int
}

func (c counted) Add(groups []int32, in []*expr.Vec, sel []int32) error {
	*c.added += len(sel)
	return c.Acc.Add(groups, in, sel)
}

func (c counted) Remove(groups []int32, in []*expr.Vec, sel []int32) error {
	*c.removed += len(sel)
	return c.Acc.(expr.Remover).Remove(groups, in, sel)
}

// TestSlide: a frame that slides over rows adds each of them once, and takes it away once.
func TestSlide(t *testing.T) {
	const rows, frame = 2000, 500
	var values [][]expr.Node
	for i := range rows {
		values = append(values, []expr.Node{expr.IntConst(int64(i))})
	}
	x := &expr.Col{ID: 1, T: expr.TypeInt}
	n, err := expr.NewAgg(expr.LookupAgg("sum"), []expr.Node{x}, false, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	sum := n.(*expr.Agg)
	added, removed := 0, 0
	plain := sum.Fn.Acc
	sum.Fn = &expr.AggFunc{Name: "sum", Acc: plain, Sliding: func(a *expr.Agg, env *expr.Env) (expr.Acc, error) {
		acc, err := plain(a, env)
		return counted{acc, &added, &removed}, err
	}}
	op := exec.NewWindow(exec.WindowSpec{
		In:    exec.NewValues([]expr.ColID{1}, []expr.Type{expr.TypeInt}, values),
		Order: []exec.SortKey{{Expr: x}},
		Funcs: []exec.WindowFunc{{ID: 2, Type: sum.T, Agg: sum, Frame: exec.WindowFrame{
			Rows: true, Lo: exec.WindowBound{Kind: exec.Preceding, N: frame}, Hi: exec.WindowBound{Kind: exec.CurrentRow},
		}}},
	})
	if err := op.Open(&exec.Ctx{Context: context.Background(), Mem: exec.NewMem(nil, 0), Env: &expr.Env{}}); err != nil {
		t.Fatal(err)
	}
	defer op.Close()
	seen := 0
	for {
		b, err := op.Next()
		if err != nil {
			t.Fatal(err)
		}
		if b == nil {
			break
		}
		for _, i := range b.Sel {
			last, first := int64(seen), int64(max(0, seen-frame))
			if want := (first + last) * (last - first + 1) / 2; b.Cols[1].I[i] != want {
				t.Fatalf("row %d: %d, not %d", seen, b.Cols[1].I[i], want)
			}
			seen++
		}
	}
	if seen != rows || added != rows || removed != rows-frame-1 {
		t.Errorf("%d rows: %d added, %d taken away", seen, added, removed)
	}
}
