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

// definition is read as the definition of a table is.
var definition = base.AppendUint64(base.IndexPrefix(base.MetaShard, base.CatalogTable, 1, 0), 7)

// pauses are how long the nodes of a stage could not do what clients do all the time: read a row of
// their own region, or read and write one, as SQL does, on top of the catalog.
type pauses struct {
	mu      sync.Mutex
	longest map[base.NodeID]time.Duration
}

// watchPauses has every node work on its own rows until stop is called.
func (s *stage) watchPauses() (p *pauses, stop func()) {
	p = &pauses{longest: map[base.NodeID]time.Duration{}}
	var done atomic.Bool
	var working sync.WaitGroup
	for _, h := range s.hosts {
		for _, writes := range []bool{false, true} {
			working.Go(func() { s.watchHost(h, writes, p, &done) })
		}
	}
	return p, func() { done.Store(true); working.Wait() }
}

// watchHost has a node read its own row, or read and write it, again and again.
func (s *stage) watchHost(h *host, writes bool, p *pauses, done *atomic.Bool) {
	last := time.Now()
	for !done.Load() {
		time.Sleep(20 * time.Millisecond)
		if h.up() == nil {
			last = time.Now()
			continue
		}
		_, err := s.within(1500*time.Millisecond, h, kv.Options{ReadOnly: !writes}, func(x kv.Txn) error {
			if _, err := x.Get(context.Background(), []base.Key{definition}, kv.LockNone); err != nil {
				return err
			}
			if _, err := x.Get(context.Background(), []base.Key{s.key(h.region, 7)}, kv.LockNone); err != nil {
				return err
			}
			if writes {
				x.Put(s.key(h.region, 7), []byte("x"), 0)
			}
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
}

// TestMetaLeaderDies kills the node that leads the meta group. Its host resets its connections, as
// after kill -9, or nothing is heard of it, as where the power fails. What other regions do with
// their own rows goes on, although it rests on the catalog: until another leader closes timestamps
// (OWN-15) they go by what the dead one has promised (OWN-17). Without the first rule it stops
// until the lease of the dead leader is over, and without the second until its silence is noticed.
// So it does where little is promised yet, since a definition was changed a few seconds ago.
func TestMetaLeaderDies(t *testing.T) {
	for _, c := range []struct {
		name   string
		silent bool
		rules  Break
		stops  bool
		// changed has a definition be changed before, 5 s ago; rest is HoldRest.
		changed bool
		rest    time.Duration
	}{
		{name: "resets"},
		{name: "silent", silent: true},
		{name: "silent after a change", silent: true, changed: true},
		{name: "silent after a change, with a long rest", silent: true, changed: true, rest: 10 * time.Second, stops: true},
		{name: "silent, without OWN-17", silent: true, rules: Break{NoHold: true}, stops: true},
		{name: "resets, without OWN-15", rules: Break{NoEarlyClose: true, LongLeases: true}, stops: true},
		{name: "silent, without OWN-15", silent: true, rules: Break{NoEarlyClose: true, LongLeases: true}, stops: true},
	} {
		for seed := range uint64(some(2, 20)) {
			pause := time.Duration(0)
			tune := func(cfg *Config) { cfg.Seed, cfg.Break, cfg.HoldRest = seed+1, c.rules, c.rest }
			onStageTuned(t, 3, 1, tune, func(s *stage) {
				if c.changed {
					s.put(int(s.metaLeader().id), definition, "x")
				}
				pause = s.killMetaLeader(c.silent)
			})
			t.Logf("%s: others pause for %v", c.name, pause)
			if most := 500 * time.Millisecond; pause > most != c.stops {
				t.Errorf("%s, seed %d: others pause for %v; at most %v is right", c.name, seed+1, pause, most)
			}
		}
	}
}

// TestLeasesAreShort: the node that leads the meta group and the rows of its region dies. Its rows,
// and what all regions share in the meta shard, are written again once its leases are over, which
// are as short as round trips allow (TIME-1a). Without that it takes longer.
func TestLeasesAreShort(t *testing.T) {
	const rowsAtMost, sharedAtMost = 2200 * time.Millisecond, 3 * time.Second
	for _, silent := range []bool{false, true} {
		for _, long := range []bool{false, true} {
			var rows, shared time.Duration
			for seed := range uint64(some(2, 20)) {
				tune := func(cfg *Config) {
					cfg.Seed, cfg.Stay, cfg.Break.LongLeases = seed+1, true, long
					ab, bc, ac := 15*time.Millisecond, 30*time.Millisecond, 45*time.Millisecond
					cfg.Delay = [][]time.Duration{{0, ab, ac}, {ab, 0, bc}, {ac, bc, 0}}
				}
				onStageTuned(t, 3, 1, tune, func(s *stage) {
					a, b := s.killShared(silent, time.Duration(seed)*150*time.Millisecond)
					rows, shared = max(rows, a), max(shared, b)
				})
			}
			t.Logf("silent %v, longest leases %v: rows of the dead node pause for %v, shared ones for %v", silent,
				long, rows, shared)
			if ok := rows <= rowsAtMost && shared <= sharedAtMost; ok == long {
				t.Errorf("at most %v and %v are right", rowsAtMost, sharedAtMost)
			}
		}
	}
}

// killShared kills the meta group's leader, and tells how long others could not write rows of its
// region and rows of the meta shard.
func (s *stage) killShared(silent bool, after time.Duration) (rows, shared time.Duration) {
	return s.strikeShared(after, func(meta *host) { s.killHost(meta, silent) })
}

// strikeShared does something to the meta group's leader, and tells how long others could not write
// rows of its region and rows of the meta shard.
func (s *stage) strikeShared(after time.Duration, strike func(meta *host)) (rows, shared time.Duration) {
	s.setPolicy(clock.WantGClock)
	meta := s.metaLeader()
	global := base.AppendUint64(base.IndexPrefix(base.MetaShard, base.MakeTableID(200, 0), 0, 0), 1)
	var done atomic.Bool
	var mu sync.Mutex
	var working sync.WaitGroup
	for _, h := range s.hosts {
		if h == meta {
			continue
		}
		s.put(int(meta.id), s.key(meta.region, int(h.id)), "x") // its home is that region
		for _, w := range []struct {
			key     base.Key
			longest *time.Duration
		}{{s.key(meta.region, int(h.id)), &rows}, {append(global, byte(h.id)), &shared}} {
			working.Go(func() {
				for last := time.Now(); !done.Load(); time.Sleep(20 * time.Millisecond) {
					_, err := s.within(4*time.Second, h, kv.Options{}, func(x kv.Txn) error {
						x.Put(w.key, []byte("x"), 0)
						return nil
					})
					mu.Lock()
					*w.longest = max(*w.longest, time.Since(last))
					mu.Unlock()
					if err == nil {
						last = time.Now()
					}
				}
			})
		}
	}
	time.Sleep(5*time.Second + after)
	strike(meta)
	time.Sleep(8 * time.Second)
	done.Store(true)
	working.Wait()
	return rows, shared
}

// killHost ends a node. Its host resets its connections, or nothing is heard of it.
func (s *stage) killHost(dies *host, silent bool) {
	dies.crash()
	for _, h := range s.hosts {
		if h != dies && !silent {
			time.AfterFunc(s.cfg.Delay[0][1], func() { h.up().node.PeerDown(dies.id) })
		}
	}
}

// killMetaLeader tells how long the other nodes could not work.
func (s *stage) killMetaLeader(silent bool) (pause time.Duration) {
	s.setPolicy(clock.WantGClock)
	meta := s.metaLeader()
	p, stop := s.watchPauses()
	time.Sleep(5 * time.Second)
	s.killHost(meta, silent)
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
