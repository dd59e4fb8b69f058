package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner/view"
)

// lateConfig is a run in which one or two regions join two or three while clients work.
func lateConfig(seed uint64) Config {
	c := Pick(seed)
	c.Late = 1 + int(seed%2)
	c.Regions = 2 + int(seed/2%2) + c.Late
	if seed%10 == 9 { // three become nine, and one of them goes
		c.Regions, c.Late, c.NodesPerRegion = 9, 6, 1
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
	c.Duration = 30 * time.Second
	if seed%3 > 0 {
		c.Leave = 1 + base.RegionID(seed/3)%base.RegionID(c.Regions)
	}
	return c
}

// TestLateRegions: regions join while clients work and faults strike. All checkers are silent, the
// regions become part of the cluster, and rows move there.
func TestLateRegions(t *testing.T) {
	for _, n := range seeds([]uint64{0, 1, 2, 9}) {
		seed(t, lateConfig(9_100_000+n))
	}
}

// TestLateSoak is TestLateRegions for many seeds: -first and -seeds, as TestSoak.
func TestLateSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		seed(t, lateConfig(*flagFirst+i))
	}
}

// TestLateRegionWaits: a region is not brought on while a node is down, since that one may come
// back with the topology of before and hear of all groups but the new one: it would show rows as
// they were before they moved to the new region (REGION-2). It says for whom it waits. A region
// that does not wait is noticed.
func TestLateRegionWaits(t *testing.T) {
	for _, hasty := range []bool{false, true} {
		t.Run(fmt.Sprintf("hasty %v", hasty), func(t *testing.T) {
			cfg := stageConfig(4)
			cfg.Late, cfg.SyncAll, cfg.Break.HastyRegions = 1, true, hasty
			onWorld(t, cfg, lateAndDown)
		})
	}
}

func lateAndDown(s *stage) {
	t, hasty := s.t, s.cfg.Break.HastyRegions
	time.Sleep(10 * time.Second)
	k := s.key(1, 7)
	s.put(1, k, "before")
	s.hosts[2].crash()
	s.joinLate()
	time.Sleep(20 * time.Second)
	state := s.topology().Region(4).State
	if hasty != (state == base.RegionActive) {
		t.Errorf("region 4 is %q while node 3 is down", state)
		return
	}
	if !hasty {
		problems := strings.Join(s.hosts[0].up().node.Cluster().Status(t.Context()).Problems, "; ")
		if !strings.Contains(problems, "region r4 is being added (opening): it waits for node 3") {
			t.Errorf("for whom it waits is not said: %s", problems)
		}
		s.hosts[2].boot()
		s.awaitRegions()
	} else {
		// Its disk takes the new topology late, after it has taken the logs.
		s.hosts[2].disk.Store(int64(2 * time.Second))
	}
	_, err := kv.Run(context.Background(), s.db(4), kv.Options{}, func(x kv.Txn) error {
		_, err := x.Get(context.Background(), []base.Key{k}, kv.LockExclusive)
		x.Move(k, 4, kv.MoveOptions{})
		return err
	})
	if err != nil {
		t.Error(err)
		return
	}
	written := s.put(4, k, "after")
	s.hosts[2].boot()
	missed := s.missed(3, k, written, "after")
	t.Logf("missed %d of the reads", missed)
	if hasty != (missed > 0) {
		t.Errorf("node 3 missed the new value in %d reads", missed)
	}
}

// missed reads a key as of a timestamp, again and again at a node for some seconds, and counts the
// answers that have another value.
func (s *stage) missed(at int, k base.Key, ts base.Timestamp, want string) (n int) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		x := s.db(at).Begin(kv.Options{ReadOnly: true, ReadTS: ts})
		rows, err := x.Get(ctx, []base.Key{k}, kv.LockNone)
		if err == nil && string(rows[0].Value) != want {
			n++
		}
		x.Rollback(ctx)
		cancel()
	}
	return n
}

// TestLeavingRegionsBite: a transaction of a client of a region began before the region left, and
// commits afterwards. Its row must not stay behind (REGION-4).
func TestLeavingRegionsBite(t *testing.T) {
	for _, bare := range []bool{false, true} {
		t.Run(fmt.Sprintf("owners take it %v", bare), func(t *testing.T) {
			cfg := stageConfig(4)
			cfg.Leave, cfg.Break.NoLeaving = 3, bare
			onWorld(t, cfg, func(s *stage) { s.commitLate(bare) })
		})
	}
}

func (s *stage) commitLate(bare bool) {
	t := s.t
	time.Sleep(10 * time.Second)
	s.put(3, s.key(1, 1), "moves") // at home in region 3
	x := s.db(1).Begin(kv.Options{Source: 3})
	x.Put(s.key(1, 2), []byte("late"), 0)
	s.leave()
	s.awaitRegions()
	_, err := x.Commit(context.Background())
	if bare != (err == nil) {
		t.Errorf("the commit of before: %v", err)
	}
	time.Sleep(time.Second)
	left := 0
	for _, g := range s.topology().RegionGroups(3) {
		n, err := view.Living(s.hosts[0].up().store, g, func(base.Key) bool { return true })
		if err != nil {
			t.Error(err)
		}
		left += n
	}
	if bare != (left == 1) {
		t.Errorf("%d rows are at home in a region that is gone", left)
	}
	if got, err := kv.Run(context.Background(), s.db(1), kv.Options{}, func(x kv.Txn) error {
		rows, err := x.Get(context.Background(), []base.Key{s.key(1, 1)}, kv.LockExclusive)
		if err == nil && (string(rows[0].Value) != "moves" || rows[0].Home != 1) {
			t.Errorf("the row that was to move: %+v", rows[0])
		}
		return err
	}); err != nil {
		t.Error(got, err)
	}
}
