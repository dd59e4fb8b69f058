package rig

import (
	"math/rand/v2"
	"testing"

	"github.com/godwitdb/godwit/base"
)

func TestMall(t *testing.T) {
	m := NewMall(1, 4)
	r := rand.New(rand.NewPCG(1, 2))
	regions := func(j Job) map[base.RegionID]bool {
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
		j := m.Next(ware)(r)
		if seen := regions(j); len(seen) != 1 || !seen[region] {
			t.Fatalf("a transaction of warehouse %d uses regions %v", ware, seen)
		}
		if !j.Writes() {
			reads++
		}
		j = m.ReadOnly(ware)(r)
		if seen := regions(j); j.Writes() || !seen[region] || len(seen) > 2 {
			t.Fatalf("a read-only transaction of region %d uses %v and writes: %v", region, seen, j.Writes())
		} else if len(seen) == 2 {
			two++
		}
		if !regions(m.Point(ware)(r))[region] {
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
