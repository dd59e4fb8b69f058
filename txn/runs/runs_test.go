package runs

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestRuns: each span is in one run, in its order; a run has spans of one shard; and where spans
// alternate between shards, there are as many runs as shards, whose shares are no more than the
// limit together, but for one of each.
func TestRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		var spans []base.Span
		shards := 1 + r.IntN(4)
		for range 1 + r.IntN(300) {
			spans = append(spans, base.Span{Start: base.IndexPrefix(base.ShardID(1+r.IntN(shards)), 7<<20, 0, 0)})
		}
		limited, apart := r.IntN(2) == 0, r.IntN(4) == 0
		x := New(spans, limited, apart)
		var all []int
		for _, run := range x.Of {
			if len(run) == 0 || !slices.IsSorted(run) {
				t.Fatalf("a run of %v", run)
			}
			for _, i := range run {
				if spans[i].Start.Shard() != spans[run[0]].Start.Shard() {
					t.Fatalf("a run of several shards: %v", run)
				}
			}
			all = append(all, run...)
		}
		if !x.Shared && limited && !slices.IsSorted(all) {
			t.Fatalf("the runs do not follow on each other: %v", x.Of)
		}
		slices.Sort(all)
		for i := range spans {
			if len(all) != len(spans) || all[i] != i {
				t.Fatalf("of %d spans these are in runs: %v", len(spans), all)
			}
		}
		if x.Shared && len(x.Of) > max(shards, 2) {
			t.Fatalf("%d runs of %d shards", len(x.Of), shards)
		}
		const limit = 1000
		sum := 0
		for k := range x.Of {
			sum += x.Share(k, limit)
		}
		if x.Shared && sum > limit {
			t.Fatalf("shares of %d of %d", sum, limit)
		}
		var mu sync.Mutex
		done := map[int]int{}
		x.Each(func(k int) {
			mu.Lock()
			defer mu.Unlock()
			done[k]++
		})
		for k := range x.Of {
			if done[k] != 1 {
				t.Fatalf("run %d was read %d times", k, done[k])
			}
		}
		if x.Share(0, 0) != 0 {
			t.Fatal("a share of no limit")
		}
	}
}
