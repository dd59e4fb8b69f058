package sim

import (
	"testing"
	"time"
)

// deafen has nothing arrive at a node. What it sends arrives.
func (s *stage) deafen(deaf *host) {
	for _, h := range s.hosts {
		if h != deaf {
			s.net.CutOneWay(h.region, deaf.region)
		}
	}
}

// TestDeafLeader: nothing arrives at the node that leads the meta group and the rows of its region,
// and what it sends does. It steps down as soon as it knows (GRP-15), and says that it serves no
// more (TIME-1c). Without the first rule it asks for leases until it is left, and without the
// second its successors wait for the newest of these.
func TestDeafLeader(t *testing.T) {
	const rowsAtMost, sharedAtMost = 2200 * time.Millisecond, 2800 * time.Millisecond
	for _, x := range []struct {
		name  string
		rule  Break
		right bool
	}{
		{"the rules", Break{}, true},
		{"without GRP-15", Break{StubbornLeaders: true}, false},
		{"without TIME-1b and TIME-1c", Break{NoRelease: true}, false},
		{"without any of these", Break{NoRelease: true, StubbornLeaders: true}, false},
	} {
		var rows, shared time.Duration
		for seed := range uint64(some(2, 20)) {
			tune := func(cfg *Config) {
				cfg.Seed, cfg.Stay, cfg.Break = seed+1, true, x.rule
				ab, bc, ac := 15*time.Millisecond, 30*time.Millisecond, 45*time.Millisecond
				cfg.Delay = [][]time.Duration{{0, ab, ac}, {ab, 0, bc}, {ac, bc, 0}}
			}
			onStageTuned(t, 3, 1, tune, func(s *stage) {
				a, b := s.strikeShared(time.Duration(seed)*150*time.Millisecond, s.deafen)
				rows, shared = max(rows, a), max(shared, b)
			})
		}
		t.Logf("%s: rows of the deaf node pause for %v, shared ones for %v", x.name, rows, shared)
		if ok := rows <= rowsAtMost && shared <= sharedAtMost; ok != x.right {
			t.Errorf("%s: at most %v and %v are right", x.name, rowsAtMost, sharedAtMost)
		}
	}
}
