package sim

import (
	"context"
	"runtime"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// The smallest scenarios of what the simulation once found.

// stage is a quiet cluster of one node a region.
type stage struct {
	*world
	t *testing.T
}

func onStage(t *testing.T, regions int, gcAge time.Duration, play func(s *stage)) {
	t.Helper()
	cryptotest.SetGlobalRandom(t, 1)
	runtime.GC()
	runtime.GC()
	var s *stage
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{Seed: 1, Regions: regions, NodesPerRegion: 1, Shards: 1, Delay: even(regions, 50*time.Millisecond), LAN: time.Millisecond,
			ClockBound: time.Millisecond, GCAge: gcAge, Duration: time.Minute, SyncDelay: time.Millisecond}
		s = &stage{newWorld(cfg), t}
		for _, h := range s.hosts {
			h.boot()
		}
		time.Sleep(15 * time.Second) // leaders go home
		play(s)
		s.close()
	})
	if err := s.err(); err != nil {
		t.Error(err)
	}
	if t.Failed() && testing.Verbose() {
		t.Log(s.log.text())
	}
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
// early, and the locks with it; if the successor's timestamps began below that bound, a write of what
// was read could get in between: T reads x, U overwrites x and commits, T commits above U. (Seed 1018.)
func TestHandoverKeepsWhatVotesRelyOn(t *testing.T) {
	onStage(t, 3, time.Hour, func(s *stage) {
		ctx := context.Background()
		x, y := s.key(2, 1), s.key(1, 1)
		s.put(2, x, "old")
		s.put(1, y, "old")
		time.Sleep(time.Second)
		// Somebody holds y, so that T's Prepare waits there, long after T's vote for x.
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
		u := s.put(3, x, "U")
		holder.Rollback(ctx)
		if err := <-done; err != nil {
			t.Logf("T did not commit: %v", err)
			return
		}
		t.Logf("T read x=old and committed at %s, U wrote x at %s", at, u)
		if at > u {
			t.Errorf("T read x=old and committed at %s, above U, which wrote x at %s", at, u)
		}
	})
}

// What a transaction read of the meta shard holds only as long as its change would show: a row that was deleted
// and collected leaves nothing behind. (Seed 2499.)
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
