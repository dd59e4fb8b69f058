package sim

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/lab/history"
)

// TestRelayBites: without one of its rules (docs/protocol.md, REL) the protocol lets happen what
// the definition of Relay (section 3.1) forbids, and the checker finds it. With the rule it does
// not happen.
func TestRelayBites(t *testing.T) {
	for _, b := range []struct {
		name string
		rule Break
		play func(*stage) *history.History
	}{
		{"REL-3: what was read in other regions is not validated", Break{UntoldReads: true}, (*stage).writeSkew},
		{"the paper's Algorithm 1, literally: every region applies its piece on its own",
			Break{OwnSlots: time.Second}, (*stage).halfApplied},
	} {
		for _, broken := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s: broken %v", b.name, broken), func(t *testing.T) {
				cfg := stageConfig(3)
				if broken {
					cfg.Break = b.rule
				}
				onWorld(t, cfg, func(s *stage) {
					time.Sleep(15 * time.Second) // leaders go home
					h := b.play(s)
					if err := h.Validate(); err != nil {
						t.Fatal(err)
					}
					if v := history.RelayConsistent(h); (v != nil) != broken {
						t.Errorf("the checker says: %v\n%v", v, h.Txns)
					}
				})
			})
		}
	}
}

// recorded is a transaction that a history records.
type recorded struct {
	s   *stage
	x   kv.Txn
	act *history.Active
}

func (s *stage) record(rec *history.Recorder, client, at int, o kv.Options, touches ...string) *recorded {
	a := rec.Begin(client, fmt.Sprintf("r%d", at))
	a.Touch(touches...)
	return &recorded{s, s.db(at).Begin(o), a}
}

func (r *recorded) get(k base.Key, name string, lock kv.LockMode) {
	r.s.t.Helper()
	rows, err := r.x.Get(context.Background(), []base.Key{k}, lock)
	if err != nil {
		r.s.t.Fatal(err)
	}
	r.act.Read(name, string(rows[0].Value))
}

func (r *recorded) put(k base.Key, name, v string) {
	r.x.Put(k, []byte(v), 0)
	r.act.Write(name, v)
}

func (r *recorded) commit() {
	ts, err := r.x.Commit(context.Background())
	if err != nil {
		r.x.Rollback(context.Background())
		r.act.Abort()
		return
	}
	r.act.Commit(uint64(ts))
}

// twoRegions are a row of region 1 and a row of region 2, and a history of them.
func (s *stage) twoRegions() (near, far base.Key, rec *history.Recorder) {
	near, far = s.key(1, 1), s.key(2, 1)
	rec = history.NewRecorder(func() int64 { return time.Now().UnixNano() })
	rec.SetInit(map[string]string{"near": "old1", "far": "old2"})
	s.put(1, near, "old1")
	s.put(2, far, "old2")
	time.Sleep(time.Second)
	return near, far, rec
}

// writeSkew has two transactions each read the other region's row, and then write their own.
func (s *stage) writeSkew() *history.History {
	near, far, rec := s.twoRegions()
	x := s.record(rec, 1, 2, kv.Options{Relay: true}, "r1", "r2")
	y := s.record(rec, 2, 1, kv.Options{Relay: true}, "r1", "r2")
	x.get(near, "near", kv.LockShared)
	y.get(far, "far", kv.LockShared)
	x.put(far, "far", "new2")
	x.commit()
	y.put(near, "near", "new1")
	y.commit()
	return rec.History()
}

// halfApplied has a transaction write in both regions. As soon as it is answered, its client reads
// both rows.
func (s *stage) halfApplied() *history.History {
	near, far, rec := s.twoRegions()
	x := s.record(rec, 1, 2, kv.Options{Relay: true}, "r1", "r2")
	x.get(near, "near", kv.LockShared)
	x.get(far, "far", kv.LockShared)
	x.put(near, "near", "new1")
	x.put(far, "far", "new2")
	x.commit()
	y := s.record(rec, 1, 2, kv.Options{ReadOnly: true}, "r1", "r2")
	y.get(near, "near", kv.LockNone)
	y.get(far, "far", kv.LockNone)
	y.commit()
	return rec.History()
}

// TestBoundBites: without REL-4 a transaction of one region sees one row as of before a slot, and
// another row as of after it. The checker finds that. With the rule the transaction is aborted.
func TestBoundBites(t *testing.T) {
	for _, late := range []bool{false, true} {
		for _, unbound := range []bool{false, true} {
			t.Run(fmt.Sprintf("reads after the vote %v, unbound %v", late, unbound), func(t *testing.T) {
				cfg := stageConfig(3)
				cfg.Break.NoBounds = unbound
				onWorld(t, cfg, func(s *stage) {
					time.Sleep(15 * time.Second) // leaders go home
					h := s.besideSlot(late)
					if err := h.Validate(); err != nil {
						t.Fatal(err)
					}
					crossing, reading := &h.Txns[0], &h.Txns[1]
					if crossing.Outcome != history.Committed || (reading.Outcome == history.Committed) != unbound {
						t.Errorf("%v\n%v", crossing, reading)
					}
					if v := history.RelayConsistent(h); (v != nil) != unbound {
						t.Errorf("the checker says: %v", v)
					}
				})
			})
		}
	}
}

// besideSlot makes region 2 change two rows of region 1, and one of its own, at a slot. A
// transaction of region 1 reads the first row before the slot, and the second one after the slot.
// With late, the first read follows the vote of region 1; otherwise it precedes all messages.
func (s *stage) besideSlot(late bool) *history.History {
	ctx := context.Background()
	first, second, d, far := s.key(1, 1), s.key(1, 2), s.key(1, 3), s.key(2, 1)
	names := map[string]string{string(first): "first", string(second): "second", string(far): "far", string(d): "d"}
	rec := history.NewRecorder(func() int64 { return time.Now().UnixNano() })
	rec.SetInit(map[string]string{"first": "old1", "second": "old2", "far": "old3"})
	s.put(1, first, "old1")
	s.put(1, second, "old2")
	s.put(2, far, "old3")
	time.Sleep(time.Second)

	put := func(x kv.Txn, a *history.Active, k base.Key, v string) {
		x.Put(k, []byte(v), 0)
		a.Write(names[string(k)], v)
	}
	get := func(x kv.Txn, a *history.Active, k base.Key) error {
		rows, err := x.Get(ctx, []base.Key{k}, kv.LockShared)
		if err == nil {
			a.Read(names[string(k)], string(rows[0].Value))
		}
		return err
	}
	commit := func(x kv.Txn, a *history.Active) {
		ts, err := x.Commit(ctx)
		if err != nil {
			x.Rollback(ctx)
			a.Abort()
			return
		}
		a.Commit(uint64(ts))
	}
	crossing, reading := rec.Begin(1, "r2"), rec.Begin(2, "r1")
	crossing.Touch("r1", "r2")
	over := make(chan struct{})
	cross := func() {
		defer close(over)
		x := s.db(2).Begin(kv.Options{Relay: true})
		for _, k := range []base.Key{first, second, far} {
			if err := get(x, crossing, k); err != nil {
				s.t.Error(err)
			}
		}
		put(x, crossing, first, "new1")
		put(x, crossing, second, "new2")
		put(x, crossing, far, "new3")
		commit(x, crossing)
	}
	if late {
		go cross()
		s.awaitVote(base.DataGroup(1, 1))
	}
	x := s.db(1).Begin(kv.Options{})
	if err := get(x, reading, first); err != nil {
		s.t.Error(err)
	}
	if !late {
		go cross()
	}
	<-over
	if err := get(x, reading, second); err != nil {
		x.Rollback(ctx)
		reading.Abort()
		return rec.History()
	}
	put(x, reading, d, "seen")
	commit(x, reading)
	return rec.History()
}

// awaitVote waits until a transaction has voted in a group.
func (s *stage) awaitVote(g base.GroupID) {
	for range 1000 {
		for _, h := range s.hosts {
			for _, x := range h.up().node.Owners().Replica(g).Txns() {
				if x.TS != 0 {
					return
				}
			}
		}
		time.Sleep(time.Millisecond)
	}
	s.t.Errorf("nobody votes in group %v", g)
}

// relayConfig is a small cluster with few rows. All cross-region transactions run without locks.
func relayConfig(seed uint64) Config {
	cfg := Pick(seed)
	cfg.Regions, cfg.NodesPerRegion, cfg.Shards, cfg.Workload, cfg.Keys, cfg.Clients = 3, 1, 1, "mixed", 2, 4
	cfg.Delay, cfg.Jitter, cfg.Loss = even(3, 20*time.Millisecond), 0, 0
	cfg.Relay, cfg.Moves, cfg.NoWait, cfg.Think = 100, 0, 0, 5*time.Millisecond
	cfg.ClockBound, cfg.SyncDelay = 100*time.Microsecond, 200*time.Microsecond
	cfg.Kinds, cfg.Faults = []string{"delay"}, 1
	return cfg
}

// shippingConfig adds shipped updates, and rows that move.
func shippingConfig(cfg Config) Config {
	cfg.Ships, cfg.Moves, cfg.ShipOnly = 100, 20, true
	return cfg
}

// TestShippedUpdates runs updates that are shipped to their owners, with faults, moves of rows and
// new leaders.
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
