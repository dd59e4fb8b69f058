package sim

import (
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/overlay"
)

// TestOverlaySeeds runs seeds in which consensus messages travel over relays and doors, which crash, are cut off and become slow.
func TestOverlaySeeds(t *testing.T) {
	relayed, shared := uint64(0), uint64(0)
	for _, s := range []uint64{700, 701, 702, 703, 704, 705} {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			cfg := Pick(s)
			// The way from the first region to the third is much shorter over the second.
			ms := time.Millisecond
			cfg.Regions, cfg.NodesPerRegion = 3, 2
			cfg.Delay = [][]time.Duration{{0, 10 * ms, 80 * ms}, {10 * ms, 0, 15 * ms}, {80 * ms, 15 * ms, 0}}
			cfg.Network = overlay.Params{Relay: true, FanOut: true, Window: cfg.Think * 20}
			cfg.Kinds = []string{"crash node", "cut regions", "cut one way", "isolate node", "slow node", "delay", "crash region"}
			o, err := runSeed(t, cfg)
			if err != nil {
				t.Errorf("%s\nfaults:\n%s%s\n%v\nhistory and journal: %s", cfg.String(), o.Faults, o.Summary(), err, save(t, o))
			}
			if o.Refused != 0 {
				t.Errorf("%d messages came over more than one node", o.Refused)
			}
			t.Logf("%d messages over relays, %d to several nodes", o.Relayed, o.Shared)
			relayed += o.Relayed
			shared += o.Shared
		})
	}
	if relayed == 0 || shared == 0 {
		t.Errorf("%d messages over relays, %d to several nodes: the seeds miss what they are for", relayed, shared)
	}
}
