package writes

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestBounds: all keys of a run lie within its bounds, and those behind it in their section do not.
func TestBounds(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 4))
		sections := 1 + r.IntN(4)
		if seed%5 == 4 {
			sections = maxSections + 5
		}
		var keys []base.Key
		for range 500 {
			keys = append(keys, base.AppendUint64(base.IndexPrefix(1, base.TableID(9<<20+r.IntN(sections)), 0, 0), 100+r.Uint64N(900)))
		}
		keys = append(keys, base.Key{0, 1, 7})
		slices.SortFunc(keys, base.Key.Compare)
		var b bounds
		for _, k := range keys {
			b.add(k)
		}
		b.keep()
		for _, k := range keys {
			if !b.has(k) {
				t.Fatalf("seed %d: %x is outside", seed, []byte(k))
			}
		}
		for i := range sections {
			for _, n := range []uint64{1, 5000} {
				k := base.AppendUint64(base.IndexPrefix(1, base.TableID(9<<20+i), 0, 0), n)
				if b.has(k) != b.many {
					t.Fatalf("seed %d: %x is inside", seed, []byte(k))
				}
			}
		}
	}
}
