package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/lab/history"
)

// asyncSnapshots is a run of writers and readers (see snapshots). Half of the rows are in
// asynchronous shards.
type asyncSnapshots struct {
	seed   uint64
	within bool
	// promote makes region 1 fail in the middle, be promoted over, and come back.
	promote bool
	brk     Break
}

// lostWrite is a version that nodes have reported as discarded.
type lostWrite struct {
	key string
	ts  uint64
}

// run plays, and returns the first thing that is wrong with the reads.
func (a asyncSnapshots) run(t *testing.T) (s *snapshots, err error) {
	t.Helper()
	s = newSnapshots(a.within, false)
	lost := map[lostWrite]bool{}
	var promoted base.Timestamp
	bubble(t, a.seed, func(*testing.T) {
		cfg := Config{Seed: a.seed, Regions: 3, NodesPerRegion: 2, Shards: 2, Delay: even(3, 50*time.Millisecond),
			LAN:        250 * time.Microsecond,
			ClockBound: time.Millisecond, GCAge: time.Hour, Duration: time.Minute, SyncDelay: time.Millisecond, Break: a.brk}
		s.world = newWorld(cfg)
		for _, h := range s.hosts {
			h.boot()
		}
		time.Sleep(20 * time.Second)
		if err = s.hosts[0].up().node.Cluster().EnableAsync(context.Background()); err != nil {
			return
		}
		time.Sleep(5 * time.Second)
		for _, shard := range []base.ShardID{1, 3} { // one of either kind
			for home := range base.RegionID(3) {
				for n := range int64(2) {
					s.keys = append(s.keys, base.AppendInt64(base.IndexPrefix(shard, base.MakeTableID(3000, home+1), 0, 0), n))
				}
			}
		}
		for n := range int64(2) { // in two shards
			s.keys = append(s.keys, base.AppendInt64(base.IndexPrefix(base.ShardID(3+n), base.MakeTableID(3001, 1), 0, 0), n))
		}
		s.private = 2
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for r := base.RegionID(1); r <= 3; r++ {
			rng := rand.New(rand.NewPCG(a.seed, uint64(r)))
			wg.Go(func() { s.write(stop, r, rng) })
			for c := range 2 {
				rng := rand.New(rand.NewPCG(a.seed, uint64(r)<<8|uint64(c)))
				wg.Go(func() { s.read(stop, int(r)*10+c, r, rng) })
			}
		}
		wg.Go(func() { s.writeHome(stop) })
		time.Sleep(5 * time.Second)
		rng := rand.New(rand.NewPCG(a.seed, 99))
		for range 4 {
			h := s.hosts[rng.IntN(len(s.hosts))]
			if rng.IntN(2) == 0 {
				if h.crash() {
					time.Sleep(time.Duration(1+rng.IntN(6)) * time.Second)
					h.boot()
				}
			} else {
				s.isolate(h, time.Duration(2+rng.IntN(8))*time.Second)
			}
			time.Sleep(2 * time.Second)
		}
		if a.promote {
			promoted, err = s.loseRegion(rng)
		}
		time.Sleep(5 * time.Second)
		close(stop)
		wg.Wait()
		time.Sleep(10 * time.Second)
		for _, l := range s.hosts[2].up().node.Losses(context.Background()) {
			for _, x := range l.List {
				for _, k := range x.Keys {
					lost[lostWrite{k.String(), uint64(x.TS)}] = true
				}
			}
		}
		s.close()
	})
	if err != nil {
		return s, err
	}
	if err := s.err(); err != nil && a.brk == (Break{}) {
		return s, err
	}
	if len(s.reads) < 500 || len(s.writes) < 100 {
		return s, fmt.Errorf("only %d reads and %d writes: this shows nothing", len(s.reads), len(s.writes))
	}
	// Only clients of the lost region may have seen lost versions, and only before the loss.
	gone := map[[2]string]uint64{}
	for i := range s.writes {
		if w := &s.writes[i]; lost[lostWrite{w.Key, w.TS}] {
			w.Unknown = true
			gone[[2]string{w.Key, w.Value}] = w.TS
		}
	}
	for _, r := range s.reads {
		for k, v := range r.Rows {
			if ts, ok := gone[[2]string{k, v}]; ok && (r.Client/10 != 1 || base.Timestamp(r.TS) > promoted) {
				return s, fmt.Errorf("client %d at node %d was shown %s = %q of %d in the snapshot of %d, "+
					"which was lost in the promotion", r.Client, r.Node, k, v, ts, r.TS)
			}
		}
	}
	if a.promote {
		t.Logf("seed %d: %d versions were lost", a.seed, len(gone))
	}
	return s, history.CheckSnapshots(s.writes, s.reads)
}

// writeHome keeps writing two asynchronous rows of region 1, which no other client uses.
func (s *snapshots) writeHome(stop <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(30 * time.Millisecond):
		}
		if l := s.hosts[n%2].up(); l != nil {
			s.commit(l, 1, fmt.Sprintf("home.%d", n), []int{len(s.keys) - 2, len(s.keys) - 1})
		}
	}
}

// loseRegion cuts off region 1, which goes on for a while, and crashes it. It promotes over the
// region, and starts it again.
func (s *snapshots) loseRegion(rng *rand.Rand) (base.Timestamp, error) {
	for r := base.RegionID(2); r <= 3; r++ {
		s.net.Cut(1, r)
	}
	time.Sleep(time.Duration(rng.IntN(3000)) * time.Millisecond)
	for _, h := range s.hosts {
		if h.region == 1 {
			h.crash()
		}
	}
	time.Sleep(5 * time.Second)
	var ps []base.Promotion
	var err error
	for range 10 {
		if ps, err = s.hosts[2+rng.IntN(4)].up().node.Cluster().Promote(context.Background(),
			cluster.PromoteRequest{Lost: "r1"}); err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	if err != nil {
		return 0, err
	}
	time.Sleep(10 * time.Second)
	s.net.HealAll()
	for _, h := range s.hosts {
		if h.region == 1 {
			h.boot()
		}
	}
	time.Sleep(20 * time.Second)
	return ps[0].At, nil
}

// TestAsyncReplicaSnapshots: snapshots of asynchronous and synchronous rows together are whole.
// They never go backwards for clients that hop between nodes, which crash and are cut off. When a
// region is lost, nothing that a client elsewhere has seen disappears.
func TestAsyncReplicaSnapshots(t *testing.T) {
	for _, seed := range seeds([]uint64{1, 2}, 0, 3) {
		a := asyncSnapshots{seed: seed + 1, within: seed == 1, promote: seed >= 2}
		s, err := a.run(t)
		if err != nil {
			t.Errorf("seed %d: %v", a.seed, err)
		}
		t.Logf("seed %d: %d reads, %d found no consistency point, %d versions", a.seed, len(s.reads), s.failed, len(s.writes))
	}
}

// TestAsyncSnapshotsBite: the same checker notices leaders that announce closed timestamps too
// early, and survivors that claim to hold more of a lost region than they do.
func TestAsyncSnapshotsBite(t *testing.T) {
	for _, a := range []asyncSnapshots{{brk: Break{EarlyHeartbeats: 500 * time.Millisecond}},
		{promote: true, brk: Break{EarlyCopies: 3 * time.Second}}} {
		t.Run(fmt.Sprintf("%+v", a.brk), func(t *testing.T) {
			for a.seed = 1; a.seed <= biteSeeds; a.seed++ {
				_, err := a.run(t)
				if err != nil && !errors.As(err, new(*base.Error)) {
					t.Logf("seed %d rejected: %v", a.seed, err)
					return
				}
				t.Logf("seed %d passes (%v)", a.seed, err)
			}
			t.Errorf("%d seeds pass", biteSeeds)
		})
	}
}
