package sim

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/replace"
	"github.com/godwitdb/godwit/kv"
)

// TestDeadNodeIsReplaced: a node dies for good, and the other node of its region gets its replicas.
// Then a region may be lost that could not have been lost before. The dead node comes back with old
// data, shows none of it, and gets replicas again. Where nobody replaces it, the second loss stops
// the writes.
func TestDeadNodeIsReplaced(t *testing.T) {
	for _, off := range []bool{false, true} {
		t.Run(map[bool]string{false: "replaced", true: "not replaced"}[off], func(t *testing.T) {
			cfg := stageConfig(3)
			cfg.NodesPerRegion, cfg.Shards, cfg.SyncAll, cfg.ReplaceAfter = 2, 2, true, 10*time.Second
			onWorld(t, cfg, func(s *stage) { s.deadAndBack(off) })
		})
	}
}

// voters are all that vote in the groups of a shard, as their leaders see them.
func (s *stage) voters(at int, shard base.ShardID) (out []base.NodeID) {
	for _, g := range s.hosts[at-1].up().node.Cluster().Status(s.t.Context()).Groups {
		if g.ID != base.MetaGroup && g.ID.Shard() == shard {
			out = append(out, g.Voters...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (s *stage) deadAndBack(off bool) {
	t := s.t
	if off {
		for _, h := range s.hosts {
			if err := h.up().node.Cluster().SetReplaceParams(replace.Params{Mode: "off", After: "10s"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	time.Sleep(10 * time.Second)
	k := s.key(1, 7)
	s.put(1, k, "before")
	var dead, taker, lost *host // of the second region: who holds shard 1, and the other one; and the first region's voter
	for _, id := range s.topology().ShardReplicas(1) {
		switch h := s.hosts[id-1]; h.region {
		case 2:
			dead = h
		case 3:
			lost = h
		}
	}
	for _, h := range s.hosts {
		if h.region == 2 && h != dead {
			taker = h
		}
	}
	dead.crash()
	time.Sleep(8 * time.Second)
	if s.topology().Node(dead.id).Away {
		t.Error("replaced before its time")
	}
	time.Sleep(40 * time.Second)
	if away := s.topology().Node(dead.id).Away; away == off {
		t.Errorf("away: %v", away)
	}
	if vs := s.voters(1, 1); slices.Contains(vs, dead.id) != off || slices.Contains(vs, taker.id) == off {
		t.Errorf("voters of shard 1 are %v, node %d is dead, and node %d is there for it", vs, dead.id, taker.id)
	}
	lost.crash()
	time.Sleep(10 * time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	_, err := kv.Run(ctx, s.db(1), kv.Options{}, func(x kv.Txn) error {
		x.Put(k, []byte("after"), 0)
		return nil
	})
	cancel()
	if off {
		if err == nil {
			t.Error("written with one voter of three: the test tests nothing")
		}
		return
	}
	if err != nil {
		t.Fatalf("not written although a majority was made anew: %v", err)
	}
	if problems := strings.Join(s.hosts[0].up().node.Cluster().Status(t.Context()).Problems, "\n"); !strings.Contains(problems, "and is away") {
		t.Errorf("nobody is told: %s", problems)
	}
	lost.boot()
	dead.boot()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		x := s.db(int(dead.id)).Begin(kv.Options{ReadOnly: true})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		if rows, err := x.Get(ctx, []base.Key{k}, kv.LockNone); err == nil && string(rows[0].Value) != "after" {
			t.Fatalf("the node that is back shows %q", rows[0].Value)
		}
		x.Rollback(ctx)
		cancel()
	}
	time.Sleep(60 * time.Second)
	if s.topology().Node(dead.id).Away {
		t.Error("the node that is back is away")
	}
	top := s.topology()
	if !slices.ContainsFunc(top.Replicas, func(set []base.NodeID) bool { return slices.Contains(set, dead.id) }) {
		t.Errorf("the node that is back has no shard: %v", top.Replicas)
	}
	if problems := s.hosts[0].up().node.Cluster().Status(t.Context()).Problems; len(problems) > 0 {
		t.Errorf("problems: %q", problems)
	}
	s.put(int(dead.id), k, "again")
}

// awayConfig is a run in which nodes that are silent for some seconds are replaced.
func awayConfig(seed uint64) Config {
	c := Pick(seed)
	c.NodesPerRegion, c.ReplaceAfter = 2+int(seed%2), 5*time.Second
	if c.Regions > 3 {
		c.NodesPerRegion = 2
	}
	return c
}

// TestAwaySeeds: nodes are replaced, and come back, while clients work and faults strike.
func TestAwaySeeds(t *testing.T) {
	if *flagSeed >= 0 {
		seed(t, awayConfig(uint64(*flagSeed)))
		return
	}
	for _, n := range seeds([]uint64{0, 1}) {
		seed(t, awayConfig(9_400_000+n))
	}
}

// TestAwaySoak is TestAwaySeeds for many seeds: -first and -seeds, as TestSoak.
func TestAwaySoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		seed(t, awayConfig(*flagFirst+i))
	}
}
