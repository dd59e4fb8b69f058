package sim

import (
	"testing"
	"time"
)

// programConfig has programs beside all other kinds of transactions, on few rows.
func programConfig(seed uint64) Config {
	cfg := relayConfig(seed)
	cfg.Ships, cfg.Programs = 100, 60
	return cfg
}

// TestPrograms runs programs, in every other run with faults, moves of rows and new leaders.
func TestPrograms(t *testing.T) {
	committed := 0
	for s := range uint64(some(4, 20)) {
		cfg := programConfig(s)
		if s%2 == 1 { // else most commit
			cfg.Moves = 5
			cfg.Kinds = []string{"crash node", "isolate node", "isolate region", "transfer leader", "loss", "delay"}
			cfg.Faults = 6
		}
		o, err := runSeed(t, cfg)
		if err != nil {
			t.Errorf("seed %d (%s): %.2000v\nsee %s", s, o.Summary(), err, save(t, o))
		}
		n := o.bench.kinds["program"]
		t.Logf("seed %d: programs committed, aborted, unknown: %v; %s", s, n, o.Summary())
		if n != nil {
			committed += n[0]
		}
		if o.ShipsLost != 0 {
			t.Errorf("seed %d: %d updates were not defined at their slots", s, o.ShipsLost)
		}
	}
	if committed < 40 {
		t.Errorf("%d programs have committed in all runs: they show little", committed)
	}
}

// TestProgramsBite: without one of their rules programs produce forbidden histories, and the
// checkers find them.
func TestProgramsBite(t *testing.T) {
	for _, b := range []struct {
		name string
		rule Break
	}{
		{"REL-9d: nobody waits for what commits below the slot", Break{LateWriters: true}},
		{"REL-12: programs read before their slots", Break{EarlyPrograms: 200 * time.Millisecond}},
		{"REL-13: slots are equal", Break{SameSlots: 100 * time.Millisecond}},
	} {
		t.Run(b.name, func(t *testing.T) {
			bites(t, func(s uint64) Config {
				cfg := programConfig(s)
				cfg.Break = b.rule
				return cfg
			})
		})
	}
}
