package sim

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// A disk that takes nothing for a while stops neither the rows of other regions nor, for long, its
// own region's, which another node can own. It does not matter whether the node leads the meta
// group.

// stalledPause is how long a region may go without a write when a disk stalls: 400 ms until the
// node knows, a hand-over, and what the retries of a transaction add.
const stalledPause = 3 * time.Second

func TestStalledDiskStopsNobodyElse(t *testing.T) {
	for _, meta := range []bool{true, false} {
		t.Run(fmt.Sprintf("leads meta %v", meta), func(t *testing.T) {
			onStage(t, 3, time.Hour, func(s *stage) {
				sick := s.metaLeader()
				if !meta {
					sick = s.hosts[int(sick.id)%3]
				}
				pauses := s.pauses(func() {
					sick.freeze(40 * time.Second)
					time.Sleep(40 * time.Second)
				})
				for h, pause := range pauses {
					t.Logf("node %d (stalled: %v): longest pause %v", h.id, h == sick, pause)
					if h != sick && pause > stalledPause {
						t.Errorf("node %d wrote nothing for %v while the disk of node %d stalled", h.id, pause, sick.id)
					}
				}
				s.expectLeadsBack(sick, 90*time.Second)
			})
		})
	}
}

// metaLeader is the host that leads the meta group.
func (s *stage) metaLeader() *host {
	s.t.Helper()
	for _, h := range s.hosts {
		if h.up().node.Cluster().Leader(base.MetaGroup) == h.id {
			return h
		}
	}
	s.t.Fatal("no node leads the meta group")
	return nil
}

// pauses are for how long each node could not write a row of each region, while something goes on.
func (s *stage) pauses(during func()) map[*host]time.Duration {
	var mu sync.Mutex
	var wg sync.WaitGroup
	longest := map[*host]time.Duration{}
	stop := make(chan struct{})
	for _, h := range s.hosts {
		wg.Go(func() {
			last := time.Now()
			for n := 0; ; n++ {
				_, err := s.within(time.Second, h, kv.Options{}, func(x kv.Txn) error {
					x.Put(s.key(h.region, 1), fmt.Append(nil, n), 0)
					return nil
				})
				mu.Lock()
				longest[h] = max(longest[h], time.Since(last))
				mu.Unlock()
				if err == nil {
					last = time.Now()
				}
				select {
				case <-stop:
					return
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
	}
	time.Sleep(5 * time.Second)
	during()
	close(stop)
	wg.Wait()
	return longest
}

// expectLeadsBack waits until a node leads the groups of its region again.
func (s *stage) expectLeadsBack(h *host, within time.Duration) {
	s.t.Helper()
	g := base.DataGroup(1, h.region)
	for begin := time.Now(); h.up().node.Cluster().Leader(g) != h.id; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > within {
			s.t.Errorf("group %v is led by node %d, %v after the disk of node %d is well", g, h.up().node.Cluster().Leader(g), within, h.id)
			return
		}
	}
}
