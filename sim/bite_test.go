package sim

import (
	"errors"
	"testing"
	"time"

	"github.com/godwitdb/godwit/clock"
	"github.com/godwitdb/godwit/history"
)

// broken are clusters that break a promise which the database rests on. If one passes, the
// simulation has lost its bite: the fault does not occur any more, or nobody looks.
var broken = []struct {
	name  string
	seeds uint64 // one of eight times so many must be rejected: goroutine order is not seeded
	tune  func(*Config)
}{
	{"clocks off by 1000 times their bound", 3, func(c *Config) {
		c.ClockBound, c.Break.ClockBeyond, c.Kinds = time.Millisecond, 1000, []string{"clock step"}
		c.Delay, c.Jitter, c.Think, c.Clients, c.Keys = even(3, 3*time.Millisecond), 0, time.Millisecond, 4, 6
	}},
	{"locks that are not taken for other nodes", 3, func(c *Config) {
		c.Break.RemoteLocks, c.Kinds, c.Faults = true, []string{"delay"}, 2
	}},
	{"disks that lose what they have synced", 4, func(c *Config) {
		c.Break.LyingDisk, c.Kinds, c.Faults = true, []string{"crash all"}, 3
	}},
	{"nodes that say that they have taken over a clock mode of which they have not heard", 4, func(c *Config) {
		c.Break.ForgedAcks, c.ClockBound, c.Duration = true, 50*time.Millisecond, 30*time.Second
		c.Delay, c.Jitter, c.Think, c.Clients, c.Keys = even(3, time.Millisecond), 0, time.Millisecond, 4, 6
		c.play = func(w *world) {
			for i := range 8 {
				w.setPolicy([]clock.Setting{clock.WantGTM, clock.WantGClock}[i%2])
				time.Sleep(6 * time.Second)
			}
		}
	}},
	{"closed timestamps told half a second early", 4, func(c *Config) {
		c.Break.EarlyPulses, c.Kinds, c.Faults = 500*time.Millisecond, []string{"delay"}, 4
	}},
}

func TestBites(t *testing.T) {
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			for s := range 8 * b.seeds {
				cfg := Pick(s)
				// Three regions of one node, so that every break can show.
				cfg.Regions, cfg.NodesPerRegion, cfg.Workload, cfg.Keys = 3, 1, "mixed", 3
				cfg.Delay = even(3, 30*time.Millisecond)
				cfg.Clients = 2
				b.tune(&cfg)
				o, err := runSeed(t, cfg)
				var v *history.Violation
				if errors.As(err, &v) {
					t.Logf("seed %d rejected (%s): %.1000v", s, o.Summary(), v)
					return
				}
				t.Logf("seed %d passes the checkers of histories (%s), other errors: %v", s, o.Summary(), err)
			}
			t.Errorf("%d seeds pass", 8*b.seeds)
		})
	}
}

// even is a world of equal distances.
func even(n int, oneWay time.Duration) [][]time.Duration {
	out := make([][]time.Duration, n)
	for i := range out {
		out[i] = make([]time.Duration, n)
		for j := range n {
			if i != j {
				out[i][j] = oneWay
			}
		}
	}
	return out
}
