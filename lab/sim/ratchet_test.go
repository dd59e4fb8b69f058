package sim

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// writeUnderSchema changes keys through a node, under a schema that it has read.
func (s *stage) writeUnderSchema(ctx context.Context, n int, keys ...base.Key) error {
	return writeUnderSchema(ctx, s.db(n), keys...)
}

// steady is the median time of commits of keys through a node.
func (s *stage) steady(n int, keys ...base.Key) time.Duration {
	var took []time.Duration
	for range 21 {
		began := time.Now()
		if err := s.writeUnderSchema(context.Background(), n, keys...); err != nil {
			s.t.Errorf("node %d: %v", n, err)
		}
		took = append(took, time.Since(began))
		time.Sleep(50 * time.Millisecond)
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// TestLatencyReturns: a link is delayed to 1.4 s for 12 s. Ten seconds after it was mended commits
// are as fast as before, whatever they are of and wherever they come from.
func TestLatencyReturns(t *testing.T) {
	for _, ordered := range []base.Concurrency{base.Locking, base.ByTimestamp} {
		onStageTuned(t, 3, 1, func(cfg *Config) {
			cfg.Concurrency, cfg.Stay = ordered, true
			cfg.Delay = [][]time.Duration{{0, 15 * time.Millisecond, 45 * time.Millisecond},
				{15 * time.Millisecond, 0, 30 * time.Millisecond}, {45 * time.Millisecond, 30 * time.Millisecond, 0}}
		}, func(s *stage) {
			s.move(base.MetaGroup, 1)
			kinds := []struct {
				name string
				keys func(own, other base.RegionID, n int) []base.Key
			}{
				{"own rows", func(own, _ base.RegionID, n int) []base.Key { return []base.Key{s.key(own, n)} }},
				{"foreign rows", func(_, other base.RegionID, n int) []base.Key { return []base.Key{s.key(other, n)} }},
				{"rows of both", func(own, other base.RegionID, n int) []base.Key {
					return []base.Key{s.key(own, n), s.key(other, n+1)}
				}},
			}
			// each calls f for each node and kind.
			each := func(f func(n, kind int, keys []base.Key)) {
				for n := 1; n <= 3; n++ {
					for k, kind := range kinds {
						f(n, k, kind.keys(base.RegionID(n), base.RegionID(4-n), 100*n+10*k))
					}
				}
			}
			measure := func() (took [4][3]time.Duration) {
				each(func(n, k int, keys []base.Key) { took[n][k] = s.steady(n, keys...) })
				return took
			}
			each(func(n, _ int, keys []base.Key) {
				for _, k := range keys {
					s.put(int(k.Table().Region()), k, "new")
				}
			})
			measure()
			before := measure()
			stop, load := make(chan struct{}), new(sync.WaitGroup)
			each(func(n, _ int, keys []base.Key) {
				load.Go(func() {
					for {
						ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
						_ = s.writeUnderSchema(ctx, n, keys...)
						cancel()
						select {
						case <-stop:
							return
						case <-time.After(50 * time.Millisecond):
						}
					}
				})
			})
			time.Sleep(2 * time.Second)
			s.net.SetPaths(3, 1, wan.LinkSpec{Delay: 1400 * time.Millisecond})
			time.Sleep(12 * time.Second)
			s.calm()
			time.Sleep(3 * time.Second)
			close(stop)
			load.Wait()
			time.Sleep(7 * time.Second)
			after := measure()
			each(func(n, k int, _ []base.Key) {
				t.Logf("%v, node %d, %s: %v before, %v after", ordered, n, kinds[k].name, before[n][k], after[n][k])
				if after[n][k] > before[n][k]+before[n][k]/10+2*time.Millisecond {
					t.Errorf("%v, node %d: a commit of %s takes %v, where it took %v before the fault", ordered, n,
						kinds[k].name, after[n][k], before[n][k])
				}
			})
		})
	}
}
