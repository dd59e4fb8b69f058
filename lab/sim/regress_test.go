package sim

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan/overlay"
)

// The smallest scenarios of bugs that the simulation has found.

// stage is a quiet cluster.
type stage struct {
	*world
	t *testing.T
}

// onStage plays on a cluster of one node a region.
func onStage(t *testing.T, regions int, gcAge time.Duration, play func(s *stage)) {
	t.Helper()
	onStageOf(t, regions, 1, gcAge, play)
}

func onStageOf(t *testing.T, regions, nodesPerRegion int, gcAge time.Duration, play func(s *stage)) {
	t.Helper()
	onStageTuned(t, regions, nodesPerRegion, func(cfg *Config) { cfg.GCAge = gcAge }, play)
}

func onStageTuned(t *testing.T, regions, nodesPerRegion int, tune func(*Config), play func(s *stage)) {
	t.Helper()
	cfg := stageConfig(regions)
	cfg.NodesPerRegion = nodesPerRegion
	tune(&cfg)
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(15 * time.Second) // leaders go home
		play(s)
	})
}

// stageConfig is of one node a region, 50 ms apart.
func stageConfig(regions int) Config {
	return Config{Seed: 1, Regions: regions, NodesPerRegion: 1, Shards: 1, Delay: even(regions, 50*time.Millisecond),
		LAN:        time.Millisecond,
		ClockBound: time.Millisecond, GCAge: time.Hour, Duration: time.Minute, SyncDelay: time.Millisecond,
		Network: overlay.Params{FanOut: true}} // the defaults of the cluster settings
}

// onWorld plays on a cluster that has just been started, in virtual time.
func onWorld(t *testing.T, cfg Config, play func(s *stage)) {
	t.Helper()
	bubble(t, cfg.Seed, func(t *testing.T) {
		s := &stage{newWorld(cfg), t}
		defer func() { // in the bubble, as one that has failed ends the test
			if err := s.err(); err != nil {
				t.Error(err)
			}
			if t.Failed() && testing.Verbose() {
				t.Log(s.log.text())
			}
		}()
		for _, h := range s.hosts {
			h.boot()
		}
		defer s.close()
		play(s)
	})
}

// key is the n-th of a table whose gaps belong to a region.
func (s *stage) key(home base.RegionID, n int) base.Key {
	return base.AppendInt64(base.IndexPrefix(1, base.MakeTableID(3000, home), 0, 0), int64(n))
}

func (s *stage) db(n int) kv.DB { return s.hosts[n-1].up().node.DB() }

func (s *stage) put(at int, k base.Key, v string) base.Timestamp {
	s.t.Helper()
	ts, err := kv.Run(context.Background(), s.db(at), kv.Options{}, func(t kv.Txn) error {
		t.Put(k, []byte(v), 0)
		return nil
	})
	if err != nil {
		s.t.Error(err)
	}
	return ts
}

// move hands the lead of a group to a node and waits until it is there.
func (s *stage) move(g base.GroupID, to base.NodeID) {
	s.t.Helper()
	for range 100 {
		for _, h := range s.hosts {
			grp := h.up().node.Groups().Group(g)
			if n, _ := grp.Leader(); n == h.id {
				if h.id == to {
					if _, ok := h.up().node.Owners().Replica(g).Serving(); ok {
						return
					}
				}
				_ = grp.Transfer(to)
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	s.t.Errorf("group %v does not move to node %d", g, to)
}

// A vote that relies on read locks holds up to its upper bound. A planned hand-over ends the lease
// early, and the locks with it. If the successor's timestamps began below that bound, another
// transaction could overwrite what was read: T reads x, U overwrites x and commits, T commits above
// U. (Seed 1018.)
func TestHandoverKeepsWhatVotesRelyOn(t *testing.T) {
	onStage(t, 3, time.Hour, func(s *stage) {
		ctx := context.Background()
		x, y := s.key(2, 1), s.key(1, 1)
		s.put(2, x, "old")
		s.put(1, y, "old")
		time.Sleep(time.Second)
		// Another transaction holds y, so that T's Prepare waits there, long after T's vote for x.
		holder := s.db(1).Begin(kv.Options{})
		if _, err := holder.Get(ctx, []base.Key{y}, kv.LockExclusive); err != nil {
			t.Fatal(err)
		}
		tx := s.db(3).Begin(kv.Options{Age: 1}) // oldest: it waits
		if rows, err := tx.Get(ctx, []base.Key{x}, kv.LockShared); err != nil || string(rows[0].Value) != "old" {
			t.Fatal(rows, err)
		}
		tx.Put(y, []byte("T"), 0)
		done := make(chan error, 1)
		var at base.Timestamp
		go func() {
			var err error
			at, err = tx.Commit(ctx)
			done <- err
		}()
		time.Sleep(300 * time.Millisecond)
		s.move(base.DataGroup(1, 2), 3)
		wrote := make(chan base.Timestamp, 1)
		go func() { wrote <- s.put(3, x, "U") }()
		time.Sleep(300 * time.Millisecond)
		holder.Rollback(ctx)
		err, u := <-done, <-wrote
		t.Logf("T read x=old and committed at %s (%v), U wrote x at %s", at, err, u)
		if err != nil || at > u {
			t.Errorf("T read x=old and committed at %s (%v); U wrote x at %s", at, err, u)
		}
	})
}

// A row that has just moved may have a timestamp in the future, as its writer is in commit wait at
// the old owner. The new owner writes only above it (HOME-2).
func TestNewOwnerWritesAbove(t *testing.T) {
	onStage(t, 3, time.Hour, func(s *stage) {
		k := s.key(2, 5)
		inserted := s.insertAhead(k)
		time.Sleep(900 * time.Millisecond) // region 1 owns k now, and knows
		u := s.put(1, k, "U")
		if at := <-inserted; at == 0 || u <= at {
			t.Errorf("k came at %s and was overwritten at %s", at, u)
		}
		for n := 1; n <= 3; n++ {
			x := s.db(n).Begin(kv.Options{ReadOnly: true})
			if rows, err := x.Get(context.Background(), []base.Key{k}, kv.LockNone); err != nil || string(rows[0].Value) != "U" {
				t.Errorf("region %d reads %v, %v", n, rows, err)
			}
			x.Rollback(context.Background())
		}
	})
}

// insertAhead makes region 1 insert a key into a gap of region 2 at a timestamp about two seconds
// ahead, and returns that timestamp.
func (s *stage) insertAhead(k base.Key) <-chan base.Timestamp {
	s.t.Helper()
	ctx := context.Background()
	// A read in the near future: what the owner of the gap commits from now on lies above it.
	future := s.db(2).Begin(kv.Options{ReadOnly: true, ReadTS: base.FromTime(time.Now().Add(1900 * time.Millisecond))})
	if _, err := future.Get(ctx, []base.Key{k.Next()}, kv.LockNone); err != nil {
		s.t.Fatal(err)
	}
	inserted := make(chan base.Timestamp, 1)
	go func() {
		ts, err := kv.Run(ctx, s.db(1), kv.Options{}, func(t kv.Txn) error {
			if _, err := t.Get(ctx, []base.Key{k}, kv.LockExclusive); err != nil {
				return err
			}
			return t.Insert(k, []byte("new"), 0)
		})
		if err != nil {
			s.t.Error(err)
		}
		inserted <- ts
	}()
	return inserted
}

// Validation of meta reads works only as long as a change is visible: a row that was deleted and
// collected leaves no trace. (Seed 2499.)
func TestPinsOutliveCollection(t *testing.T) {
	onStage(t, 3, 2*time.Second, func(s *stage) {
		ctx := context.Background()
		m := base.AppendInt64(base.IndexPrefix(base.MetaShard, base.MakeTableID(3001, 0), 0, 0), 1)
		s.put(1, m, "there")
		time.Sleep(time.Second)
		tx := s.db(2).Begin(kv.Options{})
		if rows, err := tx.Get(ctx, []base.Key{m}, kv.LockShared); err != nil || string(rows[0].Value) != "there" {
			t.Fatal(rows, err)
		}
		if _, err := kv.Run(ctx, s.db(1), kv.Options{}, func(t kv.Txn) error { t.Delete(m); return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(8 * time.Second) // the tombstone is collected
		tx.Put(s.key(2, 1), []byte("relies on it"), 0)
		if ts, err := tx.Commit(ctx); base.CodeOf(err) != base.CodeSchemaChanged {
			t.Errorf("a transaction that read a row deleted since commits at %v, error %v", ts, err)
		}
	})
}

// A locking read may see a version with a timestamp in the future, if the row has just moved and
// its writer is in commit wait at the old owner. The reader commits above that timestamp, so all
// its locks must hold until then. Otherwise U overwrites what T read, at a timestamp below the
// version that T saw. (Seed 2499.)
func TestLocksHoldUntilWhatWasReadHasPassed(t *testing.T) {
	onStage(t, 3, time.Hour, func(s *stage) {
		ctx := context.Background()
		y, k := s.key(3, 1), s.key(2, 5)
		s.put(3, y, "old")
		time.Sleep(time.Second)
		inserted := s.insertAhead(k)
		time.Sleep(900 * time.Millisecond) // region 1 owns k now, and knows
		tx := s.db(3).Begin(kv.Options{})
		var seen []string
		for _, key := range []base.Key{y, k} {
			rows, err := tx.Get(ctx, []base.Key{key}, kv.LockShared)
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, string(rows[0].Value))
		}
		committed := make(chan error, 1)
		go func() {
			_, err := tx.Commit(ctx)
			committed <- err
		}()
		time.Sleep(250 * time.Millisecond)
		u := s.put(3, y, "U")
		at := <-inserted
		err := <-committed
		t.Logf("T saw %q (%v), k came at %s, U overwrote y at %s", seen, err, at, u)
		if err == nil && seen[0] == "old" && seen[1] == "new" && u < at {
			t.Errorf("T saw y=old and k of %s, but y was overwritten at %s", at, u)
		}
	})
}

// TestOldViewAfterRestart: the row that says which node collects a region's consistency point is
// older than old versions are kept. After the whole cluster was down, it finds that row again (seed
// 30055), and does not decide anew all the time.
func TestOldViewAfterRestart(t *testing.T) {
	onStage(t, 3, 4*time.Second, func(s *stage) {
		for _, h := range s.hosts {
			h.crash()
		}
		time.Sleep(10 * time.Second)
		for _, h := range s.hosts {
			h.boot()
		}
		time.Sleep(30 * time.Second)
		for _, h := range s.hosts {
			if at, ok := h.up().node.Cluster().ReadPoint(t.Context(), 0, 5*time.Second); !ok {
				t.Errorf("node %d knows no consistency point, but %v", h.id, at)
			}
		}
		if left := s.leftovers(); left != "" {
			t.Error(left)
		}
	})
}
