package backup

import (
	"maps"
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// here is the region that one of the backup becomes: what HOMES gives, or the region of the same
// name; 0 if there is none.
func (p *plan) here(was base.RegionID) base.RegionID {
	name := p.v.Regions[was]
	if p.o != nil {
		if to, ok := p.o.Homes[strings.ToLower(name)]; ok {
			name = to
		}
	}
	return p.g.DB.Topology().HomeByName(name)
}

// checkHomes refuses regions in HOMES that the backup or the cluster does not have.
func (p *plan) checkHomes() error {
	var names []string
	for _, r := range slices.Sorted(maps.Keys(p.v.Regions)) {
		names = append(names, p.v.Regions[r])
	}
	for _, was := range slices.Sorted(maps.Keys(p.o.Homes)) {
		if !slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, was) }) {
			return schema.Invalid("HOMES names region '" + was + "', and the regions of the backup are " + strings.Join(names, ", "))
		}
		if to := p.o.Homes[was]; p.g.DB.Topology().HomeByName(to) == 0 {
			return schema.Invalid("HOMES gives rows of region '" + was + "' to region '" + to +
				"', which does not exist here: SHOW GODWIT REGIONS lists those that do")
		}
	}
	return nil
}
