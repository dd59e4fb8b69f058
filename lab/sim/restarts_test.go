package sim

import (
	"fmt"
	"testing"
)

// pickRestarts is a configuration of Pick whose nodes end, and start again, while the clock mode
// changes, more often than in other runs.
func pickRestarts(s uint64) Config {
	c := Pick(s)
	c.Kinds = []string{"restart", "crash node", "switch clock", "switch clock", "crash all", "isolate node", "clock jump"}
	c.Faults, c.Restarts = 10, true
	return c
}

// TestRestartSeeds runs a few seeds in which processes learn the clock mode anew while it changes,
// or the one given by -seed.
func TestRestartSeeds(t *testing.T) {
	if *flagSeed >= 0 {
		seed(t, pickRestarts(uint64(*flagSeed)))
		return
	}
	for _, s := range seeds([]uint64{0}, 1, 2, 3, 4, 5, 6, 7, 8, 9) {
		t.Run(fmt.Sprint(s), func(t *testing.T) { seed(t, pickRestarts(s)) })
	}
}

// TestRestartSoak runs as many of these seeds as asked for.
func TestRestartSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		t.Run(fmt.Sprint(*flagFirst+i), func(t *testing.T) { seed(t, pickRestarts(*flagFirst+i)) })
	}
}
