package sim

import "testing"

// TestLargeTransactions runs seeds in which all that commits under locks does so in pieces of one
// or two writes: with faults, moves of rows, splits of gaps, new leaders, and collection.
func TestLargeTransactions(t *testing.T) {
	run := seeds([]uint64{0, 2}, 1, 3, 4, 5, 6, 7)
	if *flagSeed >= 0 {
		run = []uint64{uint64(*flagSeed)}
	}
	for _, s := range run {
		largeSeed(t, s, s%3 == 2)
	}
}

// TestLargeSoak is TestLargeTransactions for many seeds: -first and -seeds, as TestSoak.
func TestLargeSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		largeSeed(t, *flagFirst+i, i%4 == 0)
	}
}

func largeSeed(t *testing.T, s uint64, sql bool) {
	cfg := Pick(s)
	if sql {
		cfg = PickSQL(s)
	}
	cfg.Pieces = 1 + int(s%2)
	seed(t, cfg)
}
