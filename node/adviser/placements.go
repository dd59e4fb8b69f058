package adviser

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/advice"
)

// AddPlacements tells which placements there are, and whether there can be more.
func AddPlacements(f *advice.Facts, t *base.Topology) {
	f.Placeable = t.Allows(base.VersionVoters) && !t.Concurrency.Ordered() && len(t.Placements)+len(t.Regions) <= base.MaxPlacements
	indexes := func(ids []base.RegionID) (out []int) {
		for _, id := range ids {
			out = append(out, RegionIndex(t, id))
		}
		return out
	}
	for i := range t.Placements {
		p := &t.Placements[i]
		if p.Dropped || p.Number() != p.ID {
			continue
		}
		n := advice.Named{Name: p.Name}
		if p.Set == nil { // else rows of a region vote elsewhere than those of another
			n.Regions = indexes(p.Regions)
		}
		f.Placements = append(f.Placements, n)
	}
}
