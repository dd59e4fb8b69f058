package bench

import (
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/matrix"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/txn"
)

func TestMall(t *testing.T) {
	m := newMall(1, 4)
	r := rand.New(rand.NewPCG(1, 2))
	regions := func(j job) map[base.RegionID]bool {
		seen := map[base.RegionID]bool{}
		for _, o := range j {
			for _, k := range o.Keys {
				seen[k.Table().Region()] = true
			}
		}
		return seen
	}
	const jobs, ware, region = 10_000, 6, 2
	reads, two, far := 0, 0, 0
	for range jobs {
		j := m.next(ware)(r)
		if seen := regions(j); len(seen) != 1 || !seen[region] {
			t.Fatalf("a transaction of warehouse %d uses regions %v", ware, seen)
		}
		if !j.writes() {
			reads++
		}
		j = m.readOnly(ware)(r)
		if seen := regions(j); j.writes() || !seen[region] || len(seen) > 2 {
			t.Fatalf("a read-only transaction of region %d uses %v and writes: %v", region, seen, j.writes())
		} else if len(seen) == 2 {
			two++
		}
		if !regions(m.point(ware)(r))[region] {
			far++
		}
	}
	for _, c := range []struct {
		what      string
		got, want int
	}{{"of TPC-C only read", reads, 8}, {"that only read use two regions", two, 50}, {"of one point are remote", far, 67}} {
		if got := c.got * 100 / jobs; got < c.want-3 || got > c.want+3 {
			t.Errorf("%d %% of transactions %s, want %d %%", got, c.what, c.want)
		}
	}
}

// TestTimed has a cluster in each mode carry out each kind of transaction once, at a distance.
func TestTimed(t *testing.T) {
	three, err := matrix.Open(matrix.ThreeCity)
	if err != nil {
		t.Fatal(err)
	}
	b := &gaussdb{Params: Params{Quick: true, Dir: t.TempDir(), Log: io.Discard}, matrix: three, rows: newMall(1, 2)}
	if b.gtm, err = b.open(t.Context(), "gtm", clock.WantGTM, clock.GTM, func(tc *txn.Config) { tc.OwnersOnly = true }); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.gtm.close(); err != nil {
			t.Error(err)
		}
	}()
	if b.gclock, err = b.open(t.Context(), "gclock", clock.WantGClock, clock.GClock, func(*txn.Config) {}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.gclock.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := b.fill(t.Context(), b.rows); err != nil {
		t.Fatal(err)
	}
	if err := b.place(t.Context(), b.near(40*time.Millisecond), 0); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 3))
	const region, ware, other = 1, 2, 4 // warehouses of the second region and the third
	trips := func(c *timed, j job) float64 {
		var tr obs.Trace
		if err := c.run(t.Context(), region, j, &tr); err != nil {
			t.Fatal(err)
		}
		return tr.RTTs()
	}
	for range 20 {
		for _, c := range b.clusters() {
			trips(c, b.rows.next(ware)(r))
		}
	}
	if got := trips(b.gtm, b.rows.orderStatus(ware, other, r)); got < 4 {
		t.Errorf("with an oracle, three reads of another region's owner take %v round trips, want 4", got)
	}
	b.gclock.stale = true
	if got := trips(b.gclock, b.rows.orderStatus(ware, other, r)); got != 0 {
		t.Errorf("at the consistency point, three reads of another region's rows take %v round trips", got)
	}
}
