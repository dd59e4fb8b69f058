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

// TestOrderedIsNotStarved: with timestamp ordering, a cross-region transaction succeeds beside
// clients in both regions that use the same rows all the time.
func TestOrderedIsNotStarved(t *testing.T) {
	const (
		rounds = 5
		most   = 20 * time.Second // for one transaction; with regions 100 ms apart an attempt takes 0.3 s to 0.8 s
	)
	look := func(ctx context.Context, t kv.Txn, lock kv.LockMode, keys ...base.Key) error {
		for _, k := range keys {
			if _, err := t.Get(ctx, []base.Key{k}, lock); err != nil {
				return err
			}
		}
		return nil
	}
	for _, c := range []struct {
		name   string
		policy kv.Policy
		inside func(ctx context.Context, t kv.Txn, row base.Key) error
		across func(ctx context.Context, t kv.Txn, own base.Key, rows []base.Key) error
	}{
		{"all change the rows", kv.Detect,
			func(ctx context.Context, t kv.Txn, row base.Key) error { return rewrite(ctx, t, "irt", row) },
			func(ctx context.Context, t kv.Txn, _ base.Key, rows []base.Key) error {
				return rewrite(ctx, t, "crt", rows...)
			}},
		{"all change the rows, WAIT_DIE", kv.WaitDie,
			func(ctx context.Context, t kv.Txn, row base.Key) error { return rewrite(ctx, t, "irt", row) },
			func(ctx context.Context, t kv.Txn, _ base.Key, rows []base.Key) error {
				return rewrite(ctx, t, "crt", rows...)
			}},
		{"the others read what it writes", kv.Detect,
			func(ctx context.Context, t kv.Txn, row base.Key) error { return look(ctx, t, kv.LockNone, row) },
			func(_ context.Context, t kv.Txn, _ base.Key, rows []base.Key) error {
				for _, k := range rows {
					t.Put(k, []byte("crt"), 0)
				}
				return nil
			}},
		{"the others write what it reads", kv.Detect,
			func(_ context.Context, t kv.Txn, row base.Key) error {
				t.Put(row, []byte("irt"), 0)
				return nil
			},
			func(ctx context.Context, t kv.Txn, own base.Key, rows []base.Key) error {
				if err := look(ctx, t, kv.LockShared, rows...); err != nil {
					return err
				}
				t.Put(own, []byte("crt"), 0)
				return nil
			}},
	} {
		for _, how := range []base.Concurrency{base.ByTimestamp, base.ByTimestampRelay} {
			t.Run(c.name+"/"+string(how), func(t *testing.T) {
				onStageTuned(t, 3, 1, func(cfg *Config) { cfg.Concurrency = how }, func(s *stage) {
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					rows := []base.Key{s.key(1, 1), s.key(2, 1)}
					own := s.key(3, 1)
					for r, row := range rows {
						s.put(r+1, row, "0")
					}
					s.put(3, own, "0")
					var busy atomic.Int64
					done := make(chan struct{})
					const clients = 3
					for r, row := range rows {
						for range clients {
							go func() {
								defer func() { done <- struct{}{} }()
								for ctx.Err() == nil {
									if _, err := kv.Run(ctx, s.hosts[r].up().node.DB(),
										kv.Options{Policy: c.policy}, func(t kv.Txn) error {
											return c.inside(ctx, t, row)
										}); err == nil {
										busy.Add(1)
									}
									time.Sleep(time.Millisecond)
								}
							}()
						}
					}
					time.Sleep(time.Second)
					for n := range rounds {
						db, attempts, began, before := s.hosts[2*(n%2)].up().node.DB(), 0, time.Now(), busy.Load()
						one, stop := context.WithTimeout(ctx, most)
						_, err := kv.Run(one, db, kv.Options{Policy: c.policy}, func(t kv.Txn) error {
							attempts++
							return c.across(one, t, own, rows)
						})
						stop()
						took := time.Since(began).Round(time.Millisecond)
						what := fmt.Sprintf("%v, %d attempts, beside %d transactions inside the regions", took,
							attempts, busy.Load()-before)
						if err != nil {
							s.t.Errorf("round %d: not through: %s: %v", n, what, err)
						}
						s.t.Logf("round %d: %s", n, what)
					}
					cancel()
					for range 2 * clients {
						<-done
					}
				})
			})
		}
	}
}
