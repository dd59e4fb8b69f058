package sim

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/godwitdb/godwit/mechanism/wan/overlay"
)

// overlayConfig is a cluster whose messages travel over relays and fan-out proxies, with faults
// that hit those more often than other nodes.
func overlayConfig(seed uint64) Config {
	r := rand.New(rand.NewPCG(seed, 10))
	cfg := Pick(seed)
	if r.IntN(4) == 0 {
		cfg = PickSQL(seed)
	}
	cfg.Regions, cfg.NodesPerRegion = 3, 2+r.IntN(2)
	cfg.Delay = detours(r)
	cfg.Network = pickNetwork(r)
	cfg.Network.Window = min(cfg.Network.Window, cfg.Think*40)
	cfg.Jitter = min(cfg.Jitter, 3*time.Millisecond)
	if r.IntN(3) > 0 {
		cfg.Kinds = []string{"crash between", "crash between", "isolate between", "cut regions", "cut one way", "isolate region",
			"slow node", "delay", "loss", "crash region", "restart", "transfer leader", "move shard"}
		cfg.Faults += 4
	}
	return cfg
}

// TestOverlaySoak is TestOverlaySeeds for many seeds: -first and -seeds, as TestSoak.
func TestOverlaySoak(t *testing.T) {
	needsSeeds(t)
	for i := range uint64(*flagSeeds) {
		t.Run(fmt.Sprint(*flagFirst+i), func(t *testing.T) {
			cfg, began := overlayConfig(*flagFirst+i), time.Now()
			o, err := runSeed(t, cfg)
			if err != nil {
				t.Errorf("%s\nfaults:\n%s%s\n%v\nhistory and journal: %s", cfg.String(), o.Faults, o.Summary(), err, save(t, o))
			}
			if o.Refused != 0 {
				t.Errorf("%d messages came over more than one node", o.Refused)
			}
			t.Logf("%d messages over relays, %d to several nodes, %v; %s", o.Relayed, o.Shared,
				time.Since(began).Round(time.Millisecond), o.Summary())
		})
	}
}

// TestOverlaySeeds runs seeds in which consensus messages travel over relays and fan-out proxies,
// which crash, are cut off and become slow.
func TestOverlaySeeds(t *testing.T) {
	relayed, shared := uint64(0), uint64(0)
	for _, s := range seeds([]uint64{700, 701, 702}, 703, 704, 705) {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			cfg := Pick(s)
			// From the first region to the third, the way over the second is much shorter.
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

// detours makes the path between the first and the last region much longer than the way over the
// second.
func detours(r *rand.Rand) [][]time.Duration {
	near, far := 5*time.Millisecond+upTo(r, 10*time.Millisecond), 60*time.Millisecond+upTo(r, 60*time.Millisecond)
	return [][]time.Duration{{0, near, far}, {near, 0, near}, {far, near, 0}}
}
