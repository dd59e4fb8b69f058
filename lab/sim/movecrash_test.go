package sim

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// way is how a row of region 2 gets to region 1.
type way struct {
	name  string
	at    int    // the gateway
	value string // of the row afterwards
	steps int    // messages between regions that it needs at least
	move  func(ctx context.Context, t kv.Txn, k base.Key) error
}

func lockToMove(ctx context.Context, t kv.Txn, k base.Key) error {
	_, err := t.Get(ctx, []base.Key{k}, kv.LockExclusive)
	t.Move(k, 1, kv.MoveOptions{})
	return err
}

var ways = []way{
	{"along with a write", 1, "new", 10, func(ctx context.Context, t kv.Txn, k base.Key) error {
		t.Put(k, []byte("new"), 0)
		return lockToMove(ctx, t, k)
	}},
	{"alone, by its owner", 2, "old", 6, lockToMove},
}

// TestCrashAtEveryStepOfAMove: the new owner, the old one or a third region dies as any message of
// a move is sent. No client has to wait until the region is back: a stand-in, which knows the
// outcome, serves its rows. Nothing acknowledged is lost, and when all are back they agree on one
// home.
func TestCrashAtEveryStepOfAMove(t *testing.T) {
	for _, w := range ways {
		for victim, role := range []string{"the new owner", "the old owner", "a third region"} {
			t.Run(w.name+", "+role+" dies", func(t *testing.T) {
				cfg := stageConfig(3)
				cfg.Stay = true
				onWorld(t, cfg, func(s *stage) {
					s.atHome()
					moved, stayed, step := 0, 0, 1
					for ; !t.Failed(); step++ {
						home, crashed := s.crashInMove(w, s.hosts[victim], step)
						if !crashed {
							break
						}
						if home == 1 {
							moved++
						} else {
							stayed++
						}
					}
					needed := victim == 1 || victim == w.at-1 // the old owner, and the gateway
					if step <= w.steps || moved == 0 || (stayed > 0) != needed {
						t.Errorf("%d steps, %d moves were made and %d were not", step-1, moved, stayed)
					}
					t.Logf("%d steps: %d moves made, %d not", step-1, moved, stayed)
				})
			})
		}
	}
}

// atHome waits until each region leads its own group.
func (s *stage) atHome() {
	s.t.Helper()
	for range 600 {
		n := 0
		for _, h := range s.hosts {
			if _, ok := h.up().node.Owners().Replica(base.DataGroup(1, h.region)).Serving(); ok {
				n++
			}
		}
		if n == len(s.hosts) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Error("a group is not led from its home")
}

// crashInMove plays a move, in which a host dies as the step-th message is sent. crashed is false
// if there were fewer messages. home is the row's home in the end.
func (s *stage) crashInMove(w way, victim *host, step int) (home base.RegionID, crashed bool) {
	k, say := s.key(2, step), func(format string, args ...any) {
		s.t.Helper()
		s.t.Errorf("step %d: %s", step, fmt.Sprintf(format, args...))
	}
	s.put(2, k, "old")
	time.Sleep(time.Second) // all replicas have the row

	var seen atomic.Int64
	died := make(chan struct{})
	s.net.Tap(func(m wan.Tapped) {
		if m.Kind != wire.KindHeartbeat && seen.Add(1) == int64(step) {
			go func() { // the message is on its way, or lost with its sender
				victim.crash()
				close(died)
			}()
		}
	})
	answered := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), liveBound)
		defer cancel()
		t := s.db(w.at).Begin(kv.Options{})
		err := w.move(ctx, t, k)
		if err == nil {
			_, err = t.Commit(ctx)
		}
		t.Rollback(context.Background())
		answered <- err
	}()
	select {
	case <-died:
	case err := <-answered:
		if err != nil {
			say("the move failed without a crash: %v", err)
		}
		answered <- err
		select { // its followers and the new owner learn of it
		case <-died:
		case <-time.After(120 * time.Millisecond):
			s.net.Tap(nil)
			return 1, false
		}
	}
	s.net.Tap(nil)
	var err error
	known := victim != s.hosts[w.at-1] // its client learns the outcome
	if known {
		err = <-answered
	} else {
		select {
		case err = <-answered: // the answer came before the crash
			known = err == nil
		default:
		}
	}
	// While it is down, the row is served, wherever it is at home.
	other := s.hosts[2]
	if other == victim {
		other = s.hosts[0]
	}
	found, took := s.use(say, other, k, "later")
	if took > failoverBound {
		say("the row was served after %v", took)
	}
	switch {
	case known && err == nil && found != w.value, known && err != nil && base.CodeOf(err) != base.CodeAmbiguous &&
		found != "old", found != w.value && found != "old":
		say("the row is %q, and the outcome was %v", found, err)
	}
	victim.boot()
	s.atHome()
	time.Sleep(time.Second) // it catches up
	for _, h := range s.hosts {
		rows, rerr := h.up().node.DB().Begin(kv.Options{ReadOnly: true}).Get(context.Background(), []base.Key{k}, kv.LockNone)
		switch {
		case rerr != nil:
			say("node %d: %v", h.id, rerr)
		case string(rows[0].Value) != "later":
			say("node %d reads %q", h.id, rows[0].Value)
		case home != 0 && rows[0].Home != home:
			say("the row is at home in region %d, and at node %d in region %d", home, h.id, rows[0].Home)
		}
		if rerr == nil {
			home = rows[0].Home
		}
	}
	if known && err == nil && home != 1 || w.value == "new" && (found == "new") != (home == 1) {
		say("the row is %q and at home in region %d, and the outcome was %v", found, home, err)
	}
	if found, took := s.use(say, victim, k, "last"); found != "later" || took > time.Second {
		say("the row was %q in the region that is back, after %v", found, took)
	}
	return home, true
}

// failoverBound is the time in which another node is elected and waits until the lost leader's
// lease has ended.
const failoverBound = 10 * time.Second

// use reads and writes a row, and returns the value read and the time it took.
func (s *stage) use(say func(string, ...any), h *host, k base.Key, v string) (found string, took time.Duration) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), liveBound)
	defer cancel()
	for ctx.Err() == nil {
		_, err := kv.Run(ctx, h.up().node.DB(), kv.Options{}, func(t kv.Txn) error {
			rows, err := t.Get(ctx, []base.Key{k}, kv.LockExclusive)
			if err != nil {
				return err
			}
			found = string(rows[0].Value)
			t.Put(k, []byte(v), 0)
			return nil
		})
		if err == nil {
			return found, time.Since(began)
		}
		if base.CodeOf(err) == base.CodeAmbiguous {
			say("%v", err)
			return found, time.Since(began)
		}
		time.Sleep(100 * time.Millisecond)
	}
	say("the row is not served")
	return found, time.Since(began)
}
