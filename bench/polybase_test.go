package bench

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

func TestOutcomes(t *testing.T) {
	var s outcomes
	for i := range 100 {
		s = append(s, outcome{at: time.Duration(i) * 100 * time.Millisecond, lat: time.Duration(i+1) * time.Millisecond, hops: 2, home: i % 2})
	}
	s = s.where(func(x *outcome) bool { return x.at < 4*time.Second || x.at >= 7*time.Second })
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"rate", s.between(0, 4*time.Second).rate(4 * time.Second), 10},
		{"median", s.between(0, 4*time.Second).ms(.5), 21},
		{"last", s.ms(1), 100},
		{"mean", s.between(0, 4*time.Second).mean(), 20.5},
		{"round trips", s.meanTrips(), 1},
		{"of a region", float64(len(s.from(1))), 35},
		{"dip", s.least(3*time.Second, 9*time.Second, time.Second/2), 0},
		{"recovery", s.back(4*time.Second, 10*time.Second, 10).Seconds(), 3},
		{"none", s.back(4*time.Second, 6*time.Second, 10).Seconds(), 2},
	} {
		if d := c.got - c.want; d > 1e-6 || d < -1e-6 {
			t.Errorf("%s: %v, want %v", c.name, c.got, c.want)
		}
	}
}

func TestMixes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var n atomic.Int64
	kinds := map[int]int{}
	c := cart{first: 0, added: &n}
	const jobs = 10_000
	for range jobs {
		kinds[c.next(r)[0].Kind]++
	}
	for kind, want := range map[int]int{opRead: 75, opInsert: 8, opUpdate: 17} {
		if got := kinds[kind] * 100 / jobs; got < want-2 || got > want+2 {
			t.Errorf("%d %% of the carts' transactions are of kind %d, want %d %%", got, kind, want)
		}
	}
	crossed := 0
	for range jobs {
		j := ycsb(3, 10)(r)
		seen := map[string]bool{}
		for _, o := range asStatement(func(*rand.Rand) job { return j })(r)[0].Keys {
			seen[string(o)] = true
		}
		if len(j) != ycsbUpdates || len(seen) < ycsbUpdates-1 {
			t.Fatalf("%d updates of %d rows", len(j), len(seen))
		}
		if j[0].Keys[0].Compare(key(ycsbTable, 1, 0)) < 0 {
			crossed++
		}
	}
	if crossed < jobs*8/100 || crossed > jobs*12/100 {
		t.Errorf("%d of %d transactions cross regions, want 10 %%", crossed, jobs)
	}
	z, first := newZipf(pairs, .99), 0
	for range jobs {
		if i := z(r); i < 0 || i >= pairs {
			t.Fatal(i)
		} else if i == 0 {
			first++
		}
	}
	if first < jobs/8 || first > jobs/4 { // one in 6.4
		t.Errorf("the hottest of %d pairs was drawn %d times in %d", pairs, first, jobs)
	}
}

// TestSelector is DynaMast's choice where it needs no message: transactions go where the rows are, reads stay.
func TestSelector(t *testing.T) {
	s := &site{rows: map[string]*mastered{}, all: make([]*site, 3)}
	s.know(keys(1, 1, 0, 3), 2)
	for _, c := range []struct {
		name string
		q    siteRequest
		want base.RegionID
	}{
		{"a read", siteRequest{Choose: keys(1, 1, 0, 3), From: 1}, 1},
		{"rows of one master", siteRequest{Choose: keys(1, 1, 0, 3), From: 2, Write: true}, 2},
		{"used as much elsewhere", siteRequest{Choose: keys(1, 1, 0, 3), From: 3, Write: true}, 2},
		{"new rows", siteRequest{Choose: keys(1, 2, 0, 2), From: 3, Write: true}, 3},
		{"old and new rows", siteRequest{Choose: []base.Key{key(1, 2, 0), key(1, 2, 5)}, From: 3, Write: true}, 3},
	} {
		got, err := s.choose(t.Context(), &c.q, nil)
		if err != nil || got != c.want {
			t.Errorf("%s: region %d, %v; want %d", c.name, got, err, c.want)
		}
	}
}
