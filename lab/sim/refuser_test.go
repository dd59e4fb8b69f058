package sim

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// shortFirst has the leader of a group fall silent just after it was not heard any more by the
// survivor that stands first, whose log is shorter than those of the others. Before that the last
// node may be lost. It tells for how long nobody could write the group's rows.
func (s *stage) shortFirst(after time.Duration, lost bool) (pause time.Duration) {
	const lead, first, writer = 1, 2, 3
	if lost {
		s.net.Isolate(s.hosts[len(s.hosts)-1].id)
	}
	s.put(lead, s.key(lead, 1), "x")
	s.put(lead, s.key(lead, 2), "x")
	s.move(base.DataGroup(1, lead), lead)
	time.Sleep(5*time.Second + after)
	s.net.CutOneWay(lead, first)
	s.put(lead, s.key(lead, 1), "y")
	time.Sleep(100 * time.Millisecond)
	began := time.Now()
	s.net.Isolate(lead)
	for {
		_, err := s.within(10*time.Second, s.hosts[writer-1], kv.Options{}, func(x kv.Txn) error {
			x.Put(s.key(lead, 2), []byte("y"), 0)
			return nil
		})
		if err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	pause = time.Since(began)
	s.net.HealAll()
	time.Sleep(5 * time.Second)
	if _, err := s.within(5*time.Second, s.hosts[writer-1], kv.Options{}, func(x kv.Txn) error {
		_, err := x.Get(context.Background(), []base.Key{s.key(lead, 1)}, kv.LockNone)
		return err
	}); err != nil {
		s.t.Error(err)
	}
	return pause
}

// TestRefusersBite: a survivor that refuses a candidate stands at once where nobody is elected
// without it, and only there (GRP-10). Who waits for its turn among three voters, or among five of
// which one is lost, keeps rows waiting; of five voters those that stand at once divide the votes.
func TestRefusersBite(t *testing.T) {
	for _, c := range []struct {
		name    string
		regions int
		lost    bool
		rule    Break
		most    time.Duration
		late    bool
	}{
		{"three voters", 3, false, Break{}, 1900 * time.Millisecond, false},
		{"three voters that wait for their turns", 3, false, Break{PatientRefusers: true}, 1900 * time.Millisecond, true},
		{"five voters", 5, false, Break{}, 3 * time.Second, false},
		{"five voters that do not wait for their turns", 5, false, Break{HastyRefusers: true, SplitVotes: true, AsksOnce: true}, 3 * time.Second, true},
		{"five voters, one is lost", 5, true, Break{}, 1900 * time.Millisecond, false},
		{"five voters that wait for their turns, one is lost", 5, true, Break{PatientRefusers: true},
			1900 * time.Millisecond, true},
	} {
		longest := time.Duration(0)
		for seed := range uint64(some(1, 20)) {
			tune := func(cfg *Config) { cfg.Seed, cfg.Stay, cfg.Break = seed+1, true, c.rule }
			onStageTuned(t, c.regions, 1, tune, func(s *stage) {
				longest = max(longest, s.shortFirst(time.Duration(seed)*100*time.Millisecond, c.lost))
			})
		}
		t.Logf("%s: rows pause for %v", c.name, longest)
		if longest > c.most != c.late {
			t.Errorf("%s: rows pause for %v; at most %v is right", c.name, longest, c.most)
		}
	}
}

// TestLostTogether: one fault takes the leader of a group and the survivor that would stand first.
// The others do not wait for its turn (GRP-10).
func TestLostTogether(t *testing.T) {
	const lead, first = 1, 2
	g := base.DataGroup(1, lead)
	longest := map[bool]time.Duration{}
	for _, waits := range []bool{false, true} {
		for seed := range uint64(some(3, 20)) {
			tune := func(cfg *Config) { cfg.Seed, cfg.Stay, cfg.Break.FixedTurns = seed+1, true, waits }
			onStageTuned(t, 5, 1, tune, func(s *stage) {
				s.move(g, lead)
				time.Sleep(5*time.Second + time.Duration(seed)*70*time.Millisecond)
				began := time.Now()
				s.net.Isolate(lead)
				s.net.Isolate(first)
				elected := func(h *host) bool {
					n, _ := h.up().groupOf(g).Leader()
					return n == h.id && h.id > first
				}
				for !slices.ContainsFunc(s.hosts, elected) && time.Since(began) < 10*time.Second {
					time.Sleep(5 * time.Millisecond)
				}
				longest[waits] = max(longest[waits], time.Since(began))
				s.net.HealAll()
				time.Sleep(5 * time.Second)
			})
		}
	}
	t.Logf("a leader is elected after %v, and after %v if the one that is lost has its turn", longest[false], longest[true])
	if longest[true]-longest[false] < 400*time.Millisecond {
		t.Errorf("a leader is elected after %v, and after %v if the one that is lost has its turn", longest[false],
			longest[true])
	}
}
