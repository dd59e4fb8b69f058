package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/history"
)

// brokenOrder are clusters that leave out one rule of timestamp ordering (docs/protocol.md T).
var brokenOrder = []struct {
	name string
	how  base.Concurrency
	rule Break
	tune func(*Config)
}{
	{"T2: nobody remembers what was read", base.ByTimestamp, Break{NoMarks: true}, nil},
	{"T2: nobody remembers what was read under another leader", base.ByTimestamp, Break{NoHeritage: true}, func(c *Config) {
		c.Kinds, c.Faults, c.Duration = []string{"transfer leader"}, 60, 60*time.Second
	}},
	{"T3: reads are not looked at again", base.ByTimestamp, Break{NoRefresh: true}, nil},
	{"T5: clocks that are ahead are not counted with", base.ByTimestamp, Break{NoDoubt: true}, nil},
	{"T8: timestamp managers are not asked", base.ByTimestampRelay, Break{NoManager: true}, nil},
}

// TestOrderBites: without one of its rules timestamp ordering makes histories that it must not, and the checker finds them.
func TestOrderBites(t *testing.T) {
	for _, b := range brokenOrder {
		t.Run(b.name, func(t *testing.T) {
			for s := range uint64(24) {
				cfg := orderConfig(s, b.how)
				cfg.Break = b.rule
				if b.tune != nil {
					b.tune(&cfg)
				}
				o, err := runSeed(t, cfg)
				var v *history.Violation
				if errors.As(err, &v) {
					t.Logf("seed %d rejected (%s): %.1000v", s, o.Summary(), v)
					return
				}
				t.Logf("seed %d passes the checkers of histories (%s), other errors: %v", s, o.Summary(), err)
			}
			t.Error("24 seeds pass")
		})
	}
}

// TestOrderBiteSeeds: the same clusters with all rules.
func TestOrderBiteSeeds(t *testing.T) {
	for _, b := range brokenOrder {
		t.Run(b.name, func(t *testing.T) {
			for s := range uint64(2) {
				cfg := orderConfig(s, b.how)
				if b.tune != nil {
					b.tune(&cfg)
				}
				if o, err := runSeed(t, cfg); err != nil {
					t.Errorf("seed %d (%s): %.2000v", s, o.Summary(), err)
				}
			}
		})
	}
}

// orderConfig is a small cluster, few rows, and clocks that differ by more than it takes to get anywhere.
func orderConfig(seed uint64, how base.Concurrency) Config {
	cfg := relayConfig(seed)
	cfg.Concurrency, cfg.Relay = how, 0
	cfg.Delay, cfg.ClockBound = even(3, 5*time.Millisecond), 30*time.Millisecond
	return cfg
}
