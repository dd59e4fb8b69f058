// Package placing reads and words what statements say of placements, and finds out in which copy
// sets of one a table lies (docs/protocol.md, PLACE-7).
package placing

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Settle says in which copy sets of its placement a table lies, if that has several: in that of its
// region if all of its rows are at home in one, else in all. A placement is given by any of its
// copy sets. A region that is not in the placement is left to [schema.Locality.Check].
func Settle(t *base.Topology, l *schema.Locality) {
	l.Sets = nil
	p := t.Placement(l.Placed.ID)
	if p == nil || p.Set == nil {
		return
	}
	sets := t.CopySets(p.ID)
	l.Placed = sets[0].Whole()
	if l.Kind == schema.ByTable {
		if s := setAt(sets, l.Region); s != nil {
			l.Placed = s.Placed()
		}
		return
	}
	for _, s := range sets {
		l.Sets = append(l.Sets, s.Placed())
	}
}

func setAt(sets []*base.Placement, r base.RegionID) *base.Placement {
	for _, s := range sets {
		if s.Regions[0] == r {
			return s
		}
	}
	return nil
}

// At is where the rows of an entry of PLACEMENT BY lie: the copy set of the region that AT names,
// if the placement has copy sets.
func At(t *base.Topology, placed base.Placed, name, at string) (base.Placed, error) {
	p := t.Placement(placed.ID)
	switch {
	case (p == nil || p.Set == nil) && at == "":
		return placed, nil
	case p == nil || p.Set == nil:
		return placed, schema.Invalid("PLACEMENT BY: AT '" + at + "' goes with placements in which not all regions vote, and all of " +
			"those of " + name + " do, for each row")
	case at == "":
		return placed, schema.Invalid("PLACEMENT BY: not all regions of placement " + name + " vote. IN " + name + " AT 'region' says " +
			"in whose copies rows of these values lie: in that region, and those nearest to it")
	}
	if s := setAt(t.CopySets(p.ID), t.HomeByName(at)); s != nil {
		return s.Placed(), nil
	}
	return placed, schema.Invalid("PLACEMENT BY: region '" + at + "' is not in placement " + name + ": SHOW PLACEMENTS lists its regions")
}
