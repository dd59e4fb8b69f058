package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/history"
	"github.com/godwitdb/godwit/mechanism/clock"
)

// broken are clusters that break an assumption of the database, so thoroughly that nearly every
// seed is rejected. If all pass, the simulation is too weak: the fault does not occur any more, or
// no checker looks.
var broken = []struct {
	name string
	tune func(*Config)
}{
	{"clocks off by 1000 times their bound", func(c *Config) {
		c.ClockBound, c.Break.ClockBeyond, c.Kinds = time.Millisecond, 1000, []string{"clock step"}
		c.Delay, c.Jitter, c.Think, c.Clients, c.Keys = even(3, 3*time.Millisecond), 0, time.Millisecond, 4, 6
	}},
	{"locks that are not taken for other nodes", func(c *Config) {
		c.Break.RemoteLocks, c.Kinds, c.Faults = true, []string{"delay"}, 2
	}},
	{"disks that lose what they have synced", func(c *Config) {
		c.Break.LyingDisk, c.Kinds, c.Faults = true, []string{"crash all"}, 3
	}},
	{"closed timestamps told half a second early", func(c *Config) {
		c.Break.EarlyHeartbeats, c.Kinds, c.Faults = 500*time.Millisecond, []string{"delay"}, 4
	}},
}

func TestBites(t *testing.T) {
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			bites(t, func(s uint64) Config {
				cfg := Pick(s)
				// Three regions of one node, so that every break can show.
				cfg.Regions, cfg.NodesPerRegion, cfg.Workload, cfg.Keys = 3, 1, "mixed", 3
				cfg.Delay = even(3, 30*time.Millisecond)
				cfg.Clients = 2
				b.tune(&cfg)
				return cfg
			})
		})
	}
}

// biteSeeds is how many seeds may pass. The breaks above show in nearly every seed. Breaks that
// show seldom have scenarios of their own.
const biteSeeds = 8

// bites runs seeds of a broken cluster until the checkers of histories reject one.
func bites(t *testing.T, config func(seed uint64) Config) {
	t.Helper()
	for s := range uint64(biteSeeds) {
		o, err := runSeed(t, config(s))
		var v *history.Violation
		if errors.As(err, &v) {
			t.Logf("seed %d rejected (%s): %.1000v", s, o.Summary(), v)
			return
		}
		t.Logf("seed %d passes the checkers of histories (%s), other errors: %v", s, o.Summary(), err)
	}
	t.Errorf("%d seeds pass", biteSeeds)
}

// TestForgedAcknowledgements: all nodes acknowledge a clock mode, although one of them has not
// heard of it yet. It commits a transaction by its clock. A reader that begins afterwards, at a
// node in the new mode, misses that commit. Without the forgery no reader misses one.
func TestForgedAcknowledgements(t *testing.T) {
	for _, forged := range []bool{false, true} {
		t.Run(fmt.Sprintf("forged %v", forged), func(t *testing.T) {
			missed, reads := 0, 0
			cfg := stageConfig(3)
			cfg.ClockBound, cfg.Delay, cfg.Stay, cfg.Break.ForgedAcks = 50*time.Millisecond,
				even(3, time.Millisecond), true, forged
			onWorld(t, cfg, func(s *stage) {
				time.Sleep(15 * time.Second) // leaders go home
				// Another node changes the mode. The clock of the node that does not hear of it is
				// ahead of the others.
				s.move(base.MetaGroup, 1)
				for _, h := range s.hosts {
					h.clock.Set(0, 0, cfg.ClockBound)
				}
				s.hosts[len(s.hosts)-1].clock.Set(cfg.ClockBound*9/10, 0, cfg.ClockBound)
				time.Sleep(2 * time.Second)
				missed, reads = s.missedReads(len(s.hosts), 1)
			})
			t.Logf("%d of %d reads miss what was written before", missed, reads)
			if reads < 100 || forged != (missed > 0) {
				t.Errorf("%d of %d reads miss what was written before", missed, reads)
			}
		})
	}
}

// missedReads changes the clock mode to and fro while a row is written through one node and then
// read through another one, and counts the reads that do not see the write before them.
func (s *stage) missedReads(writer, reader int) (missed, reads int) {
	key := s.key(base.RegionID(writer), 1)
	for i := range 4 {
		s.setPolicy([]clock.Setting{clock.WantGTM, clock.WantGClock}[i%2])
		for end := time.Now().Add(6 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if seen, ok := s.writeThenRead(key, fmt.Sprint(reads, i), writer, reader); ok {
				if reads++; !seen {
					missed++
				}
			}
		}
	}
	return missed, reads
}

// writeThenRead writes a row through one node and then reads it through another one. seen says
// whether the read sees the write, and ok whether both succeeded.
func (s *stage) writeThenRead(key base.Key, value string, writer, reader int) (seen, ok bool) {
	const patience = 5 * time.Second
	if _, err := s.within(patience, s.hosts[writer-1], kv.Options{}, func(t kv.Txn) error {
		t.Put(key, []byte(value), 0)
		return nil
	}); err != nil {
		return false, false
	}
	_, err := s.within(patience, s.hosts[reader-1], kv.Options{ReadOnly: true}, func(t kv.Txn) error {
		rows, err := t.Get(context.Background(), []base.Key{key}, kv.LockNone)
		seen = err == nil && string(rows[0].Value) == value
		return err
	})
	return seen, err == nil
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
