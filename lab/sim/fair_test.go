package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// rewrite reads rows under locks and writes them, one after the other.
func rewrite(ctx context.Context, t kv.Txn, value string, keys ...base.Key) error {
	for _, k := range keys {
		if _, err := t.Get(ctx, []base.Key{k}, kv.LockExclusive); err != nil {
			return err
		}
		t.Put(k, []byte(value), 0)
	}
	return nil
}

// TestCrossingIsNotStarved: cross-region transactions change rows that clients in both regions
// change all the time, without a pause. They succeed in both modes: a retry keeps its age, and
// after some attempts without locks it takes locks.
func TestCrossingIsNotStarved(t *testing.T) {
	const (
		rounds = 5
		most   = 20 * time.Second // for one transaction; with regions 100 ms apart an attempt takes 0.3 s to 0.8 s
	)
	for _, c := range []struct {
		name   string
		relay  bool
		policy kv.Policy
	}{
		{"relay, waiting", true, kv.Detect}, {"relay, WAIT_DIE", true, kv.WaitDie},
		{"strict, waiting", false, kv.Detect}, {"strict, WAIT_DIE", false, kv.WaitDie},
	} {
		t.Run(c.name, func(t *testing.T) {
			onStage(t, 3, time.Hour, func(s *stage) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				rows := []base.Key{s.key(1, 1), s.key(2, 1)}
				for r, row := range rows {
					s.put(r+1, row, "0")
				}
				var busy atomic.Int64
				done := make(chan struct{})
				const clients = 3
				for r, row := range rows {
					for n := range clients {
						go func() {
							defer func() { done <- struct{}{} }()
							for i := 0; ctx.Err() == nil; i++ {
								if _, err := kv.Run(ctx, s.hosts[r].up().node.DB(),
									kv.Options{Policy: c.policy}, func(t kv.Txn) error {
										return rewrite(ctx, t, fmt.Sprint("irt", n, i), row)
									}); err == nil {
									busy.Add(1)
								}
							}
						}()
					}
				}
				time.Sleep(time.Second)
				for n := range rounds {
					db, attempts, began, before := s.hosts[2*(n%2)].up().node.DB(), 0, time.Now(), busy.Load()
					one, stop := context.WithTimeout(ctx, most)
					_, err := kv.Run(one, db, kv.Options{Policy: c.policy, Relay: c.relay}, func(t kv.Txn) error {
						attempts++
						return rewrite(one, t, fmt.Sprint("crt", n), rows...)
					})
					stop()
					took := time.Since(began).Round(time.Millisecond)
					if err != nil {
						s.t.Errorf("round %d: not through after %v, %d attempts and %d transactions inside the "+
							"regions: %v", n, took, attempts, busy.Load()-before, err)
					}
					s.t.Logf("round %d: %v, %d attempts, beside %d transactions inside the regions", n, took,
						attempts, busy.Load()-before)
				}
				cancel()
				for range 2 * clients {
					<-done
				}
			})
		})
	}
}

// TestAbandonedCrossing: a cross-region transaction whose gateway dies holds up no other one. While
// it reads, its locks are released. After its vote, the other participants find out how it ended.
func TestAbandonedCrossing(t *testing.T) {
	locks := func(s *stage) (n int, prepared int) {
		for _, h := range s.hosts {
			if l := h.up(); l != nil {
				for _, r := range l.node.Owners().Replicas() {
					for _, x := range r.Locks(0) {
						if x.Span.Start.Shard() != base.MetaShard {
							n++
						}
					}
					for _, x := range r.Txns() {
						if x.Prepared > 0 {
							prepared++
						}
					}
				}
			}
		}
		return n, prepared
	}
	for _, voting := range []bool{false, true} {
		t.Run(fmt.Sprintf("voting=%v", voting), func(t *testing.T) {
			onStage(t, 3, time.Hour, func(s *stage) {
				ctx := context.Background()
				rows := []base.Key{s.key(1, 1), s.key(2, 1)}
				for r, row := range rows {
					s.put(r+1, row, "0")
				}
				gateway := s.hosts[2]
				x := gateway.up().node.DB().Begin(kv.Options{Relay: true})
				if err := rewrite(ctx, x, "abandoned", rows...); err != nil {
					s.t.Fatal(err)
				}
				if n, _ := locks(s); n != 0 {
					s.t.Errorf("%d locks are held while it thinks", n)
				}
				if voting {
					go x.Commit(ctx)
					for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
						if _, n := locks(s); n > 0 {
							break
						}
					}
					if n, prepared := locks(s); n == 0 || prepared == 0 {
						s.t.Errorf("%d locks and %d votes while it commits", n, prepared)
					}
				}
				gateway.crash()
				limit := 5 * time.Second
				if !voting {
					limit = 500 * time.Millisecond
				}
				began := time.Now()
				one, stop := context.WithTimeout(ctx, limit)
				defer stop()
				if _, err := kv.Run(one, s.hosts[0].up().node.DB(), kv.Options{},
					func(t kv.Txn) error { return rewrite(one, t, "after", rows...) }); err != nil {
					s.t.Errorf("the rows cannot be written %v after the gateway died: %v", time.Since(began), err)
				}
				s.t.Logf("written after %v", time.Since(began))
				time.Sleep(3 * time.Second)
				if n, prepared := locks(s); n != 0 || prepared != 0 {
					s.t.Errorf("%d locks and %d votes are left", n, prepared)
				}
			})
		})
	}
}

// TestLockTablesAreBounded: an owner whose lock table is full refuses further locks with an error
// that says so, also to cross-region transactions. Transactions that hold locks go on. When they
// have ended, new ones succeed.
func TestLockTablesAreBounded(t *testing.T) {
	const most = 20
	onStageTuned(t, 2, 1, func(cfg *Config) { cfg.MaxLocks = most }, func(s *stage) {
		ctx := context.Background()
		db := s.hosts[0].up().node.DB()
		hog := db.Begin(kv.Options{})
		var err error
		n := 0
		for ; err == nil && n <= 2*most; n++ {
			_, err = hog.Get(ctx, []base.Key{s.key(1, 2*n)}, kv.LockExclusive)
		}
		if err == nil || n > most+1 || base.CodeOf(err) != base.CodeOverloaded {
			s.t.Errorf("after %d locks of at most %d: %v", n, most, err)
		}
		hog.Rollback(ctx)
		hog = db.Begin(kv.Options{})
		for i := range most - 1 {
			if _, err := hog.Get(ctx, []base.Key{s.key(1, 2*i)}, kv.LockExclusive); err != nil {
				s.t.Fatal(err)
			}
		}
		crossing := func(relay bool) error {
			x := db.Begin(kv.Options{Relay: relay})
			defer x.Rollback(ctx)
			err := rewrite(ctx, x, "x", s.key(2, 1), s.key(1, 1001), s.key(1, 1003))
			if err == nil {
				_, err = x.Commit(ctx)
			}
			return err
		}
		for _, relay := range []bool{false, true} {
			if err := crossing(relay); !base.Retryable(err) {
				s.t.Errorf("relay=%v: a table that is full gives %v", relay, err)
			}
		}
		if _, err := hog.Commit(ctx); err != nil {
			s.t.Errorf("who held the locks cannot commit: %v", err)
		}
		time.Sleep(time.Second)
		for _, relay := range []bool{false, true} {
			if err := crossing(relay); err != nil {
				s.t.Errorf("relay=%v, after all is free again: %v", relay, err)
			}
		}
	})
}
