package sim

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// TestHedgedReads: strong reads of rows of region 3 through node 1, while the path between the two
// is cut. Node 2 reaches both, so it answers what node 3 does not, long before a detour is found;
// and it is asked no more often than the budget allows. What is read is never older than what was
// acknowledged before. Without a second node reads wait for the detour.
func TestHedgedReads(t *testing.T) {
	for _, none := range []bool{false, true} {
		onStageTuned(t, 3, 1, func(cfg *Config) { cfg.Stay, cfg.Break.NoHedges = true, none }, func(s *stage) {
			const reader, owner, rows = 1, 3, 3
			var mu sync.Mutex
			written := make([]byte, rows)
			for i := range rows {
				s.put(owner, s.key(owner, i), "\x00")
			}
			longest, reads := time.Duration(0), 0
			done := make(chan struct{})
			var clients sync.WaitGroup
			for i := range rows {
				k := s.key(owner, i)
				clients.Go(func() {
					for n := byte(1); ; n++ {
						s.put(owner, k, string(n))
						mu.Lock()
						written[i] = n
						mu.Unlock()
						select {
						case <-done:
							return
						case <-time.After(300 * time.Millisecond):
						}
					}
				})
				clients.Go(func() {
					for {
						mu.Lock()
						least := written[i]
						mu.Unlock()
						began, got := time.Now(), byte(0)
						_, err := s.within(10*time.Second, s.hosts[reader-1], kv.Options{ReadOnly: true}, func(x kv.Txn) error {
							r, err := x.Get(context.Background(), []base.Key{k}, kv.LockNone)
							if err == nil {
								got = r[0].Value[0]
							}
							return err
						})
						mu.Lock()
						longest, reads = max(longest, time.Since(began)), reads+1
						mu.Unlock()
						if err != nil || got < least {
							t.Errorf("row %d: %d, after %d was acknowledged: %v", i, got, least, err)
						}
						select {
						case <-done:
							return
						case <-time.After(20 * time.Millisecond):
						}
					}
				})
			}
			time.Sleep(5 * time.Second)
			mu.Lock()
			before := longest
			longest = 0
			mu.Unlock()
			s.net.Cut(reader, owner)
			time.Sleep(3 * time.Second)
			close(done)
			clients.Wait()
			s.net.HealAll()
			h := &s.hosts[reader-1].up().node.Commits().Hedged
			t.Logf("none %v: %d reads take %v at most, %v while the path is cut; %d asked of a second node, which won %d", none,
				reads, before, longest, h.Asked.Load(), h.Won.Load())
			if late := longest > 500*time.Millisecond; late != none {
				t.Errorf("none %v: reads take up to %v", none, longest)
			}
			if asked := int(h.Asked.Load()); none != (asked == 0) || asked > 10+reads/20+1 {
				t.Errorf("none %v: %d of %d reads were asked of a second node", none, asked, reads)
			}
		})
	}
}
