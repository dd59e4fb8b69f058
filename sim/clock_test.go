package sim

import (
	"testing"
)

// TestClockModes switches the clock mode back and forth, by hand and because clocks jump, while nodes crash, messages
// are lost and leads move at any step: histories stay strictly serializable, no acknowledged write is lost, and every
// switch ends.
func TestClockModes(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	steps := 0
	for s := range seeds {
		cfg := Pick(7000 + s)
		cfg.Kinds = []string{"switch clock", "switch clock", "switch clock", "clock jump", "clock step", "crash node", "isolate node", "isolate region", "loss", "transfer leader", "restart", "delay"}
		cfg.Faults = 14
		o, err := runSeed(t, cfg)
		if err != nil {
			t.Errorf("%s\nfaults:\n%s%s\n%s%v\nhistory and journal: %s", cfg.String(), o.Faults, o.Summary(), o.Kinds(), err, save(t, o))
			continue
		}
		steps += o.Steps
		t.Logf("seed %d: %s, %d steps of the clock mode", cfg.Seed, o.Summary(), o.Steps)
	}
	if steps < int(seeds) {
		t.Errorf("only %d steps of the clock mode in %d runs", steps, seeds)
	}
}
