package report

import "github.com/godwitdb/godwit/base"

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
