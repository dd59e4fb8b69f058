package sim

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
)

// TestClockModes switches the clock mode back and forth, by hand and because clocks jump, while
// nodes crash, messages are lost and leads move at any step: histories stay strictly serializable,
// no acknowledged write is lost, and every switch ends.
func TestClockModes(t *testing.T) {
	n := some(3, 6)
	steps := 0
	for s := range uint64(n) {
		cfg := Pick(7000 + s)
		cfg.Kinds = []string{"switch clock", "switch clock", "switch clock", "clock jump", "clock step", "crash node",
			"isolate node", "isolate region", "loss", "transfer leader", "restart", "delay"}
		cfg.Faults = 14
		o, err := runSeed(t, cfg)
		if err != nil {
			t.Errorf("%s\nfaults:\n%s%s\n%s%v\nhistory and journal: %s", cfg.String(), o.Faults, o.Summary(),
				o.Kinds(), err, save(t, o))
			continue
		}
		steps += o.Steps
		t.Logf("seed %d: %s, %d steps of the clock mode", cfg.Seed, o.Summary(), o.Steps)
	}
	if steps < n {
		t.Errorf("only %d steps of the clock mode in %d runs", steps, n)
	}
}

// TestClockSoak is TestClockModes for many seeds, with clocks that are set by seconds and minutes.
func TestClockSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		t.Run(fmt.Sprint(*flagFirst+i), func(t *testing.T) {
			cfg := Pick(*flagFirst + i)
			cfg.Kinds = []string{"switch clock", "switch clock", "clock leap", "clock jump", "clock step",
				"crash node", "isolate node", "transfer leader", "restart"}
			if i%2 == 0 {
				cfg.Kinds = cfg.Kinds[:4]
			}
			cfg.Faults = 14
			o, err := runSeed(t, cfg)
			if err != nil {
				t.Errorf("%s\nfaults:\n%s%s\n%s%v\nhistory and journal: %s", cfg.String(), o.Faults, o.Summary(),
					o.Kinds(), err, save(t, o))
			}
		})
	}
}

// TestWrongClockIsFenced: a node starts with a clock that is off by far more than it says. The
// others find out before it may issue by it, the cluster goes over to GTM mode, in which that node
// serves too, and comes back when the clock was corrected.
func TestWrongClockIsFenced(t *testing.T) {
	for _, off := range []time.Duration{2 * time.Second, -2 * time.Second, time.Hour} {
		onStageOf(t, 3, 1, time.Hour, func(s *stage) {
			s.setPolicy(clock.Auto)
			s.put(1, s.key(1, 1), "before")
			bad := s.hosts[1]
			bad.crash()
			bad.clock.Jump(off)
			time.Sleep(10 * time.Second)
			bad.boot()
			time.Sleep(30 * time.Second)
			for _, h := range s.hosts {
				if c := h.up().node.Cluster().Clock(); c.Mode != clock.GTM.String() || c.Fenced != (h == bad) {
					t.Errorf("off by %v: node %d: %+v", off, h.id, *c)
				}
				key := s.key(h.region, 1)
				if _, err := s.within(20*time.Second, h, kv.Options{},
					func(t kv.Txn) error { t.Put(key, []byte("gtm"), 0); return nil }); err != nil {
					t.Errorf("off by %v: a write through node %d: %v", off, h.id, err)
				}
			}
			if p := strings.Join(bad.up().node.Cluster().Status(context.Background()).Problems,
				"\n"); !strings.Contains(p, "node 2's clock is outside its bound") {
				t.Errorf("off by %v: status does not say so:\n%s", off, p)
			}
			bad.clock.Set(0, 0, s.cfg.ClockBound)
			s.checkClocks()
		})
	}
}

// TestFencedIssuerLeadsNothing: the operator wants GClock mode, and a leader's clock is wrong. It
// can issue no timestamps, so it gives its leads up, does not get them back as long as that lasts,
// and has them when its clock is right again. (Seed 500502 of TestRestartSoak.)
func TestFencedIssuerLeadsNothing(t *testing.T) {
	onStageOf(t, 3, 1, time.Hour, func(s *stage) {
		s.setPolicy(clock.WantGClock)
		time.Sleep(20 * time.Second)
		bad, g, k := s.hosts[1], base.DataGroup(1, 2), s.key(2, 1)
		s.put(2, k, "before")
		bad.clock.Jump(2 * time.Second)
		longest, last := time.Duration(0), time.Now()
		for end := last.Add(20 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
			if _, err := s.within(2*cutHang, s.hosts[0], kv.Options{},
				func(t kv.Txn) error { t.Put(k, []byte("x"), 0); return nil }); err == nil {
				longest, last = max(longest, time.Since(last)), time.Now()
			}
		}
		if longest = max(longest, time.Since(last)); longest > serveBound {
			t.Errorf("the rows of node %d's region pause for %v", bad.id, longest)
		}
		if h := s.leaderOf(g); h == nil || h == bad {
			t.Error("the leader with a wrong clock leads on, or nobody does")
		}
		bad.clock.Set(0, 0, s.cfg.ClockBound)
		time.Sleep(20 * time.Second)
		if h := s.leaderOf(g); h != bad {
			t.Error("the leader does not have its lead back")
		}
	})
}

// TestStepIsNotBelieved: a clock is set while its node serves. As long as the node may issue
// timestamps by it, true time lies within the bound that the node uses, whatever the other nodes
// report, and even if they cannot be heard. Reports from before the step do not confirm the clock,
// and silence does not either. (Soak seed 612.)
func TestStepIsNotBelieved(t *testing.T) {
	for i, off := range []time.Duration{32 * time.Millisecond, 60 * time.Millisecond, 16 * time.Second,
		-60 * time.Millisecond, -16 * time.Second} {
		for _, alone := range []bool{false, true} {
			onStageOf(t, 1, 3, time.Hour, func(s *stage) {
				s.setPolicy(clock.WantGClock)
				bad := s.hosts[2]
				bad.crash()
				// The phase of its heartbeats, relative to the other nodes'.
				time.Sleep(10*time.Second - s.now()%(100*time.Millisecond) + time.Duration(5+20*i)*time.Millisecond)
				bad.boot()
				time.Sleep(10 * time.Second)
				bad.clock.Jump(off)
				if alone {
					s.net.Isolate(bad.id)
				}
				for range 200 {
					c := bad.up().node.Cluster().Clock()
					if now, _ := bad.clock.Read(); !c.Fenced && c.Right > 0 &&
						now.Sub(base.FromTime(time.Now())).Abs() > c.Bound {
						t.Errorf("off by %v, alone %v: the node may issue: %+v", off, alone, *c)
						return
					}
					time.Sleep(60 * time.Millisecond)
				}
				s.net.Rejoin(bad.id)
				bad.clock.Set(0, 0, s.cfg.ClockBound)
				s.setPolicy(clock.Auto)
				s.checkClocks()
			})
		}
	}
}
