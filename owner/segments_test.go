package owner_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
)

// TestSegmentsTwin: the parts into which a range falls, by owner, are those that looking up key by
// key gives; they follow each other without gaps, and neighbours have different owners.
func TestSegmentsTwin(t *testing.T) {
	for seed := uint64(0); seed < 150; seed++ {
		rng := rand.New(rand.NewPCG(seed, 5))
		m := newMachine(t, g1)
		b := m.store.NewBatch()
		// The naive picture: who owns the keys 00 to 29, each version naming its home.
		home := map[int]base.RegionID{}
		for ts := base.Timestamp(1); ts <= base.Timestamp(1+rng.IntN(25)); ts++ {
			k, r := rng.IntN(30), base.RegionID(1+rng.IntN(3))
			b.PutVersion(store.Version{Key: segmentKey(k), TS: ts, Tombstone: rng.IntN(4) == 0, Value: []byte("v"),
				Label: base.MakeLabel(r, 1, uint64(ts)), Writer: base.GroupIndex{Region: 1, Index: uint64(ts)}})
			home[k] = r
		}
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
		b.Close()
		ownerOf := func(k int) base.GroupID {
			for ; k >= 0; k-- {
				if r := home[k]; r != 0 {
					return base.DataGroup(1, r)
				}
			}
			return g1 // the table's
		}
		for k := range 30 {
			if got, ok := m.set.Locate(segmentKey(k)); !ok || got != ownerOf(k) {
				t.Errorf("seed %d: %02d is of %v, want %v", seed, k, got, ownerOf(k))
			}
		}
		for range 20 {
			from := rng.IntN(29)
			to := from + 1 + rng.IntN(30-from)
			span := base.Span{Start: segmentKey(from), End: segmentKey(to)}
			parts, ok := m.set.Segments(span, 1000)
			if !ok || len(parts) == 0 {
				t.Fatalf("seed %d: %v has no parts", seed, span)
			}
			at := span.Start
			for i, p := range parts {
				if p.Span.Start.Compare(at) != 0 || p.Span.End.Compare(p.Span.Start) <= 0 {
					t.Fatalf("seed %d: part %d is %v and should begin at %v", seed, i, p.Span, at)
				}
				if i > 0 && parts[i-1].Owner == p.Owner {
					t.Errorf("seed %d: parts %d and %d are both of %v", seed, i-1, i, p.Owner)
				}
				for k := from; k < to; k++ {
					if p.Span.Contains(segmentKey(k)) && ownerOf(k) != p.Owner {
						t.Errorf("seed %d: %02d lies in %v of %v, and is of %v", seed, k, p.Span, p.Owner, ownerOf(k))
					}
				}
				at = p.Span.End
			}
			if at.Compare(span.End) != 0 {
				t.Errorf("seed %d: the parts of %v end at %v", seed, span, at)
			}
		}
	}
}

func segmentKey(k int) base.Key { return append(keyOf("^"), fmt.Sprintf("%02d", k)...) }
