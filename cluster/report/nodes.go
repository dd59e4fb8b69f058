package report

import (
	"time"

	"github.com/godwitdb/godwit/base"
)

// notReplaced says why a silent node is not replaced by itself.
func (x *examination) notReplaced(n base.NodeID) string {
	if why := x.ReplaceWaits[n]; why != "" {
		return "; it is not replaced by itself: " + why
	}
	return ""
}

// HomeName is the region that a group's rows belong to; empty for the meta group.
func HomeName(t *base.Topology, id base.GroupID) string {
	if id == base.MetaGroup {
		return ""
	}
	return t.RegionName(id.Region())
}

// Shortest are the shortest round trips between regions of those that nodes have measured.
func Shortest(t *base.Topology, all []RegionRTT) (out []RegionRTT) {
	best := map[[2]string]time.Duration{}
	for _, r := range all {
		k := [2]string{r.From, r.To}
		if best[k] == 0 || r.RTT < best[k] {
			best[k] = r.RTT
		}
	}
	for _, a := range t.Regions {
		for _, b := range t.Regions {
			if d := best[[2]string{a.Name, b.Name}]; d != 0 {
				out = append(out, RegionRTT{From: a.Name, To: b.Name, RTT: d})
			}
		}
	}
	return out
}
