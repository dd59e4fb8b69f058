package sim

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
)

// TestStarterInSwitch is MODE-1c: a process has just been started, gets the right to act in GClock
// mode, and is cut off from the leader of the meta group before that one has heard so. The mode
// changes. As long as the node may act in GClock mode, nobody is in GTM mode: there the oracle may
// be ahead of all clocks, and the node would show a snapshot without what was acknowledged before.
func TestStarterInSwitch(t *testing.T) {
	onStageOf(t, 3, 1, time.Hour, func(s *stage) {
		s.setPolicy(clock.Auto)
		s.move(base.MetaGroup, 1)
		starter := s.hosts[2]
		starter.crash()
		time.Sleep(10 * time.Second)
		starter.boot()
		clockOf := func(h *host) (m string, right time.Duration) {
			c := h.up().node.Cluster().Clock()
			return c.Mode, c.Right
		}
		for m, right := clockOf(starter); m != clock.GClock.String() || right <= 0; m, right = clockOf(starter) {
			time.Sleep(time.Millisecond)
		}
		s.net.Cut(starter.region, 1)
		s.net.Cut(starter.region, 2) // else its words make a detour
		s.setPolicy(clock.WantGTM)
		acts, gtm := 0, 0
		for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			m, right := clockOf(starter)
			other, may := clockOf(s.hosts[1])
			switch old := m == clock.GClock.String() && right > 0; {
			case old && other == clock.GTM.String() && may > 0:
				t.Errorf("node %d may act in GClock mode for %v, and node 2 acts in GTM mode", starter.id, right)
				return
			case old:
				acts++
			case other == clock.GTM.String():
				gtm++
			}
		}
		if acts < 100 || gtm < 100 {
			t.Errorf("only %d looks while the node might act, and %d in GTM mode", acts, gtm)
		}
		s.net.HealAll()
		s.setPolicy(clock.Auto)
		time.Sleep(5 * time.Second)
	})
}
