package rowlist

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/godwitdb/godwit/sql/exec/budget"
	"github.com/godwitdb/godwit/sql/schema"
)

func columns(t *testing.T) (out []*schema.Column) {
	for i, typ := range []string{"bigint", "varchar(9000)"} {
		c, err := schema.NewColumn(&schema.ColumnDesc{ID: uint32(i + 1), Name: typ, Type: typ, Nullable: true})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

// TestWaiting: rows are what they were when some of them have been in a file, also those that were
// changed, and all memory is given back. Sorted, equal ones stay in their order.
func TestWaiting(t *testing.T) {
	cols := columns(t)
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n := []int{0, 1, 1023, 1024, 1025, 4000, 9000}[seed%7]
		mem := budget.NewMem(nil, []int64{0, 4 << 20, 1 << 20}[seed%3])
		w := &Waiting{Ctx: t.Context(), Dir: t.TempDir(), Mem: mem, Cols: cols}
		order := func(a, b *Row) int { return cmp.Compare(a.Stored, b.Stored) }
		if seed%2 == 0 {
			w.Order = order
		}
		var want []Row
		for i := range n {
			r := Row{Stored: fmt.Sprint(rng.IntN(max(1, n/3))), Vals: []any{int64(i), nil}}
			if rng.IntN(4) > 0 {
				r.Vals[1] = strings.Repeat("x", rng.IntN(1500))
			}
			want = append(want, Row{Stored: r.Stored, Vals: slices.Clone(r.Vals)})
			if err := w.Add(r); err != nil {
				t.Fatalf("seed %d: row %d: %v", seed, i, err)
			}
		}
		if small := seed%3 != 0 && n == 9000; small && w.tape.Size() == 0 {
			t.Fatalf("seed %d: nothing went to the file", seed)
		}
		equal := func(what string) {
			t.Helper()
			if w.Len() != len(want) {
				t.Fatalf("seed %d: %s: %d rows, want %d", seed, what, w.Len(), len(want))
			}
			for i := range want {
				r, err := w.At(i)
				if err != nil || r.Stored != want[i].Stored || r.Failed != want[i].Failed || !slices.Equal(r.Vals, want[i].Vals) {
					t.Fatalf("seed %d: %s: row %d is %v (%v), want %v", seed, what, i, r, err, want[i])
				}
			}
		}
		if w.Order == nil {
			equal("as they came")
			for from := 0; from < n; {
				rows, err := w.Edit(from)
				if err != nil {
					t.Fatal(err)
				}
				for i := range rows {
					rows[i].Failed, rows[i].Vals = rng.IntN(3), []any{rows[i].Vals[0], "new"}
					want[from+i].Failed, want[from+i].Vals = rows[i].Failed, rows[i].Vals
				}
				from += len(rows)
			}
			equal("changed")
		} else {
			if err := w.Sort(); err != nil {
				t.Fatal(err)
			}
			slices.SortStableFunc(want, func(a, b Row) int { return order(&a, &b) })
			equal("sorted")
		}
		for range 20 { // here and there
			if n > 0 {
				i := rng.IntN(n)
				if r, err := w.At(i); err != nil || r.Stored != want[i].Stored {
					t.Fatalf("seed %d: row %d is %v (%v)", seed, i, r, err)
				}
			}
		}
		for n > 0 {
			n = rng.IntN(n)
			if err := w.Cut(n); err != nil {
				t.Fatal(err)
			}
			want = want[:n]
			equal("cut")
		}
		if got := mem.Used(); got != 0 {
			t.Fatalf("seed %d: %d bytes are still taken", seed, got)
		}
		if err := w.Add(Row{Stored: "again"}); err != nil || w.Len() != 1 {
			t.Fatalf("seed %d: after the end: %d rows, %v", seed, w.Len(), err)
		}
		w.End()
	}
}

// FuzzTake: whatever a file has, a row comes out, or an error.
func FuzzTake(f *testing.F) {
	t := new(testing.T)
	cols := columns(t)
	w := &Waiting{Ctx: f.Context(), Cols: cols}
	b, err := w.append(nil, &Row{Stored: "key", Vals: []any{int64(7), "text"}, Failed: 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Row
		if _, err := w.take(b, &r); err == nil && len(r.Vals) > len(cols) {
			t.Errorf("%d values", len(r.Vals))
		}
	})
}
