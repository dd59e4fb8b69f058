package known

import (
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestKnownWalk compares the walk with the search: ranges of several groups, single keys, absent
// ones, and keys that nobody knows.
func TestKnownWalk(t *testing.T) {
	ranges, singles := 0, 0
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 5))
		var k Rows
		var keys []base.Key
		for i, n := uint64(0), 200+r.Uint64N(400); i < n; i += 1 + r.Uint64N(4) {
			keys = append(keys, base.AppendUint64(base.IndexPrefix(1, 8, 0, 0), i))
		}
		for from := 0; from < len(keys); {
			to := min(len(keys), from+1+r.IntN(90))
			var rows []*wire.KV
			for _, key := range keys[from:to] {
				if r.IntN(4) > 0 {
					rows = append(rows, &wire.KV{Key: key, Absent: r.IntN(200) == 0})
				}
			}
			k.Note(rows, base.GroupID(1+r.IntN(3)))
			from = to
		}
		walk := WalkOf(&k)
		for i := 0; i < len(keys); i += 1 + r.IntN(1+r.IntN(20)) {
			g, ok := walk.Owner(keys[i])
			if wantG, want := k.Owner(keys[i]); g != wantG || ok != want {
				t.Fatalf("seed %d: the owner of key %d is %v, %v, want %v, %v", seed, i, g, ok, wantG, want)
			}
		}
		ranges, singles = ranges+len(k.ranges), singles+len(k.present)
	}
	if ranges < 100 || singles < 100 {
		t.Fatalf("with %d ranges and %d single keys the test looks at nothing", ranges, singles)
	}
}
