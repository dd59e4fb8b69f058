package polybase

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/bench/rig"
)

func TestMixes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var n atomic.Int64
	kinds := map[int]int{}
	c := cart{first: 0, added: &n}
	const jobs = 10_000
	for range jobs {
		kinds[c.next(r)[0].Kind]++
	}
	for kind, want := range map[int]int{rig.OpRead: 75, rig.OpInsert: 8, rig.OpUpdate: 17} {
		if got := kinds[kind] * 100 / jobs; got < want-2 || got > want+2 {
			t.Errorf("%d %% of the carts' transactions are of kind %d, want %d %%", got, kind, want)
		}
	}
	crossed := 0
	for range jobs {
		j := ycsb(3, 10)(r)
		seen := map[string]bool{}
		for _, o := range asStatement(func(*rand.Rand) rig.Job { return j })(r)[0].Keys {
			seen[string(o)] = true
		}
		if len(j) != ycsbUpdates || len(seen) < ycsbUpdates-1 {
			t.Fatalf("%d updates of %d rows", len(j), len(seen))
		}
		if j[0].Keys[0].Compare(rig.Key(ycsbTable, 1, 0)) < 0 {
			crossed++
		}
	}
	if crossed < jobs*8/100 || crossed > jobs*12/100 {
		t.Errorf("%d of %d transactions cross regions, want 10 %%", crossed, jobs)
	}
}

// TestSelector checks DynaMast's choices that need no message: transactions go to the region of
// their rows, reads stay.
func TestSelector(t *testing.T) {
	s := &site{rows: map[string]*mastered{}, all: make([]*site, 3)}
	s.know(rig.Keys(1, 1, 0, 3), 2)
	for _, c := range []struct {
		name string
		q    siteRequest
		want base.RegionID
	}{
		{"a read", siteRequest{Choose: rig.Keys(1, 1, 0, 3), From: 1}, 1},
		{"rows of one master", siteRequest{Choose: rig.Keys(1, 1, 0, 3), From: 2, Write: true}, 2},
		{"used as much elsewhere", siteRequest{Choose: rig.Keys(1, 1, 0, 3), From: 3, Write: true}, 2},
		{"new rows", siteRequest{Choose: rig.Keys(1, 2, 0, 2), From: 3, Write: true}, 3},
		{"old and new rows", siteRequest{Choose: []base.Key{rig.Key(1, 2, 0), rig.Key(1, 2, 5)}, From: 3, Write: true}, 3},
	} {
		got, err := s.choose(t.Context(), &c.q, nil)
		if err != nil || got != c.want {
			t.Errorf("%s: region %d, %v; want %d", c.name, got, err, c.want)
		}
	}
}
