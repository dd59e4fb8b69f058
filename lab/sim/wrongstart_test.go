package sim

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/wire"
)

// TestWrongClockAtStart: a node starts with a clock that is far off, at every phase of the others'
// heartbeats. Nothing that any node says or has seen lies ahead because of it, the other regions'
// rows are written all the time, and soon after the clock was corrected all serve (MODE-9).
func TestWrongClockAtStart(t *testing.T) {
	offs := []time.Duration{90 * time.Second, -90 * time.Second, time.Hour}
	for i := range some(5, 60) {
		w := &wrongStart{off: offs[i%3], phase: time.Duration(i*37%100) * time.Millisecond, mode: clock.Auto}
		if i%4 == 3 {
			w.mode = clock.WantGClock
		}
		onStageOf(t, 3, 1, time.Hour, w.play)
		if w.wrong != "" {
			t.Fatalf("off by %v, phase %v, %v: %s", w.off, w.phase, w.mode, w.wrong)
		}
	}
}

// TestUnprovenClockBites: without MODE-9 a clock that is fast at the start lifts what others see.
func TestUnprovenClockBites(t *testing.T) {
	w := &wrongStart{off: 90 * time.Second, mode: clock.Auto}
	onStageTuned(t, 3, 1, func(c *Config) { c.Break.NoProof = true }, w.play)
	if w.wrong == "" {
		t.Error("nobody notices a clock that is used before it is confirmed")
	}
}

// wrongStart is a start with a wrong clock.
type wrongStart struct {
	off, phase time.Duration
	mode       clock.Setting

	mu    sync.Mutex
	wrong string // the first thing that went wrong
}

func (w *wrongStart) errorf(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wrong == "" {
		w.wrong = fmt.Sprintf(format, args...)
	}
}

func (w *wrongStart) failed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrong != ""
}

// tolerated is how far ahead of true time a timestamp may be that does not come from a wrong clock:
// what the meta group closes ahead, and a lease.
const tolerated = 5 * time.Second

func (w *wrongStart) play(s *stage) {
	s.setPolicy(w.mode)
	for _, h := range s.hosts {
		s.put(int(h.id), s.key(h.region, 1), "before")
	}
	bad := s.hosts[1]
	bad.crash()
	bad.clock.Jump(w.off)
	time.Sleep(10*time.Second - s.now()%(100*time.Millisecond) + w.phase)
	w.listen(s)
	bad.boot()
	for end := time.Now().Add(10 * time.Second); !w.failed() && time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		for _, h := range s.hosts {
			if c := h.up().node.Cluster().Clock(); time.Until(c.Seen) > tolerated {
				w.errorf("node %d has seen a timestamp %v ahead", h.id, time.Until(c.Seen))
			}
			if h != bad {
				w.write(s, h)
			}
		}
	}
	bad.clock.Set(0, 0, s.cfg.ClockBound)
	if w.failed() {
		return
	}
	time.Sleep(10 * time.Second)
	for _, h := range s.hosts {
		w.write(s, h)
	}
	s.setPolicy(clock.Auto)
	s.checkClocks()
	s.spy.Store(nil)
}

// write has a node write a row of its region.
func (w *wrongStart) write(s *stage, h *host) {
	key := s.key(h.region, 1)
	if _, err := s.within(3*time.Second, h, kv.Options{},
		func(t kv.Txn) error { t.Put(key, []byte("x"), 0); return nil }); err != nil {
		w.errorf("a write through node %d at %v: %v", h.id, s.now(), err)
	}
}

// listen looks at what all nodes say in heartbeats.
func (w *wrongStart) listen(s *stage) {
	spy := func(from, to base.NodeID, kind wire.Kind, body []byte) bool {
		var m wire.Heartbeat
		if kind != wire.KindHeartbeat || m.UnmarshalVT(body) != nil {
			return false
		}
		ahead := func(ts uint64) bool { return base.Timestamp(ts) > base.FromTime(time.Now()).Add(tolerated) }
		wrong := ahead(m.Now) || m.Clock != nil && (ahead(m.Clock.Seen) || ahead(m.Clock.Oracle))
		for _, l := range m.Leads {
			wrong = wrong || ahead(l.Closed) || ahead(l.LeaseEnd)
		}
		if wrong {
			w.errorf("node %d says %v", from, &m)
		}
		return false
	}
	s.spy.Store(&spy)
}
