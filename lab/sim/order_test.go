package sim

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestTimestampOrdering runs seeds in clusters that order by timestamps. (501: a write at an owner
// that does not know the clock mode yet.)
func TestTimestampOrdering(t *testing.T) {
	run := seeds([]uint64{501}, 0, 1, 2, 3, 4, 5)
	if *flagSeed >= 0 {
		run = []uint64{uint64(*flagSeed)}
	}
	for i, s := range run {
		orderedSeed(t, s, i%4 == 0)
	}
}

// TestOrderingSoak is TestTimestampOrdering for many seeds: -first and -seeds, as TestSoak.
func TestOrderingSoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		orderedSeed(t, *flagFirst+i, i%4 == 0)
	}
}

// orderedSeed runs a seed in clusters that order by timestamps, without and with timestamp
// managers; also through SQL if sql is set.
func orderedSeed(t *testing.T, s uint64, sql bool) {
	for _, c := range []base.Concurrency{base.ByTimestamp, base.ByTimestampRelay} {
		t.Run(fmt.Sprint(c, "/", s), func(t *testing.T) {
			cfg := Pick(s)
			cfg.Concurrency = c
			seed(t, cfg)
		})
		if !sql {
			continue
		}
		t.Run(fmt.Sprint(c, "/sql/", s), func(t *testing.T) {
			cfg := PickSQL(s)
			cfg.Concurrency = c
			seed(t, cfg)
		})
	}
}
