package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// TestReleaseBites is TIME-1b: of all messages to and from a leader only requests arrive. It is
// left and does not hear of that, while a client beside it goes on reading. Its successor serves by
// its release, long before its lease ends. If the old leader goes on all the same, the check must
// notice that. (What else may be left out, the scripts in owner/testdata/lease/released play.)
func TestReleaseBites(t *testing.T) {
	var pauses []time.Duration
	for _, x := range []struct {
		name  string
		rule  Break
		wrong bool
	}{
		{"the rule", Break{}, false},
		{"nobody is asked", Break{NoRelease: true}, false},
		{"the old leader serves on", Break{ServesOn: true}, true},
	} {
		cfg := stageConfig(3)
		cfg.Break, cfg.Stay = x.rule, true
		bubble(t, cfg.Seed, func(t *testing.T) {
			s := &stage{newWorld(cfg), t}
			for _, h := range s.hosts {
				h.boot()
			}
			defer s.close()
			time.Sleep(15 * time.Second) // leaders go home
			pauses = append(pauses, s.left())
			var e *twoOwners
			if found := errors.As(s.err(), &e); found != x.wrong {
				t.Errorf("%s: two owners found: %v: %v", x.name, found, s.err())
			}
		})
	}
	t.Logf("rows are without service for %v", pauses)
	if pauses[0] > time.Second || pauses[1]-pauses[0] < 300*time.Millisecond {
		t.Errorf("rows are without service for %v, and %v if nobody is asked", pauses[0], pauses[1])
	}
}

// left has the leader of a group be left until another node serves its rows. It returns how long
// that takes.
func (s *stage) left() (pause time.Duration) {
	const old, other = 1, 2
	key := s.key(old, 1)
	s.put(old, key, "v")
	s.move(base.DataGroup(1, old), old)
	time.Sleep(5 * time.Second)
	spy := func(from, to base.NodeID, _ wire.Kind, _ []byte) bool { return from == old || to == old }
	s.spy.Store(&spy)
	for _, h := range s.hosts {
		if h.id != old { // they need not find out that it is silent
			h.up().node.PeerDown(old)
		}
	}
	began := time.Now()
	var done atomic.Bool
	var clients sync.WaitGroup
	clients.Go(func() {
		for ; !done.Load(); time.Sleep(20 * time.Millisecond) {
			ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
			t := s.db(old).Begin(kv.Options{})
			_, _ = t.Get(ctx, []base.Key{key}, kv.LockExclusive)
			t.Rollback(ctx)
			cancel()
		}
	})
	clients.Go(func() {
		time.Sleep(800 * time.Millisecond) // a write that waits at the old leader would hold up the reads
		ctx, cancel := context.WithTimeout(context.Background(), aliveHang)
		defer cancel()
		_, err := kv.Run(ctx, s.db(other), kv.Options{}, func(t kv.Txn) error {
			t.Put(key, []byte("w"), old)
			return nil
		})
		if err != nil {
			s.t.Error(err)
		}
		pause = time.Since(began)
	})
	time.Sleep(10 * time.Second)
	s.spy.Store(nil)
	time.Sleep(5 * time.Second)
	done.Store(true)
	clients.Wait()
	return pause
}

// TestForgetfulReleaseBites is TIME-1b (a): a leader whose clock is ahead shows rows until it is
// left, and its successor's clock is behind. What the one has shown binds the other by the release
// alone. Without it the successor writes below that. Where the order is that of timestamps, the
// release stands for the marks of reads (ORD-2).
func TestForgetfulReleaseBites(t *testing.T) {
	const off = 190 * time.Millisecond
	for _, how := range []base.Concurrency{base.Locking, base.ByTimestamp} {
		for _, forgets := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q, forgets %v", how, forgets), func(t *testing.T) {
				cfg := stageConfig(3)
				cfg.ClockBound, cfg.Delay, cfg.Stay, cfg.Concurrency = off+10*time.Millisecond, even(3, time.Millisecond),
					true, how
				cfg.Break.Forgetful = forgets
				bubble(t, cfg.Seed, func(t *testing.T) {
					s := &stage{newWorld(cfg), t}
					for _, h := range s.hosts {
						h.boot()
					}
					defer s.close()
					time.Sleep(15 * time.Second) // leaders go home
					s.hosts[0].clock.Set(off, 0, cfg.ClockBound)
					s.hosts[1].clock.Set(-off, 0, cfg.ClockBound)
					s.hosts[2].clock.Set(-off, 0, cfg.ClockBound)
					if shown := s.shownUntilLeft(); shown < 10 {
						t.Errorf("only %d reads before the leader is left", shown)
					}
					var e *twoOwners
					if found := errors.As(s.err(), &e); found != forgets {
						t.Errorf("two owners found: %v: %v", found, s.err())
					}
				})
			})
		}
	}
}

// shownUntilLeft has a row read through its leader until that is left, and written through the
// successor as soon as that serves. It returns the number of reads.
func (s *stage) shownUntilLeft() (shown int) {
	const old = 1
	key, g := s.key(old, 1), base.DataGroup(1, old)
	s.put(old, key, "v")
	s.move(g, old)
	time.Sleep(5 * time.Second)
	spy := func(from, to base.NodeID, _ wire.Kind, _ []byte) bool { return from == old || to == old }
	s.spy.Store(&spy)
	for _, h := range s.hosts {
		if h.id != old {
			h.up().node.PeerDown(old)
		}
	}
	serves := func(h *host) bool {
		_, ok := h.up().node.Owners().Replica(g).Serving()
		return ok
	}
	for {
		for _, h := range s.hosts {
			if h.id != old && serves(h) {
				s.put(int(h.id), key, "w")
				s.spy.Store(nil)
				time.Sleep(5 * time.Second)
				return shown
			}
		}
		if serves(s.hosts[old-1]) { // else the successor would be asked, and told the timestamp
			_, err := s.within(5*time.Millisecond, s.hosts[old-1], kv.Options{ReadOnly: true}, func(t kv.Txn) error {
				_, err := t.Get(context.Background(), []base.Key{key}, kv.LockNone)
				return err
			})
			if err == nil {
				shown++
			}
		}
		time.Sleep(time.Millisecond)
	}
}

// TestMajorityRestarts: all processes end at once, and all but that of the meta group's leader are
// started again. They know nothing of the time until they have a leader of that group, which waits
// for the lease of the one before, and must not wait for one of its own as well.
func TestMajorityRestarts(t *testing.T) {
	cfg := stageConfig(3)
	cfg.Stay = true
	onWorld(t, cfg, func(s *stage) {
		time.Sleep(15 * time.Second) // leaders go home
		leader := s.metaLeader()
		for _, h := range s.hosts {
			h.crash()
		}
		began := time.Now()
		var up *host
		for _, h := range s.hosts {
			if h != leader {
				h.boot()
				up = h
			}
		}
		for served := false; !served; time.Sleep(20 * time.Millisecond) {
			_, err := s.within(200*time.Millisecond, up, kv.Options{}, func(x kv.Txn) error {
				x.Put(s.key(up.region, 1), []byte("w"), 0)
				return nil
			})
			served = err == nil
		}
		t.Logf("rows are written after %v", time.Since(began))
		if d := time.Since(began); d > 3*time.Second {
			t.Errorf("rows are written only after %v", d)
		}
	})
}
