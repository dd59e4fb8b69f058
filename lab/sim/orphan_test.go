package sim

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestLocksOfADeadGateway: when a transaction's gateway dies, restarts or cannot be heard, its
// locks are released within a few seconds. If the gateway was only cut off, its further requests
// are refused.
func TestLocksOfADeadGateway(t *testing.T) {
	cfg := stageConfig(3)
	const limit = 4 * time.Second // of 10 s that a silent transaction of a living gateway has
	for name, end := range map[string]func(w *world, h *host){
		"killed":        func(_ *world, h *host) { h.crash() },
		"started again": func(_ *world, h *host) { h.crash(); h.boot() },
		"cut off":       func(w *world, h *host) { w.net.Isolate(h.id) },
	} {
		t.Run(name, func(t *testing.T) {
			onWorld(t, cfg, func(s *stage) {
				w := s.world
				time.Sleep(20 * time.Second) // leaders go home
				ctx, gateway := context.Background(), w.hosts[2]
				// of region 1
				row := base.AppendInt64(base.IndexPrefix(1, base.MakeTableID(2000, 1), 0, 0), 1)
				lost := gateway.up().node.DB().Begin(kv.Options{})
				if _, err := lost.Get(ctx, []base.Key{row}, kv.LockExclusive); err != nil {
					t.Error(err)
				}
				lost.Put(row, []byte("lost"), 0)
				time.Sleep(20 * time.Second)
				// Its gateway has sent heartbeats all the time, so it still holds its lock.
				other := func() (time.Duration, error) {
					began := time.Now()
					_, err := kv.Run(ctx, w.hosts[0].up().node.DB(),
						kv.Options{LockTimeout: 30 * time.Second}, func(x kv.Txn) error {
							_, err := x.Get(ctx, []base.Key{row}, kv.LockExclusive)
							x.Put(row, []byte("other"), 0)
							return err
						})
					return time.Since(began), err
				}
				_, err := w.hosts[0].up().node.DB().Begin(kv.Options{Policy: kv.NoWait}).Get(ctx, []base.Key{row},
					kv.LockExclusive)
				if base.CodeOf(err) != base.CodeAborted {
					t.Errorf("the lock of a living transaction is gone: %v", err)
				}
				end(w, gateway)
				took, err := other()
				if err != nil || took > limit {
					t.Errorf("another transaction got the lock after %s, %v; want %s at most", took, err, limit)
				}
				t.Logf("lock after %s", took)
				if name == "cut off" {
					w.net.HealAll()
					time.Sleep(2 * time.Second)
					if _, err := lost.Commit(ctx); base.CodeOf(err) != base.CodeAborted {
						t.Errorf("the late commit was not refused: %v", err)
					}
				}
			})
		})
	}
}
