package order

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
)

// lent is a helper's permission, which is taken away after some jobs.
type lent struct {
	jobs int
	out  *atomic.Int64
}

func (l *lent) Keep() bool { l.jobs--; return l.jobs > 0 }
func (l *lent) End()       { l.out.Add(-1) }

// TestShared: the order is that of the library's stable sort, whoever has done which piece.
func TestShared(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var out atomic.Int64
	for n := range 300 {
		for _, keys := range []int{1, 7, 1 << 30} {
			rows := make([]row, n)
			for i := range rows {
				rows[i] = row{r.IntN(keys), i}
			}
			want := slices.Clone(rows)
			slices.SortStableFunc(want, byKey)
			hand := Hand[row]{byKey, func() error { return nil }}
			err := Shared(rows, 1+r.IntN(40), hand, func() (Hand[row], Help) {
				if r.IntN(4) == 0 {
					return Hand[row]{}, nil
				}
				out.Add(1)
				return hand, &lent{1 + r.IntN(20), &out}
			})
			if err != nil || !slices.Equal(rows, want) {
				t.Fatalf("%d rows of %d keys: %v, want %v (%v)", n, keys, rows, want, err)
			}
			if out.Load() != 0 {
				t.Fatalf("%d helpers are still there", out.Load())
			}
		}
	}
}

// TestSharedEnds: an error or a panic of either goroutine is that of the sort, and nobody compares
// afterwards.
func TestSharedEnds(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	stop := errors.New("stop")
	var out atomic.Int64
	for k := range 200 {
		rows := make([]row, 1000)
		for i := range rows {
			rows[i] = row{r.Int(), i}
		}
		mine, theirs, panics := 1+r.IntN(20), 1+r.IntN(20), k%4 == 3
		check := func(left int) func() error {
			return func() error {
				if left--; left > 0 {
					return nil
				}
				if panics {
					panic("a comparison fails")
				}
				return stop
			}
		}
		err := func() (err error) {
			defer func() {
				if p := recover(); p != nil && strings.Contains(p.(string), "comparison") {
					err = stop
				}
			}()
			return Shared(rows, 32, Hand[row]{byKey, check(mine)}, func() (Hand[row], Help) {
				out.Add(1)
				return Hand[row]{byKey, check(theirs)}, &lent{1000, &out}
			})
		}()
		if err != stop || out.Load() != 0 {
			t.Fatalf("%v, %d helpers are still there", err, out.Load())
		}
	}
}

func BenchmarkShared(b *testing.B) {
	r := rand.New(rand.NewPCG(5, 6))
	rows := make([]row, 1<<20)
	for i := range rows {
		rows[i] = row{r.Int(), i}
	}
	work := make([]row, len(rows))
	hand := Hand[row]{byKey, func() error { return nil }}
	var out atomic.Int64
	for name, help := range map[string]Help{"one": nil, "two": &lent{1 << 60, &out}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				copy(work, rows)
				_ = Shared(work, 8<<10, hand, func() (Hand[row], Help) { return hand, help })
			}
		})
	}
}
