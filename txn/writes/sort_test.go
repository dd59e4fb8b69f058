package writes

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestSortByKey: keys of few and of many sections, with and without homes in them, short keys, and
// keys whose beginnings are the same.
func TestSortByKey(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 3))
		sections := 1 + r.IntN(5)
		if seed%5 == 0 {
			sections = maxSections + 20
		}
		var ws []*Write
		for range r.IntN(600) {
			n := r.IntN(sections)
			ix := base.IndexID(n)
			if n%3 == 1 {
				ix |= base.ByHome
			}
			k := base.IndexPrefix(1, base.TableID(7<<20+n), ix, base.RegionID(1+r.IntN(2)))
			switch r.IntN(4) {
			case 0:
				k = base.AppendUint64(k, r.Uint64N(50))
			case 1:
				k = append(k, make([]byte, r.IntN(12))...)
			case 2:
				k = append(base.AppendUint64(k, r.Uint64()), byte(r.IntN(3)))
			case 3:
				k = k[:2+r.IntN(len(k)-1)]
			}
			ws = append(ws, &Write{Key: k})
		}
		want := slices.Clone(ws)
		slices.SortStableFunc(want, func(x, y *Write) int { return x.Key.Compare(y.Key) })
		sortByKey(ws)
		for i := range ws {
			if ws[i].Key.Compare(want[i].Key) != 0 {
				t.Fatalf("seed %d: key %d is %x, want %x", seed, i, []byte(ws[i].Key), []byte(want[i].Key))
			}
		}
	}
}
