package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
)

// brokenOrder are clusters that leave out one rule of timestamp ordering (docs/protocol.md, ORD),
// so thoroughly that every seed must be rejected.
var brokenOrder = []struct {
	name string
	how  base.Concurrency
	rule Break
}{
	{"ORD-2: nobody remembers what was read", base.ByTimestamp, Break{NoMarks: true}},
	{"ORD-3: reads are not looked at again", base.ByTimestamp, Break{NoRefresh: true}},
	{"ORD-8: timestamp managers are not asked", base.ByTimestampRelay, Break{NoManager: true}},
}

// TestOrderBites: without one of its rules timestamp ordering produces forbidden histories, and the
// checker finds them.
func TestOrderBites(t *testing.T) {
	for _, b := range brokenOrder {
		t.Run(b.name, func(t *testing.T) {
			bites(t, func(s uint64) Config {
				cfg := orderConfig(s, b.how)
				cfg.Break = b.rule
				return cfg
			})
		})
	}
}

// TestOrderBiteSeeds: the same clusters with all rules.
func TestOrderBiteSeeds(t *testing.T) {
	for _, how := range []base.Concurrency{base.ByTimestamp, base.ByTimestampRelay} {
		for s := range uint64(some(2, 8)) {
			cfg := orderConfig(s, how)
			if o, err := runSeed(t, cfg); err != nil {
				t.Errorf("%v, seed %d (%s): %.2000v", how, s, o.Summary(), err)
			}
		}
	}
}

// TestMarksOutliveLeaders: reads under one leader bind the next one (ORD-2). The reader's clock is
// ahead and that of the next leader behind, both within their bounds. So without the transferred
// state a write under the next leader gets a timestamp below the read, and the reader's snapshot
// changes.
func TestMarksOutliveLeaders(t *testing.T) {
	const off = 190 * time.Millisecond
	for _, forgets := range []bool{false, true} {
		t.Run(fmt.Sprintf("forgets %v", forgets), func(t *testing.T) {
			cfg := stageConfig(3)
			cfg.ClockBound, cfg.Delay, cfg.Stay, cfg.Concurrency = off+10*time.Millisecond, even(3, time.Millisecond),
				true, base.ByTimestamp
			cfg.Break.NoTransferredState = forgets
			changed := 0
			bubble(t, cfg.Seed, func(t *testing.T) {
				s := &stage{newWorld(cfg), t}
				for _, h := range s.hosts {
					h.boot()
				}
				defer s.close()
				time.Sleep(15 * time.Second) // leaders go home
				s.put(1, s.key(1, 1), "first")
				s.hosts[0].clock.Set(off, 0, cfg.ClockBound)
				s.hosts[1].clock.Set(-off, 0, cfg.ClockBound)
				for i := range 8 {
					if s.changedSnapshot(1, 2, fmt.Sprint(i)) {
						changed++
					}
				}
				var e *twoOwners
				if found := errors.As(s.err(), &e); found != forgets {
					t.Errorf("two leaders at a time: %v: %v", found, s.err())
				}
			})
			t.Logf("%d of 8 snapshots change", changed)
			if forgets != (changed > 0) {
				t.Errorf("%d of 8 snapshots change", changed)
			}
		})
	}
}

// TestClocksAheadAreCountedWith: a reader whose clock is behind that of an earlier writer still
// sees the write (ORD-5). Without that rule it does not.
func TestClocksAheadAreCountedWith(t *testing.T) {
	const off, writes = 190 * time.Millisecond, 50
	for _, ignored := range []bool{false, true} {
		t.Run(fmt.Sprintf("ignored %v", ignored), func(t *testing.T) {
			cfg := stageConfig(3)
			cfg.ClockBound, cfg.Delay, cfg.Stay, cfg.Concurrency = off+10*time.Millisecond, even(3, time.Millisecond),
				true, base.ByTimestamp
			cfg.Break.NoDoubt = ignored
			missed := 0
			onWorld(t, cfg, func(s *stage) {
				time.Sleep(15 * time.Second) // leaders go home
				s.hosts[0].clock.Set(off, 0, cfg.ClockBound)
				s.hosts[1].clock.Set(-off, 0, cfg.ClockBound)
				time.Sleep(2 * time.Second)
				for i := range writes {
					seen, ok := s.writeThenRead(s.key(1, 1), fmt.Sprint(i), 1, 2)
					if !ok {
						s.t.Errorf("write or read %d fails", i)
					} else if !seen {
						missed++
					}
				}
			})
			t.Logf("%d of %d reads miss the write before them", missed, writes)
			if ignored != (missed > 0) {
				t.Errorf("%d of %d reads miss the write before them", missed, writes)
			}
		})
	}
}

// changedSnapshot reads a row at one node, moves the lead of its group to another node, and writes
// the row there. It reports whether the snapshot that was read has changed.
func (s *stage) changedSnapshot(reader, next base.NodeID, value string) bool {
	group, key := base.DataGroup(1, base.RegionID(reader)), s.key(base.RegionID(reader), 1)
	s.move(group, reader)
	time.Sleep(2 * time.Second)
	var at base.Timestamp
	read := func(o kv.Options) (shown string) {
		_, err := s.within(5*time.Second, s.hosts[reader-1], o, func(t kv.Txn) error {
			rows, err := t.Get(context.Background(), []base.Key{key}, kv.LockNone)
			if err == nil {
				shown, at = string(rows[0].Value), t.ReadTimestamp()
			}
			return err
		})
		if err != nil {
			s.t.Error(err)
		}
		return shown
	}
	before := read(kv.Options{ReadOnly: true})
	s.move(group, next)
	s.put(int(next), key, value)
	time.Sleep(time.Second)
	return read(kv.Options{ReadOnly: true, ReadTS: at}) != before
}

// orderConfig is a small cluster with few rows, and with clocks that differ by more than a message
// takes.
func orderConfig(seed uint64, how base.Concurrency) Config {
	cfg := relayConfig(seed)
	cfg.Concurrency, cfg.Relay = how, 0
	cfg.Delay, cfg.ClockBound = even(3, 5*time.Millisecond), 30*time.Millisecond
	return cfg
}
