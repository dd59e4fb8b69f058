package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/history"
	"github.com/godwitdb/godwit/mechanism/clock"
)

// snapshots is a run of writers that change keys of all regions together, and of clients that read
// them at the consistency point of their region, each time at another node of it.
type snapshots struct {
	*world
	keys []base.Key
	// private is the number of keys at the end that these writers do not use.
	private int
	// within keeps each write in one group of its region. Otherwise writes go everywhere.
	within bool
	// modes changes the clock mode all the time.
	modes bool
	// sync is what a sync of the disk takes at most.
	sync time.Duration

	mu     sync.Mutex
	writes []history.SnapshotWrite
	reads  []history.SnapshotRead
	ages   map[base.RegionID][]time.Duration // staleness seen
	byMode map[string]int                    // reads
	failed int                               // reads that found no consistency point in time
}

func newSnapshots(within, modes bool) *snapshots {
	return &snapshots{within: within, modes: modes, sync: time.Millisecond, ages: map[base.RegionID][]time.Duration{},
		byMode: map[string]int{}}
}

func (s *snapshots) write(stop <-chan struct{}, region base.RegionID, rng *rand.Rand) {
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rng.IntN(80)) * time.Millisecond):
		}
		l := s.hosts[rng.IntN(len(s.hosts))].up()
		if l == nil || l.node.DB().Region() != region {
			continue
		}
		value := fmt.Sprintf("%d.%d", region, n)
		picked := rng.Perm(len(s.keys) - s.private)[:1+rng.IntN(4)]
		if s.within { // the two keys of the region in one shard
			i := 6*rng.IntN(2) + 2*(int(region)-1)
			picked = []int{i, i + 1}
		}
		s.commit(l, region, value, picked)
	}
}

// commit writes a value to some keys in one transaction, and records the outcome.
func (s *snapshots) commit(l *life, region base.RegionID, value string, picked []int) {
	ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
	t := l.node.DB().Begin(kv.Options{})
	for _, i := range picked {
		t.Put(s.keys[i], []byte(value), region)
	}
	ts, err := t.Commit(ctx)
	cancel()
	if err != nil {
		t.Rollback(context.Background())
	}
	if code := base.CodeOf(err); err != nil && !l.dead.Load() && (code == base.CodeAborted ||
		code == base.CodeLockTimeout || code == base.CodeSchemaChanged) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range picked {
		s.writes = append(s.writes, history.SnapshotWrite{Key: s.keys[i].String(), Value: value, TS: uint64(ts),
			Unknown: err != nil || l.dead.Load()})
	}
}

func (s *snapshots) read(stop <-chan struct{}, client int, region base.RegionID, rng *rand.Rand) {
	var mates []*host
	for _, h := range s.hosts {
		if h.region == region {
			mates = append(mates, h)
		}
	}
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(1+rng.IntN(20)) * time.Millisecond):
		}
		h := mates[rng.IntN(len(mates))]
		l := h.up()
		if l == nil {
			continue
		}
		at, ok := l.node.Cluster().ReadPoint(l.ctx, 0, 200*time.Millisecond)
		if !ok {
			s.mu.Lock()
			s.failed++
			s.mu.Unlock()
			continue
		}
		age, mode := time.Since(at.Time()), l.node.Cluster().Clock().Mode
		ctx, cancel := context.WithTimeout(l.ctx, 20*time.Second)
		t := l.node.DB().Begin(kv.Options{ReadOnly: true, ReadTS: at})
		rows, err := t.Get(ctx, s.keys, kv.LockNone)
		cancel()
		t.Rollback(context.Background())
		if err != nil || l.dead.Load() {
			continue
		}
		r := history.SnapshotRead{Client: client, Node: int(h.id), TS: uint64(at), Rows: map[string]string{}}
		for _, row := range rows {
			r.Rows[row.Key.String()] = string(row.Value)
		}
		s.mu.Lock()
		s.reads = append(s.reads, r)
		s.ages[region] = append(s.ages[region], age)
		s.byMode[mode]++
		s.mu.Unlock()
	}
}

// isolate cuts a node off from all others for a while.
func (s *snapshots) isolate(h *host, d time.Duration) {
	for _, o := range s.hosts {
		if o != h {
			s.net.CutNodes(h.id, o.id)
		}
	}
	time.Sleep(d)
	for _, o := range s.hosts {
		if o != h {
			s.net.HealNodes(h.id, o.id)
		}
	}
}

// runSnapshots plays with or without faults, and judges the reads.
func runSnapshots(t *testing.T, seed uint64, nodes int, faults, within, modes bool) *snapshots {
	t.Helper()
	return newSnapshots(within, modes).run(t, seed, nodes, faults)
}

func (s *snapshots) run(t *testing.T, seed uint64, nodes int, faults bool) *snapshots {
	t.Helper()
	bubble(t, seed, func(*testing.T) {
		cfg := Config{Seed: seed, Regions: 3, NodesPerRegion: nodes, Shards: 2, Delay: even(3, 50*time.Millisecond),
			LAN:        250 * time.Microsecond,
			ClockBound: time.Millisecond, GCAge: time.Hour, Duration: time.Minute, SyncDelay: s.sync}
		s.world = newWorld(cfg)
		for _, h := range s.hosts {
			h.boot()
		}
		time.Sleep(20 * time.Second)
		for shard := range base.ShardID(2) {
			for home := range base.RegionID(3) {
				for n := range int64(2) {
					s.keys = append(s.keys, base.AppendInt64(base.IndexPrefix(shard+1, base.MakeTableID(3000, home+1), 0, 0), n))
				}
			}
		}
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for r := base.RegionID(1); r <= 3; r++ {
			rng := rand.New(rand.NewPCG(seed, uint64(r)))
			wg.Go(func() { s.write(stop, r, rng) })
			for c := range 2 {
				rng := rand.New(rand.NewPCG(seed, uint64(r)<<8|uint64(c)))
				wg.Go(func() { s.read(stop, int(r)*10+c, r, rng) })
			}
		}
		if s.modes {
			rng := rand.New(rand.NewPCG(seed, 98))
			wg.Go(func() {
				for i := 0; ; i++ {
					s.setPolicy([]clock.Setting{clock.WantGTM, clock.WantGClock}[i%2])
					select {
					case <-stop:
						return
					case <-time.After(time.Duration(4+rng.IntN(8)) * time.Second):
					}
				}
			})
		}
		time.Sleep(3 * time.Second) // owners learn how long their commits take
		s.mu.Lock()
		clear(s.ages)
		s.mu.Unlock()
		time.Sleep(2 * time.Second)
		if rng := rand.New(rand.NewPCG(seed, 99)); faults {
			for range 6 {
				h := s.hosts[rng.IntN(len(s.hosts))]
				switch rng.IntN(3) {
				case 0:
					if h.crash() {
						time.Sleep(time.Duration(1+rng.IntN(6)) * time.Second)
						h.boot()
					}
				case 1: // the nodes of a region are cut off from each other
					mate := s.hosts[(int(h.id)-1)^1]
					s.net.CutNodes(h.id, mate.id)
					time.Sleep(time.Duration(2+rng.IntN(8)) * time.Second)
					s.net.HealNodes(h.id, mate.id)
				case 2: // a node is cut off
					s.isolate(h, time.Duration(2+rng.IntN(8))*time.Second)
				}
				time.Sleep(2 * time.Second)
			}
		}
		time.Sleep(5 * time.Second)
		close(stop)
		wg.Wait()
		time.Sleep(10 * time.Second)
		s.close()
	})
	if err := s.err(); err != nil {
		t.Error(err)
	}
	if err := history.CheckSnapshots(s.writes, s.reads); err != nil {
		t.Errorf("seed %d: %v", seed, err)
	}
	if len(s.reads) < 500 || len(s.writes) < 100 {
		t.Errorf("seed %d: only %d reads and %d writes: this shows nothing", seed, len(s.reads), len(s.writes))
	}
	return s
}

// TestReplicaSnapshots: clients hop between the nodes of their region, which crash and are cut off
// from each other. They see whole transactions, and never an older snapshot than before.
func TestReplicaSnapshots(t *testing.T) {
	for _, seed := range seeds([]uint64{0}, 1, 2) {
		s := runSnapshots(t, seed+1, 2, true, seed == 1, false)
		t.Logf("seed %d: %d reads, %d found no consistency point, %d versions", seed+1, len(s.reads), s.failed, len(s.writes))
	}
}

// TestReplicaSnapshotsInAllModes does the same while the clock mode changes every few seconds.
func TestReplicaSnapshotsInAllModes(t *testing.T) {
	for _, seed := range seeds([]uint64{1}, 0, 2, 3) {
		s := runSnapshots(t, seed+20, 2, true, seed%2 == 1, true)
		t.Logf("seed %d: %v reads, %d found no consistency point, %d versions", seed+20, s.byMode, s.failed, len(s.writes))
		if s.byMode["gtm"] < 500 || s.byMode["gclock"] < 500 {
			t.Errorf("seed %d: too few reads in one of the modes", seed+20)
		}
	}
}

// TestStaleness holds the goal of docs/design.md: what a read at the consistency point sees is at
// most one one-way delay and a heartbeat old (here with the clock bound, and a few LAN trips where
// a region has several nodes), while every group commits all the time. (A transaction of several
// regions holds back what is closed from its votes until its outcome is known.) Where syncs of the
// disk take now longer and now less, the slow ones add what they take beyond the fast ones, by
// which commits are assigned ahead: commits under way hold back what is closed. So the p99 grows by
// the scatter of the disk, and the median does not.
func TestStaleness(t *testing.T) {
	const oneWay = 50 * time.Millisecond
	for _, c := range []struct {
		nodes int
		sync  time.Duration
		extra time.Duration
	}{{1, time.Millisecond, 3 * time.Millisecond}, {2, time.Millisecond, 6 * time.Millisecond},
		{1, 15 * time.Millisecond, 3 * time.Millisecond}, {1, 40 * time.Millisecond, 3 * time.Millisecond}} {
		s := newSnapshots(true, false)
		s.sync = c.sync
		s.run(t, 7, c.nodes, false)
		scatter := c.sync
		if c.sync <= time.Millisecond {
			scatter = 0
		}
		for r, ages := range s.ages {
			slices.Sort(ages)
			median, p99 := ages[len(ages)/2], ages[len(ages)*99/100]
			t.Logf("%d nodes a region, syncs of %v to %v, region %d: staleness of %d reads: median %.2f, "+
				"p99 %.2f one-way delays", c.nodes, c.sync/2, c.sync, r, len(ages),
				float64(median)/float64(oneWay), float64(p99)/float64(oneWay))
			if median > oneWay+heartbeat/2+c.extra || p99 > oneWay+heartbeat+c.extra+scatter {
				t.Errorf("%d nodes a region, syncs of %v, region %d: staleness median %v, p99 %v, "+
					"want at most %v and %v", c.nodes, c.sync, r, median, p99, oneWay+heartbeat/2+c.extra,
					oneWay+heartbeat+c.extra+scatter)
			}
		}
	}
}
