package sim

import (
	"strings"
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
	committed := map[string]int{}
	for s := range uint64(some(16, 40)) {
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
		for _, kind := range []string{"program", "inserted", "deleted", "guarded"} {
			if n := o.bench.kinds[kind]; n != nil {
				committed[kind] += n[0]
			}
		}
		t.Logf("seed %d: programs committed, aborted, unknown: %v; %s", s, o.bench.kinds["program"], o.Summary())
		if o.ShipsLost != 0 {
			t.Errorf("seed %d: %d updates were not defined at their slots", s, o.ShipsLost)
		}
	}
	t.Logf("committed: %v", committed)
	if committed["program"] < 40 || committed["inserted"] < 5 || committed["deleted"] < 5 || committed["guarded"] < 5 {
		t.Errorf("committed in all runs: %v: they show little", committed)
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
		{"REL-14: inserts and deletes go by the copy", Break{BlindPrograms: true}},
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

// TestGuardsBite: guards that only the client looks at do not hold at the slots (REL-15).
func TestGuardsBite(t *testing.T) {
	for s := range uint64(biteSeeds) {
		cfg := programConfig(s)
		cfg.Break.LooseGuards = true
		o, err := runSeed(t, cfg)
		if err != nil && strings.Contains(err.Error(), "does not hold at the slot") {
			t.Logf("seed %d (%s): %.300v", s, o.Summary(), err)
			return
		}
	}
	t.Errorf("%d seeds pass", biteSeeds)
}
