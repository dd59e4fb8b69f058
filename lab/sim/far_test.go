package sim

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// TestFarNodeBites: all nodes are started anew, one of them behind a path of half a second. Nobody
// knows a shorter one, so nobody finds that node later than usual. It does not get its leads back
// before the path is as it was, though heartbeats and disk are as ever (HEALTH-1). Without the rule
// it does, and each commit and each election there takes more than a second.
func TestFarNodeBites(t *testing.T) {
	for _, far := range []bool{false, true} {
		onStageTuned(t, 3, 1, func(cfg *Config) { cfg.Break.FarLeads = far }, func(s *stage) {
			s.move(base.MetaGroup, 1)
			rows := base.DataGroup(1, 1)
			led := func() bool { return s.leaderOf(rows) == s.hosts[0] || s.leaderOf(base.MetaGroup) == s.hosts[0] }
			if !led() {
				t.Fatal("node 1 does not lead")
			}
			for _, h := range s.hosts {
				h.crash()
			}
			slow := wan.LinkSpec{Delay: 500 * time.Millisecond}
			for r := base.RegionID(2); r <= 3; r++ {
				s.net.SetPaths(1, r, slow)
			}
			time.Sleep(3 * time.Second)
			for _, h := range s.hosts {
				h.boot()
			}
			time.Sleep(5 * time.Second)
			got := false
			for range 300 {
				time.Sleep(100 * time.Millisecond)
				got = got || led()
			}
			if got != far {
				t.Errorf("without HEALTH-1 %v: the far node got leads back: %v", far, got)
			}
			for r := base.RegionID(2); r <= 3; r++ {
				s.net.SetPaths(1, r, wan.LinkSpec{Delay: 50 * time.Millisecond})
			}
			time.Sleep(returnAfter)
			if s.leaderOf(rows) != s.hosts[0] {
				t.Errorf("without HEALTH-1 %v: node 1 does not lead its region's rows %v after its path is as before", far,
					returnAfter)
			}
		})
	}
}
