package placement

import (
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// Near is the round trip between two regions; 0 if it is not known.
type Near func(a, b base.RegionID) time.Duration

// Add adds a placement to a topology, or takes the groups of one that was dropped.
func Add(t *base.Topology, s base.PlacementSpec, near Near) error {
	if !t.Allows(base.VersionPlaced) {
		return t.NotYet("CREATE PLACEMENT", base.VersionPlaced)
	}
	if t.Concurrency.Ordered() {
		return base.Errorf(base.CodeInvalid, "placements are not for clusters that order transactions by timestamps")
	}
	regions, err := regionsOf(t, s.Regions)
	if err != nil {
		return err
	}
	if len(regions) == 0 {
		return base.Errorf(base.CodeInvalid, "placement %s needs a region", s.Name)
	}
	sets, err := copySets(t, &s, regions, near)
	if err != nil {
		return err
	}
	if p := t.PlacementByName(s.Name); p != nil {
		if p.Opening && sameSets(t.CopySets(p.ID), sets) {
			return nil
		}
		return base.Errorf(base.CodeExists, "there is a placement %s already, of %s", s.Name, placementRegions(t, p))
	}
	return addSets(t, s.Name, sets)
}

// addSets adds the copy sets of a placement, or the one that is all of it.
func addSets(t *base.Topology, name string, sets []base.Placement) error {
	var ids []base.PlacementID
	for i := range sets {
		x := sets[i]
		x.Name, x.Opening = name, true
		at := slices.IndexFunc(t.Placements, func(p base.Placement) bool { return p.Dropped && sameGroups(&p, &x) })
		if at < 0 {
			if len(t.Placements) >= base.MaxPlacements {
				return base.Errorf(base.CodeInvalid, "the cluster has had %d placements, those that were dropped included, which is "+
					"the most (one in which not all regions vote counts once for each of its regions): use one of the same regions, or "+
					"make one of the regions that a dropped one had, in the same order", base.MaxPlacements)
			}
			at = len(t.Placements)
			t.Placements = append(t.Placements, base.Placement{ID: base.PlacementID(at + 1)})
		}
		p := &t.Placements[at]
		p.Name, p.Regions, p.Readers, p.Set, p.Dropped, p.Opening = x.Name, x.Regions, x.Readers, x.Set, false, true
		ids = append(ids, p.ID)
	}
	for _, id := range ids {
		if p := t.Placement(id); p.Set != nil {
			p.Set.Of = ids[0]
		}
	}
	return nil
}

// sameGroups reports whether the groups of two entries have the same members.
func sameGroups(a, b *base.Placement) bool {
	return slices.Equal(a.Regions, b.Regions) && slices.Equal(a.Readers, b.Readers) && (a.Set == nil) == (b.Set == nil)
}

// sameSets reports whether two placements were asked for with the same words. Which regions are
// near may have been measured differently.
func sameSets(have []*base.Placement, asked []base.Placement) bool {
	if len(have) != len(asked) {
		return false
	}
	a, b := have[0], &asked[0]
	if a.Set == nil || b.Set == nil {
		return a.Set == b.Set && sameGroups(a, b)
	}
	return slices.Equal(a.Set.All, b.Set.All) && slices.Equal(a.Set.Readers, b.Set.Readers) && len(a.Regions) == len(b.Regions)
}

// regionsOf are the regions of some names.
func regionsOf(t *base.Topology, names []string) (regions []base.RegionID, err error) {
	for _, n := range names {
		id := t.HomeByName(n)
		switch {
		case id == 0:
			return nil, base.Errorf(base.CodeInvalid, "there is no region %q in which rows may be at home: the regions are %v", n,
				regionNames(t))
		case slices.Contains(regions, id):
			return nil, base.Errorf(base.CodeInvalid, "region %s is named twice", n)
		case len(t.NodesIn(id)) == 0:
			return nil, base.Errorf(base.CodeInvalid, "region %s has no node: start one there first", n)
		}
		regions = append(regions, id)
	}
	return regions, nil
}

func placementRegions(t *base.Topology, p *base.Placement) string {
	var names []string
	for _, r := range p.All() {
		names = append(names, t.RegionName(r))
	}
	return strings.Join(names, ", ")
}

func regionNames(t *base.Topology) (names []string) {
	for _, r := range t.Present() {
		names = append(names, r.Name)
	}
	return names
}

// Drop takes a placement away, whose groups stay for the next one of the same regions.
func Drop(t *base.Topology, name string) error {
	p := t.PlacementByName(name)
	if p == nil {
		return none(t, name)
	}
	for _, x := range t.CopySets(p.ID) {
		x.Dropped, x.Opening = true, false
	}
	return nil
}

// Named is the placement of a name, if it can be used: of one with copy sets the whole.
func Named(t *base.Topology, name string) (base.Placed, error) {
	p := t.PlacementByName(name)
	switch {
	case p == nil:
		return base.Placed{}, none(t, name)
	case p.Opening:
		return base.Placed{}, base.Errorf(base.CodeInvalid, "placement %s cannot be used yet: CREATE PLACEMENT %s with the same "+
			"regions waits until it can", name, name)
	}
	if p.Set != nil {
		return p.Whole(), nil
	}
	return p.Placed(), nil
}

func none(t *base.Topology, name string) error {
	var names []string
	for i := range t.Placements {
		if p := &t.Placements[i]; !p.Dropped && p.Number() == p.ID {
			names = append(names, p.Name)
		}
	}
	return base.Errorf(base.CodeInvalid, "there is no placement %s: there are %v; CREATE PLACEMENT makes one", name, names)
}

// Removable refuses to drop a region in which rows of a placement lie.
func Removable(t *base.Topology, r *base.Region) error {
	for i := range t.Placements {
		if p := &t.Placements[i]; p.Holds(r.ID) {
			return base.Errorf(base.CodeInvalid, "region %s is, or was, in placement %s (%s), whose groups have voters there: it "+
				"cannot be dropped", r.Name, p.Name, placementRegions(t, p))
		}
	}
	return nil
}
