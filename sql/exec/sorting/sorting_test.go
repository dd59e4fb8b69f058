package sorting

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/exec/helper"
	"github.com/godwitdb/godwit/sql/expr"
)

// text is compared without regard to case.
var text = expr.Type{Kind: expr.Text, Coll: sql.Collation_utf8mb4_0900_ai_ci}

func fine() error { return nil }

func two() (func() error, *helper.Helper) { return fine, helper.Take(nil) }

func one() (func() error, *helper.Helper) { return nil, nil }

// columns are random values, many of them equal, and some NULL.
func columns(r *rand.Rand, types []expr.Type, n int) (cols []*expr.Vec) {
	words := []string{"a", "A", "ä", "b", "B ", "", "long text of words", "LONG TEXT OF WORDS", "ß", "ss"}
	for _, t := range types {
		v := &expr.Vec{}
		v.Reset(t, n)
		for i := range n {
			switch {
			case r.IntN(6) == 0:
				v.SetNull(i)
			case t.Kind == expr.Text:
				v.S[i] = words[r.IntN(len(words))]
			case t.Kind == expr.Float:
				v.F[i] = float64(r.IntN(9)-4) / 2
			default:
				v.I[i] = int64(r.IntN(40) - 20)
			}
		}
		cols = append(cols, v)
	}
	return cols
}

// TestOrder: rows are in the order of a plain stable sort, with a helper and without.
func TestOrder(t *testing.T) {
	helper.Eager = true
	t.Cleanup(func() { helper.Eager = false })
	kinds := []expr.Type{expr.TypeInt, expr.TypeFloat, text}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		types := []expr.Type{expr.TypeInt} // not a key
		var by []expr.SortKey
		for range 1 + r.IntN(3) {
			types = append(types, kinds[r.IntN(len(kinds))])
			by = append(by, expr.SortKey{Desc: r.IntN(2) == 0})
		}
		n := r.IntN(700)
		cols := columns(r, types, n)
		k := New(by, types[1:], 1)
		k.Begin(fine)
		want := slices.Clone(expr.All(n))
		slices.SortStableFunc(want, func(a, b int32) int { return k.Compare(cols, a, cols, b) })
		for name, lend := range map[string]Lend{"alone": one, "with a helper": two} {
			if got, err := k.Order(cols, n, lend); err != nil || !slices.Equal(got, want) {
				t.Fatalf("seed %d, %s: %v, %v, want %v", seed, name, got, err, want)
			}
		}
	}
}

// TestOrderStops: a sort by long texts ends when its statement does, also if only the helper learns
// of it.
func TestOrderStops(t *testing.T) {
	helper.Eager = true
	t.Cleanup(func() { helper.Eager = false })
	types := []expr.Type{text}
	v := &expr.Vec{}
	v.Reset(text, 2000)
	for i := range v.S {
		v.S[i] = fmt.Sprintf("%s%d", strings.Repeat("x", 4000), i*7919%2000)
	}
	for _, who := range []string{"the statement", "its helper"} {
		ctx, cancel := context.WithCancelCause(t.Context())
		mine, theirs := ctx.Err, fine
		if who == "its helper" {
			mine, theirs = fine, ctx.Err
		}
		cancel(context.Canceled)
		k := New([]expr.SortKey{{}}, types, 0)
		k.Begin(mine)
		_, err := k.Order([]*expr.Vec{v}, 2000, func() (func() error, *helper.Helper) {
			return theirs, helper.Take(nil)
		})
		if err != context.Canceled {
			t.Errorf("%s is to stop: %v", who, err)
		}
	}
}
