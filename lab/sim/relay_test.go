package sim

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/lab/history"
)

// brokenRelay are clusters that leave out one rule of how transactions cross regions without locks
// (docs/protocol.md, REL).
var brokenRelay = []struct {
	name string
	rule Break
}{
	{"REL-3: what was read in other regions is not validated", Break{UntoldReads: true}},
	{"REL-4: readers are not bound by slots ahead", Break{NoBounds: true}},
	{"the paper's Algorithm 1, literally: every region applies its piece on its own", Break{OwnSlots: 60 * time.Millisecond}},
}

// relaySeeds is how many seeds may pass: about one in three is rejected without REL-4.
const relaySeeds = 24

// TestRelayBites: without one of its rules the protocol makes histories that the definition of
// Relay (section 3.1) forbids, and the checker finds them.
func TestRelayBites(t *testing.T) {
	for _, b := range brokenRelay {
		t.Run(b.name, func(t *testing.T) {
			for s := range uint64(relaySeeds) {
				cfg := relayConfig(s)
				cfg.Break = b.rule
				o, _ := runSeed(t, cfg)
				if err := o.History.Validate(); err != nil {
					t.Fatal(err)
				}
				if v := history.RelayConsistent(o.grouped(o.canonical())); v != nil {
					t.Logf("seed %d rejected (%s): %.1000v", s, o.Summary(), v)
					return
				}
				t.Logf("seed %d passes (%s)", s, o.Summary())
			}
			t.Errorf("%d seeds pass", relaySeeds)
		})
	}
}

// relayConfig is a small cluster, few rows, and transactions that all cross without locks where
// they cross.
func relayConfig(seed uint64) Config {
	cfg := Pick(seed)
	cfg.Regions, cfg.NodesPerRegion, cfg.Shards, cfg.Workload, cfg.Keys, cfg.Clients = 3, 1, 1, "mixed", 2, 4
	cfg.Delay, cfg.Jitter, cfg.Loss = even(3, 20*time.Millisecond), 0, 0
	cfg.Relay, cfg.Moves, cfg.NoWait, cfg.Think = 100, 0, 0, 5*time.Millisecond
	cfg.ClockBound, cfg.SyncDelay = 100*time.Microsecond, 200*time.Microsecond
	cfg.Kinds, cfg.Faults = []string{"delay"}, 1
	return cfg
}

// shippingConfig has updates shipped, and rows that move.
func shippingConfig(cfg Config) Config {
	cfg.Ships, cfg.Moves, cfg.ShipOnly = 100, 20, true
	return cfg
}

// TestShippedUpdates: updates left to their owners, with faults, moves of rows and new leaders.
func TestShippedUpdates(t *testing.T) {
	shipped := 0
	for s := range uint64(8) {
		cfg := shippingConfig(relayConfig(s))
		cfg.Kinds, cfg.Faults = []string{"crash node", "isolate node", "isolate region", "transfer leader", "loss", "delay"}, 6
		o, err := runSeed(t, cfg)
		if err != nil {
			t.Errorf("seed %d (%s): %.2000v\nsee %s", s, o.Summary(), err, save(t, o))
		}
		t.Logf("seed %d: %d shipped, %d writers waited for them, %s", s, o.Shipped, o.ShipWaits, o.Summary())
		if shipped += o.Shipped; o.ShipsLost != 0 {
			t.Errorf("seed %d: %d updates were not defined at their slots", s, o.ShipsLost)
		}
	}
	if shipped < 100 {
		t.Errorf("%d updates were shipped in all runs: they show little", shipped)
	}
}

// TestRelaySeeds: the same clusters with all rules.
func TestRelaySeeds(t *testing.T) {
	for s := range uint64(4) {
		o, err := runSeed(t, relayConfig(s))
		if err != nil {
			t.Errorf("seed %d (%s): %.2000v", s, o.Summary(), err)
		}
	}
}
