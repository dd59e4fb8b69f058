package slottime

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// No two slots of two gateways are equal, each is the first that is left at or above what was asked
// for, and what is remembered of them is bounded.
func TestNames(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	given := map[base.Timestamp]bool{}
	a, b := NewNames(), NewNames()
	for now := base.Timestamp(1e18); now < 1e18+60e9; now = now.Add(time.Duration(rng.IntN(5e6))) {
		ahead := []time.Duration{time.Millisecond, 100 * time.Millisecond, Max}[rng.IntN(3)]
		for self, n := range []*Names{a, b} {
			want := now.Add(ahead)
			got := n.Next(want, base.NodeID(self+1))
			if given[got] {
				t.Fatalf("%s twice", got)
			}
			given[got] = true
			if free := got.Add(-Unit); got < want || free >= want && !given[free] {
				t.Fatalf("%s for %s", got, want)
			}
		}
	}
	if len(a.given) > 4*leastSwept+2000 {
		t.Errorf("%d of %d slots are remembered", len(a.given), len(given)/2)
	}
}
