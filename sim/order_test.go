package sim

import (
	"fmt"
	"testing"

	"github.com/godwitdb/godwit/base"
)

// TestTimestampOrdering runs seeds in clusters that order by timestamps. (501: a write at an owner that does not know the clock mode yet.)
func TestTimestampOrdering(t *testing.T) {
	seeds := []uint64{0, 1, 2, 3, 4, 5, 501}
	if *flagSeed >= 0 {
		seeds = []uint64{uint64(*flagSeed)}
	}
	if flagGiven("seeds") {
		seeds = nil
		for i := range uint64(*flagSeeds) {
			seeds = append(seeds, *flagFirst+i)
		}
	}
	for i, s := range seeds {
		for _, c := range []base.Concurrency{base.ByTimestamp, base.ByTimestampRelay} {
			t.Run(fmt.Sprint(c, "/", s), func(t *testing.T) {
				cfg := Pick(s)
				cfg.Concurrency = c
				seed(t, cfg)
			})
			if i%4 == 0 {
				t.Run(fmt.Sprint(c, "/sql/", s), func(t *testing.T) {
					cfg := PickSQL(s)
					cfg.Concurrency = c
					seed(t, cfg)
				})
			}
		}
	}
}
