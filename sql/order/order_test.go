package order

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

type row struct{ key, at int }

func byKey(a, b row) int { return a.key - b.key }

// TestStable: the order is that of the library's sort, for all lengths around those of runs.
func TestStable(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 5 * run {
		for _, keys := range []int{1, 7, 1 << 30} {
			rows := make([]row, n)
			for i := range rows {
				rows[i] = row{r.IntN(keys), i}
			}
			want := slices.Clone(rows)
			slices.SortStableFunc(want, byKey)
			if err := Stable(rows, byKey, func() error { return nil }); err != nil || !slices.Equal(rows, want) {
				t.Fatalf("%d rows of %d keys: %v, want %v (%v)", n, keys, rows, want, err)
			}
		}
	}
}

// TestStop: a sort ends where it is told to, and never compares for long before it asks.
func TestStop(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	rows := make([]row, 100_000)
	for i := range rows {
		rows[i] = row{r.Int(), i}
	}
	stop := errors.New("stop")
	for _, after := range []int{0, 1, 10, 1000, 5000} {
		asked, since, most := 0, 0, 0
		err := Stable(slices.Clone(rows), func(a, b row) int { since++; most = max(most, since); return byKey(a, b) }, func() error {
			since = 0
			if asked++; asked > after {
				return stop
			}
			return nil
		})
		if err != stop || asked != after+1 {
			t.Errorf("after %d: %v, asked %d times", after, err, asked)
		}
		if most > 16*run {
			t.Errorf("%d comparisons in one step", most)
		}
	}
}

func BenchmarkStable(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	rows := make([]row, 1<<17)
	for i := range rows {
		rows[i] = row{r.Int(), i}
	}
	work := make([]row, len(rows))
	for _, x := range []struct {
		name string
		sort func()
	}{
		{"steps", func() { _ = Stable(work, byKey, func() error { return nil }) }}, // it cannot fail
		{"library", func() { slices.SortStableFunc(work, byKey) }},
	} {
		b.Run(x.name, func(b *testing.B) {
			for b.Loop() {
				copy(work, rows)
				x.sort()
			}
		})
	}
}
