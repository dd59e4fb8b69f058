package sim

import (
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TestUnheldOwners: a region has two nodes, of which one holds the shard and leads the region's
// group. It dies. The other node goes on with rows of other regions, whose owners it has heard of
// (HOME-10). Without the rule it asks at the group that has no leader.
func TestUnheldOwners(t *testing.T) {
	const away, regions = 3, 3
	for _, near := range []bool{false, true} {
		longest := time.Duration(0)
		onStageTuned(t, regions, 2, func(cfg *Config) { cfg.Stay, cfg.Break.NearOwners = true, near }, func(s *stage) {
			g := base.DataGroup(1, away)
			var held, other *host
			for _, h := range s.hosts {
				switch {
				case h.region != away:
				case h.up().groupOf(g) != nil:
					held = h
				default:
					other = h
				}
			}
			if held == nil || other == nil {
				t.Fatal("region 3 has no node with the shard, or none without")
			}
			for !serves(held, g) {
				time.Sleep(time.Second)
			}
			for home := base.RegionID(1); home < away; home++ {
				for i := range 20 {
					s.put(int(home), s.key(home, i), "x")
					s.put(int(other.id), s.key(home, i), "y")
				}
			}
			time.Sleep(5 * time.Second)
			s.net.Isolate(held.id)
			for i := range 20 {
				for home := base.RegionID(1); home < away; home++ {
					began := time.Now()
					s.put(int(other.id), s.key(home, i), "z")
					longest = max(longest, time.Since(began))
				}
			}
			s.net.HealAll()
			time.Sleep(5 * time.Second)
		})
		t.Logf("without HOME-10: %v; a write of another region's row took up to %v", near, longest)
		if slow := longest > time.Second; slow != near {
			t.Errorf("without HOME-10: %v; a write of another region's row took up to %v", near, longest)
		}
	}
}

// serves reports whether a host leads a group, and serves it.
func serves(h *host, g base.GroupID) bool {
	_, ok := h.up().node.Owners().Replica(g).Serving()
	return ok
}
