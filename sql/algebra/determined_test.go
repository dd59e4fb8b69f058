package algebra

import (
	"testing"

	"github.com/godwitdb/godwit/sql/expr"
)

// TestDeterminedOfDeepQueries: it goes through each operator a few times, however deep these are.
// Looking below each operator until nothing more follows, twice at least, would never end here.
func TestDeterminedOfDeepQueries(t *testing.T) {
	col := func(id expr.ColID) expr.Node { return &expr.Col{ID: id, T: expr.TypeInt} }
	row := func(n int64) []expr.Node { return []expr.Node{expr.IntConst(n), expr.IntConst(n)} }
	const depth = 2000
	var r Rel = &Values{IDs: []expr.ColID{1, 2}, Rows: [][]expr.Node{row(1), row(2)}}
	for i := expr.ColID(1); i < 2*depth; i += 2 {
		r = &Filter{In: r, Conds: []expr.Node{equals(t, col(i), col(i+1))}}
		r = &Project{In: r, Items: []Item{{ID: i + 2, Node: col(i)}, {ID: i + 3, Node: col(i + 1)}}}
	}
	top := expr.ColID(2*depth + 1)
	got := Determined(r, map[expr.ColID]bool{top: true})
	if !got[top+1] {
		t.Error("a column that conditions make equal to the other one does not follow from it")
	}
	if got := Determined(r, nil); got[top] || got[top+1] {
		t.Error("columns follow from nothing")
	}
}

func equals(t *testing.T, a, b expr.Node) expr.Node {
	t.Helper()
	n, err := expr.NewCall(expr.Lookup("="), a, b)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
