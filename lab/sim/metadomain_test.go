package sim

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
)

// pauses are how long the nodes of a stage could not do what clients do all the time: read and
// write a row of their own region, as SQL does, on top of the catalog.
type pauses struct {
	mu      sync.Mutex
	longest map[base.NodeID]time.Duration
}

// watchPauses has every node work on its own rows until stop is called.
func (s *stage) watchPauses() (p *pauses, stop func()) {
	p = &pauses{longest: map[base.NodeID]time.Duration{}}
	pin := base.AppendUint64(base.IndexPrefix(base.MetaShard, base.MakeTableID(90, 0), 0, 0), 0)
	var done atomic.Bool
	var working sync.WaitGroup
	for _, h := range s.hosts {
		working.Go(func() {
			last := time.Now()
			for !done.Load() {
				time.Sleep(20 * time.Millisecond)
				if h.up() == nil {
					last = time.Now()
					continue
				}
				_, err := s.within(1500*time.Millisecond, h, kv.Options{}, func(x kv.Txn) error {
					if _, err := x.Get(context.Background(), []base.Key{pin}, kv.LockNone); err != nil {
						return err
					}
					if _, err := x.Get(context.Background(), []base.Key{s.key(h.region, 7)}, kv.LockNone); err != nil {
						return err
					}
					x.Put(s.key(h.region, 7), []byte("x"), 0)
					return nil
				})
				if h.up() == nil {
					continue
				}
				p.mu.Lock()
				p.longest[h.id] = max(p.longest[h.id], time.Since(last))
				p.mu.Unlock()
				if err == nil {
					last = time.Now()
				}
			}
		})
	}
	return p, func() { done.Store(true); working.Wait() }
}

// TestMetaLeaderDies kills the node that leads the meta group, and its host resets its connections,
// as after kill -9. What other regions do with their own rows goes on, although it rests on the
// catalog (OWN-15). Without the rule it stops until the lease of the dead leader is over.
func TestMetaLeaderDies(t *testing.T) {
	for _, broken := range []bool{false, true} {
		for seed := range uint64(some(2, 20)) {
			pause := time.Duration(0)
			tune := func(c *Config) { c.Seed, c.Break.NoEarlyClose = seed+1, broken }
			onStageTuned(t, 3, 1, tune, func(s *stage) { pause = s.killMetaLeader() })
			t.Logf("broken: %v: others pause for %v", broken, pause)
			if most := 500 * time.Millisecond; pause > most != broken {
				t.Errorf("broken: %v: others pause for %v; at most %v is right", broken, pause, most)
			}
		}
	}
}

// killMetaLeader tells how long the other nodes could not work.
func (s *stage) killMetaLeader() (pause time.Duration) {
	s.setPolicy(clock.WantGClock)
	meta := s.hosts[s.hosts[0].up().node.Cluster().Leader(base.MetaGroup)-1]
	p, stop := s.watchPauses()
	time.Sleep(5 * time.Second)
	meta.crash()
	for _, h := range s.hosts {
		if h != meta {
			time.AfterFunc(s.cfg.Delay[0][1], func() { h.up().node.PeerDown(meta.id) })
		}
	}
	time.Sleep(10 * time.Second)
	stop()
	for id, d := range p.longest {
		if id != meta.id {
			pause = max(pause, d)
		}
	}
	meta.boot()
	time.Sleep(20 * time.Second)
	return pause
}
