package sim

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/node"
	"github.com/godwitdb/godwit/policy/placement"
)

// withSets gives a run a placement of the first regions in which so many vote for each row, below 0
// one with three copies, and the last ones have read replicas.
func (c Config) withSets(placed, voters, readers int) Config {
	c.Placed = placed
	between := func(a, b base.RegionID) time.Duration { return c.Delay[a-1][b-1] + c.Delay[b-1][a-1] }
	c.Sets = c.setsBy(voters, readers, between)
	c.Sections = func(ks *keyspace, letter string, seq uint64, n int) []*section {
		out := ks.inSets(letter, seq, &c, n)
		if seq == tableMixed {
			out = append(out, ks.spread(&c, n)...)
		}
		return out
	}
	return c
}

// setsBy are its copy sets if regions are so far from each other.
func (c *Config) setsBy(voters, readers int, near placement.Near) []base.Placement {
	names := make([]string, c.Regions)
	for i := range names {
		names[i] = fmt.Sprintf("r%d", i+1)
	}
	t := node.LocalIdentity(names, c.NodesPerRegion, c.Shards).First
	s := base.PlacementSpec{Name: "inside", Regions: names[:c.Placed], Voters: voters, Readers: names[c.Placed-readers : c.Placed]}
	if voters < 0 {
		s.Voters, s.Survive = 0, base.SurviveNode
	}
	if err := placement.Add(&t, s, near); err != nil {
		panic(err)
	}
	for i := range t.Placements {
		t.Placements[i].Opening = false
	}
	return t.Placements
}

// setShard is the shard of a number, from 1, in a copy set.
func (c *Config) setShard(p *base.Placement, n int) base.ShardID {
	return base.ShardID(p.ID.ShardBefore(c.Shards) + n)
}

// inSets makes sections of tables in the copy sets of a run, in each such whose gaps its first
// region owns, and such of its last one.
func (ks *keyspace) inSets(letter string, seq uint64, cfg *Config, n int) (out []*section) {
	for i := range cfg.Sets {
		p := &cfg.Sets[i]
		for _, r := range slices.Compact([]base.RegionID{p.Regions[0], p.Regions[len(p.Regions)-1]}) {
			out = append(out, ks.add(fmt.Sprintf("%ss%d%d", letter, p.ID, r), seq, cfg.setShard(p, 1), r, n))
		}
	}
	return out
}

// spread makes the sections of one table that is spread over all copy sets of a run. The table id
// names the last region.
func (ks *keyspace) spread(cfg *Config, n int) (out []*section) {
	last := base.RegionID(cfg.Regions)
	for i := range cfg.Sets {
		p, home, ix := &cfg.Sets[i], last, base.IndexID(0)
		if !cfg.Break.NoBegun {
			home = p.Regions[0]
			ix = ix.BegunIn(home)
		}
		s := &section{name: fmt.Sprint("t", p.ID), home: home,
			prefix: base.IndexPrefix(cfg.setShard(p, cfg.Shards), base.MakeTableID(tableRows, last), ix, 0)}
		ks.fill(s, n)
		out = append(out, s)
	}
	return out
}

// votersConfig is a run with a placement in which not all regions vote: one of five in which two of
// three copies are elsewhere, also with read replicas and a region outside, and one of three copies
// in the home region.
func votersConfig(seed uint64) Config {
	c := placedConfig(4 * seed)
	c.Regions, c.NodesPerRegion = 5, 1
	placed, voters, readers := 5, 3, 0
	switch seed % 4 {
	case 1:
		placed, readers = 4, 1
	case 2:
		readers = 2
	case 3:
		c.Regions, c.NodesPerRegion, placed, voters, readers = 3, 3, 2, -1, 1
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
	return c.withSets(placed, voters, readers)
}

// TestVoters: rows lie in three of five or four regions, or in one, some with read replicas
// elsewhere, and clients of all regions use them and move their homes while faults strike. All
// checkers are silent, and no store of a region that neither votes for a row nor has a read replica
// has a byte of it.
func TestVoters(t *testing.T) {
	for _, n := range seeds([]uint64{0, 1, 2, 3}) {
		seed(t, votersConfig(9_500_000+n))
	}
}

// TestVotersSoak is TestVoters for many seeds: -first and -seeds, as TestSoak.
func TestVotersSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		seed(t, votersConfig(*flagFirst+i))
	}
}

// TestVotersBite: a row that gets a home in a region that does not vote for it is nobody's, copies
// are found where none may be if nodes do not agree which regions are near, and nobody can write
// into the first gap of a spread table whose keys do not say who owns it.
func TestVotersBite(t *testing.T) {
	for _, b := range []struct {
		name, what string
		breaks     Break
	}{{"any home", "could not be reached", Break{AnyHome: true}},
		{"own order", "cannot write to", Break{}}, {"no begun", "cannot be read", Break{NoBegun: true}}} {
		t.Run(b.name, func(t *testing.T) {
			for s := range uint64(biteSeeds) {
				cfg := votersConfig(4*s + 1)
				cfg.Break, cfg.Faults = b.breaks, 0
				cfg = cfg.withSets(4, 3, 1) // what it breaks is known to its sections
				if b.name == "own order" {
					others := cfg.setsBy(3, 1, func(x, y base.RegionID) time.Duration { return time.Hour - cfg.Delay[x-1][y-1] })
					cfg.Believes = func(id *join.Identity) {
						if id.Node%2 == 0 {
							id.First.Placements = others
							id.First = placement.Place(id.First)
						}
					}
				}
				if _, err := runSeed(t, cfg); err != nil && strings.Contains(err.Error(), b.what) {
					t.Logf("seed %d: %.600v", s, err)
					return
				}
			}
			t.Errorf("%d seeds pass", biteSeeds)
		})
	}
}

// TestVotersLoseRegion: rows of a placement of five regions, of which three vote for each, are
// written and read through the loss of any one region, and as nodes are moved; those whose three
// copies are in their home region alone go on without one of its nodes.
func TestVotersLoseRegion(t *testing.T) {
	for _, atHome := range []bool{false, true} {
		t.Run(fmt.Sprintf("at home %v", atHome), func(t *testing.T) {
			cfg := stageConfig(5).withSets(5, 3, 0)
			if atHome {
				cfg = stageConfig(2)
				cfg.NodesPerRegion = 3
				cfg = cfg.withSets(2, -1, 0)
			}
			onWorld(t, cfg, func(s *stage) {
				time.Sleep(20 * time.Second) // leaders go home
				sets := cfg.Sets
				key := func(p *base.Placement, n int) base.Key {
					return base.AppendInt64(base.IndexPrefix(cfg.setShard(p, 1), base.MakeTableID(3000, p.Regions[0]), 0, 0), int64(n))
				}
				for lost := range s.hosts {
					if h := s.hosts[lost]; atHome || h.region == base.RegionID(lost+1) {
						h.crash()
						time.Sleep(15 * time.Second)
						for i := range sets {
							by := 1 + (lost+1)%len(s.hosts)
							s.put(by, key(&sets[i], lost), fmt.Sprint(lost))
						}
						h.boot()
						time.Sleep(15 * time.Second)
					}
				}
				s.checkResidency()
			})
		})
	}
}

// TestVotersBytes: in a cluster of nine regions a write of a row in a placement of all nine takes
// copies to two regions if three vote, and to a third one with a read replica there.
// docs/figures/placements.md has the bytes.
func TestVotersBytes(t *testing.T) {
	for _, readers := range []int{0, 1} {
		cfg := stageConfig(9).withSets(9, 3, readers)
		onWorld(t, cfg, func(s *stage) {
			time.Sleep(20 * time.Second) // leaders go home
			some := s.bytesOfWrite(cfg.setShard(&cfg.Sets[0], 1))
			t.Logf("a write of %d bytes sends %.0f bytes between regions with 3 voters of 9 and %d read replicas", bytesWritten, some, readers)
			if low := float64((2 + readers) * bytesWritten); some < low || some > 1.5*low {
				t.Errorf("a write of %d bytes sends %.0f bytes between regions", bytesWritten, some)
			}
		})
	}
}

// TestReadReplica: a region with a read replica answers reads of the past by itself, also while it
// is cut off, as one that votes does. One that has no copy asks. A strong read takes a round trip.
func TestReadReplica(t *testing.T) {
	cfg := stageConfig(5).withSets(5, 3, 1)
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(20 * time.Second) // leaders go home
		set := &cfg.Sets[0]          // regions 1, 2 and 3 vote, and region 5 reads
		key := base.AppendInt64(base.IndexPrefix(cfg.setShard(set, 1), base.MakeTableID(3000, 1), 0, 0), 1)
		s.put(1, key, "old")
		time.Sleep(3 * time.Second)
		past := s.db(1).Clock()
		read := func(at int, o kv.Options, want string) (took time.Duration) {
			t.Helper()
			before := s.now()
			o.ReadOnly = true
			tx := s.db(at).Begin(o)
			defer tx.Rollback(context.Background())
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			rows, err := tx.Get(ctx, []base.Key{key}, kv.LockNone)
			if err != nil || string(rows[0].Value) != want {
				t.Errorf("node %d reads %v (%v), want %s", at, rows, err, want)
			}
			return s.now() - before
		}
		time.Sleep(3 * time.Second)
		s.put(2, key, "new")
		time.Sleep(time.Second)
		for at := 1; at <= 5; at++ {
			took, strong := read(at, kv.Options{ReadTS: past}, "old"), read(at, kv.Options{}, "new")
			t.Logf("node %d reads the past in %v, and now in %v", at, took, strong)
			if local := at != 4; local != (took < 10*time.Millisecond) || strong > 150*time.Millisecond {
				t.Errorf("node %d reads the past in %v, and now in %v; a round trip is 100 ms", at, took, strong)
			}
		}
		for _, at := range []int{4, 5} {
			for other := 1; other <= 5; other++ {
				if other != at {
					s.net.Cut(base.RegionID(at), base.RegionID(other))
				}
			}
		}
		if took := read(5, kv.Options{ReadTS: past}, "old"); took > 10*time.Millisecond {
			t.Errorf("cut off, node 5 reads the past in %v", took)
		}
	})
}
