package access

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/sql/expr"
)

// TestEstimatesOfTables: after ANALYZE TABLE the optimiser is told what the table holds, and where.
func TestEstimatesOfTables(t *testing.T) {
	w := newWorld(t, rand.New(rand.NewPCG(3, 5)), false, 80)
	if err := w.env.Stats.Analyze(context.Background(), w.def); err != nil {
		t.Fatal(err)
	}
	tab := w.table(w.statement())
	if n := tab.Rows(); n != 80 {
		t.Errorf("%v rows", n)
	}
	is := func(what string, got, want float64) {
		t.Helper()
		if math.Abs(got-want) > 1e-9 {
			t.Errorf("%s: %v, not %v", what, got, want)
		}
	}
	share := func(in func(row []any) bool) float64 {
		n := 0.0
		for _, r := range w.rows {
			if in(r) {
				n++
			}
		}
		return n / 80
	}
	is("distinct ids", tab.Distinct(0), 80)
	is("distinct numbers", tab.Distinct(1), 5)
	is("distinct texts, without case", tab.Distinct(2), 5) // "", a, b, bc, e
	fraction := func(col int, lo, hi any) float64 {
		f, ok := tab.Fraction(col, lo, hi)
		if !ok {
			t.Errorf("nothing is known of column %d", col)
		}
		return f
	}
	one, a := expr.Value{Kind: expr.Int, I: 1}, expr.Value{Kind: expr.Text, S: "A"}
	is("c1 = 1", fraction(1, one, one), share(func(r []any) bool { return r[1] == int32(1) }))
	is("c1 >= 1", fraction(1, one, nil), share(func(r []any) bool { x, ok := r[1].(int32); return ok && x >= 1 }))
	is("c2 = 'A'", fraction(2, a, a), share(func(r []any) bool { return r[2] == "a" || r[2] == "A" }))
	if _, ok := tab.Fraction(1, expr.Value{}, nil); ok {
		t.Error("a share of the rows is at or behind NULL")
	}
	sum := 0.0
	for _, s := range tab.Shares() {
		if s.Part <= 0 || s.Region != "eu" && s.Region != "us" {
			t.Errorf("a share of %+v", s)
		}
		sum += s.Part
	}
	is("all shares", sum, 1)
	if b := tab.RowBytes(); b < 30 || b > 200 {
		t.Errorf("a row has %v bytes", b)
	}
}
