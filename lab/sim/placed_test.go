package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/placed"
	"github.com/godwitdb/godwit/wire"
)

// placedConfig is a run with a placement of some of the regions.
func placedConfig(seed uint64) Config {
	c := Pick(seed)
	c.Workload, c.Keys = "mixed", 2+c.Keys%3
	c.Regions, c.NodesPerRegion, c.Placed = 4, 1, 3
	switch seed % 4 {
	case 1:
		c.Regions, c.Placed = 3, 2
		c.NodesPerRegion = 2
	case 2:
		c.Regions, c.Placed = 5, 3
	case 3:
		c.Regions, c.Placed, c.NodesPerRegion = 2, 1, 3
	}
	c.Delay = nil
	for i := range c.Regions {
		c.Delay = append(c.Delay, make([]time.Duration, c.Regions))
		for j := range c.Regions {
			if i != j {
				c.Delay[i][j] = time.Duration(10+7*((i*j+i+j)%6)) * time.Millisecond
			}
		}
	}
	return c
}

// TestPlaced: some rows lie in the first regions only, and clients of all regions use them while
// faults strike. All checkers are silent, and no node elsewhere gets a value or has one on its
// disk.
func TestPlaced(t *testing.T) {
	for _, n := range seeds([]uint64{0, 1, 2, 3}) {
		seed(t, placedConfig(9_200_000+n))
	}
}

// TestPlacedSoak is TestPlaced for many seeds: -first and -seeds, as TestSoak.
func TestPlacedSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		seed(t, placedConfig(*flagFirst+i))
	}
}

// TestPlacedPathsBite: without PLACE-3 values travel over nodes outside of the placement when a
// link inside is cut.
func TestPlacedPathsBite(t *testing.T) {
	for s := range uint64(biteSeeds) {
		cfg := placedConfig(4*s + 1)
		cfg.Kinds, cfg.Faults, cfg.Break.AnyPath = []string{"cut regions"}, 8, true
		if _, err := runSeed(t, cfg); err != nil && strings.Contains(err.Error(), "outside of the placement") {
			t.Logf("seed %d: %.300v", s, err)
			return
		}
	}
	t.Errorf("%d seeds pass", biteSeeds)
}

// rowPlacedConfig is a run with a table whose rows lie in one of two placements, or everywhere.
func rowPlacedConfig(seed uint64, b Break) Config {
	c := placedConfig(seed)
	c.Break = b
	c.RowPlaced = true
	c.Sections = func(ks *keyspace, _ string, seq uint64, n int) []*section {
		if seq != tableMixed {
			return nil
		}
		return ks.rowPlaced(&c, n)
	}
	return c
}

// rowPlaced makes the sections of a table whose rows lie in one of two placements or everywhere,
// in a shard of each. The table id names the last region, which is not in the first placement.
func (ks *keyspace) rowPlaced(cfg *Config, n int) (out []*section) {
	last := base.RegionID(cfg.Regions)
	for i, place := range []base.Placed{{}, {ID: 1, First: 1}, {ID: 2, First: base.RegionID(cfg.Placed + 1)}} {
		shard, home, ix := base.ShardID(1), last, base.IndexID(0)
		if place.ID != 0 {
			home = place.First
			if !cfg.Break.NoBegun {
				ix = ix.BegunIn(home)
			}
			shard += base.ShardID(place.ID.ShardBefore(cfg.Shards))
		}
		name := fmt.Sprint("r", i)
		ks.belongs[name] = place.ID
		if cfg.Break.Astray && place.ID != 0 {
			shard = base.ShardID(cfg.Shards)
		}
		s := &section{name: name, prefix: base.IndexPrefix(shard, base.MakeTableID(tableRows, last), ix, 0), home: home}
		ks.fill(s, n)
		out = append(out, s)
	}
	return out
}

// TestRowPlaced: rows of one table lie in the first regions, in the others or everywhere, and move
// between these, in transactions with other rows, while faults strike. As in TestPlaced no value is
// found, or sent, where it may not be.
func TestRowPlaced(t *testing.T) {
	for _, n := range seeds([]uint64{0, 2}) {
		seed(t, rowPlacedConfig(9_300_000+n, Break{}))
	}
}

// TestRowPlacedSoak is TestRowPlaced for many seeds: -first and -seeds, as TestSoak.
func TestRowPlacedSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		seed(t, rowPlacedConfig(*flagFirst+i, Break{}))
	}
}

// TestRowPlacedBites: without PLACE-5 rows are found where they may not be, and without PLACE-6
// nobody can write into the first gap of a placement that lacks the region of the table id.
func TestRowPlacedBites(t *testing.T) {
	for what, breaks := range map[string]Break{"outside of the placement": {Astray: true}, "cannot be read": {NoBegun: true}} {
		bites := false
		for s := range uint64(biteSeeds) {
			cfg := rowPlacedConfig(4*s, breaks)
			cfg.Faults = 0
			if _, err := runSeed(t, cfg); err != nil && strings.Contains(err.Error(), what) {
				t.Logf("seed %d: %.300v", s, err)
				bites = true
				break
			}
		}
		if !bites {
			t.Errorf("%q is not noticed: %d seeds pass", what, biteSeeds)
		}
	}
}

// TestPlacedBytes: in a cluster of nine regions a write of a row in a placement of three takes
// copies to two regions, and another one's to eight. docs/figures/placements.md has the bytes.
func TestPlacedBytes(t *testing.T) {
	cfg := stageConfig(9)
	cfg.Placed = 3
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(20 * time.Second) // leaders go home
		placed, all := s.bytesOfWrite(placedShard(&cfg, 1)), s.bytesOfWrite(1)
		t.Logf("a write of %d bytes sends %.0f bytes between regions with 3 of 9, %.0f with 9 of 9", bytesWritten, placed, all)
		if placed < 2*bytesWritten || placed > 3*bytesWritten || all < 8*bytesWritten || all > 12*bytesWritten {
			t.Errorf("a write of %d bytes sends %.0f and %.0f bytes between regions", bytesWritten, placed, all)
		}
	})
}

// bytesWritten is the size of the values of bytesOfWrite.
const bytesWritten = 1000

// bytesOfWrite is what a write of a row of a shard costs that is at home in the first region, in
// bytes between regions beyond what is sent at rest.
func (s *stage) bytesOfWrite(shard base.ShardID) float64 {
	const writes = 60
	sent := func() (n uint64) {
		for _, h := range s.hosts {
			for _, l := range h.up().node.Overlay().Stats() {
				for _, k := range l.Kinds {
					if l.Region != h.region && k.Kind != wire.KindHeartbeat && k.Kind != wire.KindClosed && k.Kind != wire.KindAsk {
						n += k.SentBytes
					}
				}
			}
		}
		return n
	}
	value := strings.Repeat("x", bytesWritten)
	run := func(n int) (bytes float64) {
		before := sent()
		for i := range writes {
			if i < n {
				s.put(1, base.AppendInt64(base.IndexPrefix(shard, base.MakeTableID(3000, 1), 0, 0), int64(i)), value)
			}
			time.Sleep(time.Until(s.start.Add(s.now().Truncate(200*time.Millisecond) + 200*time.Millisecond)))
		}
		return float64(sent() - before)
	}
	rest := run(0)
	return (run(writes) - rest) / writes
}

// TestPlacementWaits: a placement cannot be used while a node is down, which may come back without
// knowing of it (PLACE-1). One that does not ask is noticed.
func TestPlacementWaits(t *testing.T) {
	for _, hasty := range []bool{false, true} {
		t.Run(fmt.Sprintf("hasty %v", hasty), func(t *testing.T) {
			cfg := stageConfig(4)
			cfg.Break.HastyRegions = hasty
			onWorld(t, cfg, func(s *stage) {
				time.Sleep(20 * time.Second)
				make := func(within time.Duration) error {
					ctx, cancel := context.WithTimeout(context.Background(), within)
					defer cancel()
					return placed.Create(ctx, s.hosts[0].up().node.Cluster(),
						base.PlacementSpec{Name: "p", Regions: []string{"r1", "r2", "r3"}})
				}
				down := s.hosts[3]
				down.crash()
				err := make(10 * time.Second)
				if _, uses := placed.Named(context.Background(), s.hosts[1].up().node.Cluster(), "p"); (uses == nil) != hasty {
					t.Errorf("while a node is down the placement is said to be usable: %v (%v)", uses, err)
				}
				if hasty {
					return
				}
				if err == nil || !strings.Contains(err.Error(), "waits for node 4") {
					t.Errorf("it is not said for whom the placement waits: %v", err)
				}
				down.boot()
				if err := make(30 * time.Second); err != nil {
					t.Error(err)
				}
				if p, err := placed.Named(context.Background(), down.up().node.Cluster(), "p"); err != nil || p.First != 1 {
					t.Errorf("%+v (%v)", p, err)
				}
			})
		})
	}
}
