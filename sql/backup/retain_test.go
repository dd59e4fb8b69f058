package backup

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/backup/archive"
)

// TestRetained: for backups at random, every moment that is to be kept is led to by the same backup
// as before, with all that it builds on; what is removed leaves no other backup without its base.
func TestRetained(t *testing.T) {
	removed := 0
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []*volume
		for i := range 1 + r.IntN(15) {
			m := &archive.Manifest{ID: fmt.Sprintf("%03d", i), Timestamp: base.Timestamp(10 * i)}
			if i > 0 && r.IntN(3) > 0 {
				m.Parent = fmt.Sprintf("%03d", i-1)
			}
			all = append(all, &volume{Manifest: m})
		}
		oldest := base.Timestamp(r.IntN(160))
		busy := map[string]bool{fmt.Sprintf("%03d", r.IntN(20)): r.IntN(4) == 0}
		kept, gone := retained(all, oldest, busy)
		if len(kept)+len(gone) != len(all) || len(kept) == 0 {
			t.Fatalf("seed %d: %d kept and %d gone of %d", seed, len(kept), len(gone), len(all))
		}
		removed += len(gone)
		left := map[string]bool{}
		for _, v := range kept {
			left[v.ID] = true
			if v.Parent != "" && !left[v.Parent] {
				t.Errorf("seed %d: backup %s is kept, and %s, on which it builds, is not", seed, v.ID, v.Parent)
			}
		}
		for at := oldest; at < 170; at++ {
			best := ""
			for _, v := range all {
				if v.Timestamp <= at {
					best = v.ID
				}
			}
			if best != "" && !left[best] {
				t.Errorf("seed %d: backup %s, which leads to %d, is gone", seed, best, at)
			}
		}
		for _, v := range gone {
			if busy[v.ID] {
				t.Errorf("seed %d: backup %s, which a job needs, is gone", seed, v.ID)
			}
		}
	}
	if removed == 0 {
		t.Error("nothing was ever removed")
	}
}
