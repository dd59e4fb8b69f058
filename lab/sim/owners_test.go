package sim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner/gauge"
)

// TestOneOwnerAtATime: the check accepts what owners may do, and nothing else.
func TestOneOwnerAtATime(t *testing.T) {
	const (
		read, lock, write = gauge.ReadService, gauge.LockService, gauge.WriteService
	)
	a, b, c := base.DataGroup(1, 1), base.DataGroup(1, 2), base.DataGroup(1, 3)
	type step struct {
		kind  gauge.ServiceKind
		group base.GroupID
		term  uint64
		since int
		at    int // of locking reads: the present
	}
	for _, x := range []struct {
		name  string
		steps []step
		bad   bool
	}{
		{"one owner", []step{{write, a, 1, 0, 5}, {read, a, 1, 5, 4}, {lock, a, 1, 5, 8}, {write, a, 1, 5, 9}}, false},
		{"a row moves, with a write", []step{{write, a, 1, 0, 5}, {write, a, 1, 5, 9}, {write, b, 1, 9, 12},
			{lock, b, 1, 12, 13}}, false},
		{"a row moves at the instant at which it was locked",
			[]step{{lock, a, 1, 5, 9}, {write, a, 1, 5, 9}, {lock, b, 1, 9, 9}}, false},
		{"a row moves at the timestamp at which it was shown", []step{{read, a, 1, 5, 9}, {lock, b, 1, 9, 10}}, true},
		{"it moves there and back", []step{{write, a, 1, 5, 9}, {write, b, 1, 9, 12}, {write, a, 1, 12, 20},
			{read, a, 1, 20, 7}}, false},
		{"it moves there and back, and the write between is heard of late",
			[]step{{write, a, 1, 5, 9}, {read, a, 1, 12, 20}, {write, b, 1, 9, 12}, {read, a, 1, 12, 21}}, false},
		{"the old owner goes on, and the new one is heard of late",
			[]step{{write, a, 1, 5, 9}, {read, a, 1, 9, 20}, {write, b, 1, 12, 15}}, true},
		{"the old owner shows the past", []step{{write, a, 1, 5, 9}, {write, b, 1, 9, 12}, {read, a, 1, 5, 8}}, false},
		{"the old owner shows the present", []step{{write, a, 1, 5, 9}, {write, b, 1, 9, 12}, {read, a, 1, 5, 10}}, true},
		{"the old owner locks", []step{{write, a, 1, 5, 9}, {lock, b, 1, 9, 12}, {lock, a, 1, 5, 13}}, true},
		{"the old owner writes", []step{{write, a, 1, 5, 9}, {lock, b, 1, 9, 12}, {write, a, 1, 5, 11}}, true},
		{"the new owner begins below what the old one showed", []step{{read, a, 1, 5, 10}, {write, b, 1, 9, 12}}, true},
		{"the new owner begins below what the old one wrote", []step{{write, a, 1, 5, 10}, {write, b, 1, 9, 12}}, true},
		{"the new owner begins below a locking read", []step{{lock, a, 1, 5, 10}, {lock, b, 1, 9, 12}}, true},
		{"one version names two owners", []step{{write, a, 1, 5, 9}, {lock, b, 1, 9, 12}, {lock, c, 1, 9, 13}}, true},
		{"a third owner begins within the second one's time",
			[]step{{write, a, 1, 5, 9}, {write, b, 1, 9, 20}, {write, c, 1, 15, 21}}, true},
		{"a new leader", []step{{write, a, 1, 0, 5}, {read, a, 1, 5, 8}, {write, a, 2, 5, 9}, {read, a, 1, 5, 8}}, false},
		{"a new leader writes below what was shown", []step{{read, a, 1, 5, 8}, {write, a, 2, 5, 8}}, true},
		{"an old leader shows what is above a write",
			[]step{{write, a, 1, 5, 8}, {write, a, 2, 8, 11}, {read, a, 1, 8, 12}}, true},
		{"an old leader locks", []step{{lock, a, 1, 5, 8}, {lock, a, 2, 5, 9}, {lock, a, 1, 5, 10}}, true},
	} {
		t.Run(x.name, func(t *testing.T) {
			var o owners
			key := base.AppendInt64(base.IndexPrefix(1, 100, 0, 0), 1)
			var got error
			for i, s := range x.steps {
				at := base.Timestamp(s.at) * base.Timestamp(time.Second)
				err := o.serves(gauge.Service{Kind: s.kind, Key: key, Group: s.group, Term: s.term, Found: true,
					Since: base.Timestamp(s.since) * base.Timestamp(time.Second), At: at}, at.Time())
				if err != nil && i < len(x.steps)-1 {
					t.Errorf("step %d: %v", i, err)
				}
				got = err
			}
			if (got != nil) != x.bad {
				t.Errorf("the last step gives %v", got)
			}
		})
	}
}

// TestOneOwnerOfAGap: a gap that was merged into an older one (HOME-4) seems to have belonged to
// that one's owner for longer than it did. That excuses services from before the tombstone can have
// been collected, but no later ones.
func TestOneOwnerOfAGap(t *testing.T) {
	key := base.AppendInt64(base.IndexPrefix(1, 100, 0, 0), 1)
	second := base.Timestamp(time.Second)
	for shown, bad := range map[base.Timestamp]bool{6: false, 12: true} {
		o := owners{age: 4 * time.Second}
		serve := func(g base.RegionID, since, at base.Timestamp) error {
			return o.serves(gauge.Service{Kind: gauge.OrderService, Key: key, Group: base.DataGroup(1, g), Term: 1,
				Since: since * second, At: at * second}, (at * second).Time())
		}
		if err := serve(1, 3, shown); err != nil {
			t.Fatal(err)
		}
		if err := serve(2, 14, 2); err != nil {
			t.Errorf("a gap of now, as of before: %v", err)
		}
		if err := serve(3, 4, 15); (err != nil) != bad {
			t.Errorf("shown by its former owner at %d s: %v", shown, err)
		}
	}
}

// TestOneOwnerBites: a leader is cut off while a client beside it goes on reading under locks, and
// another node is elected. If the leader's clock is wrong by far more than its bound, the successor
// believes that the lease has ended while the old leader still serves under it. The check must
// notice that, and must accept clocks within their bounds.
func TestOneOwnerBites(t *testing.T) {
	for _, behind := range []time.Duration{0, 900 * time.Millisecond} {
		t.Run(fmt.Sprintf("the clock is %v behind", behind), func(t *testing.T) {
			cfg := stageConfig(3)
			cfg.Break.ClockBeyond, cfg.Stay = 1000, true
			bubble(t, cfg.Seed, func(t *testing.T) {
				s := &stage{newWorld(cfg), t}
				for _, h := range s.hosts {
					h.clock.Set(0, 0, cfg.ClockBound)
					h.boot()
				}
				defer s.close()
				time.Sleep(15 * time.Second) // leaders go home
				s.deposed(behind)
				var e *twoOwners
				if found := errors.As(s.err(), &e); found != (behind > cfg.ClockBound) {
					t.Errorf("two owners found: %v: %v", found, s.err())
				}
			})
		})
	}
}

// TestEarlySuccessorBites: a new leader that waits for only half of its predecessor's lease serves
// beside it, however short leases are. The check must notice that.
func TestEarlySuccessorBites(t *testing.T) {
	for _, early := range []bool{false, true} {
		cfg := stageConfig(3)
		cfg.Break.EarlySuccessors, cfg.Stay = early, true
		bubble(t, cfg.Seed, func(t *testing.T) {
			s := &stage{newWorld(cfg), t}
			for _, h := range s.hosts {
				h.boot()
			}
			defer s.close()
			time.Sleep(15 * time.Second) // leaders go home
			s.deposed(0)
			var e *twoOwners
			if found := errors.As(s.err(), &e); found != early {
				t.Errorf("early: %v: two owners found: %v: %v", early, found, s.err())
			}
		})
	}
}

// deposed cuts off the leader of a group, whose clock is behind, until another node serves its
// rows.
func (s *stage) deposed(behind time.Duration) {
	const old, other = 1, 2
	key := s.key(old, 1)
	s.put(old, key, "v")
	s.move(base.DataGroup(1, old), old)
	s.hosts[old-1].clock.Set(-behind, 0, time.Second)
	time.Sleep(5 * time.Second) // new leases are taken by that clock
	s.net.Isolate(old)
	for _, h := range s.hosts {
		if h.id != old { // they need not find out that it is silent
			h.up().node.PeerDown(old)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	served := make([]int, 4)
	for _, n := range []int{old, other} {
		readers.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
				one, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
				t := s.db(n).Begin(kv.Options{})
				if _, err := t.Get(one, []base.Key{key}, kv.LockExclusive); err == nil {
					served[n]++
				}
				t.Rollback(ctx)
				cancel()
			}
		})
	}
	time.Sleep(20 * time.Second)
	stop()
	readers.Wait()
	s.net.Rejoin(old)
	if served[old] == 0 || served[other] == 0 {
		s.t.Errorf("the old leader served %d reads, its successor %d", served[old], served[other])
	}
}
