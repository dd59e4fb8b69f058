package tape

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTape: what is kept is read again as it was, in memory and from a file, also in part and
// again.
func TestTape(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	tp := Tape{Ctx: t.Context(), Dir: t.TempDir()}
	for range 3 {
		var want [][]byte
		for range 40 {
			b := make([]byte, rng.IntN(100_000))
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			want = append(want, slices.Clone(b))
			if err := tp.Add(b); err != nil {
				t.Fatal(err)
			}
			if tp.Plays() {
				t.Fatal("what is new is read again")
			}
		}
		if tp.f == nil || len(tp.rest) > Bytes {
			t.Fatalf("%d bytes are in memory", len(tp.rest))
		}
		for range 2 {
			tp.Rewind()
			for i, b := range want {
				if got, err := tp.Next(); err != nil || !slices.Equal(got, b) {
					t.Fatalf("record %d is another one, %v", i, err)
				}
			}
			if tp.Plays() {
				t.Fatal("there are more")
			}
		}
		if tp.Clear(); tp.Size() != 0 || tp.Plays() {
			t.Fatal("something is left")
		}
	}
}
