package sim

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// stalledPause is how long a region may go without a write when a disk stalls: half a second until
// the node knows, a hand-over, and a retry of the transaction.
const stalledPause = 2 * time.Second

// TestStalledDisk: a disk that takes nothing for 40 s stops neither the rows of other regions nor,
// for long, those of its own, which another node can own. It does not matter whether the node leads
// the meta group.
func TestStalledDisk(t *testing.T) {
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
					if pause > stalledPause {
						t.Errorf("node %d wrote nothing for %v while the disk of node %d stalled", h.id, pause, sick.id)
					}
				}
				s.expectLeads(sick, true, 30*time.Second)
			})
		})
	}
}

// TestStalledDiskAfterAnother: a disk stalls while the node of another region, whose disk has
// stalled before, is well again and not trusted yet. The third node is well: leads go there, as if
// the second one were so, too.
func TestStalledDiskAfterAnother(t *testing.T) {
	onStage(t, 3, time.Hour, func(s *stage) {
		before, sick := s.hosts[2], s.hosts[0]
		before.freeze(1500 * time.Millisecond)
		time.Sleep(2500 * time.Millisecond)
		var pauses map[*host]time.Duration
		if !strings.Contains(s.organ(before, "disk"), "recovering") {
			t.Errorf("the disk of node %d is %s, want one that is recovering", before.id, s.organ(before, "disk"))
		}
		pauses = s.pausesAtOnce(func() {
			sick.freeze(10 * time.Second)
			time.Sleep(10 * time.Second)
		})
		t.Logf("longest pauses %v", pauses)
		if pauses[sick] > stalledPause {
			t.Errorf("node %d wrote nothing for %v while its disk stalled", sick.id, pauses[sick])
		}
	})
}

// organ is how a host finds an organ of its own to be.
func (s *stage) organ(h *host, name string) string {
	for _, o := range h.up().node.Cluster().Health().Organs {
		if o.Organ == name {
			return o.State
		}
	}
	return "unknown"
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

// pauses are for how long each node could not write a row of its region, while something goes on
// that begins after five seconds of writing.
func (s *stage) pauses(during func()) map[*host]time.Duration {
	return s.pausesAtOnce(func() {
		time.Sleep(5 * time.Second)
		during()
	})
}

// pausesAtOnce is pauses without the five seconds.
func (s *stage) pausesAtOnce(during func()) map[*host]time.Duration {
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
	during()
	close(stop)
	wg.Wait()
	return longest
}

// expectLeads waits until a node leads the group of its region, or does not.
func (s *stage) expectLeads(h *host, want bool, within time.Duration) {
	s.t.Helper()
	g := base.DataGroup(1, h.region)
	for begin := time.Now(); (h.up().node.Cluster().Leader(g) == h.id) != want; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > within {
			s.t.Errorf("after %v group %v is led by node %d; by node %d: want %v", within, g,
				h.up().node.Cluster().Leader(g), h.id, want)
			return
		}
	}
}

// TestSlowDisk: a disk that is much slower than the others' loses its node the leads, and the node
// gets them back once it has been well for a while. Where most disks are slow, leads stay.
func TestSlowDisk(t *testing.T) {
	onStage(t, 3, time.Hour, func(s *stage) {
		one := s.hosts[1]
		one.disk.Store(int64(200 * time.Millisecond))
		s.expectLeads(one, false, slowFor+2*time.Second)
		said := strings.Join(s.hosts[0].up().node.Cluster().Status(context.Background()).Problems, "\n")
		if !strings.Contains(said, "its disk is sick") {
			t.Errorf("a slow disk is not named:\n%s", said)
		}
		one.disk.Store(int64(time.Millisecond))
		time.Sleep(4 * time.Second)
		s.expectLeads(one, false, 0)
		s.expectLeads(one, true, 10*time.Second)
		for _, h := range s.hosts {
			h.disk.Store(int64(1200 * time.Millisecond))
		}
		time.Sleep(time.Minute)
		for _, h := range s.hosts {
			for _, m := range h.up().node.Cluster().LeaderMoves() {
				if m.Reason == "sick" && h != one {
					t.Errorf("all disks are slow, and node %d moves a lead: %+v", h.id, m)
				}
			}
		}
	})
}

// slowFor is how long a disk has to be slow, as package cluster has it.
const slowFor = 5 * time.Second
