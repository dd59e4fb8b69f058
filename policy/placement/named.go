package placement

import (
	"slices"
	"strings"

	"github.com/godwitdb/godwit/base"
)

// Add adds a placement to a topology, or takes the groups of one that was dropped.
func Add(t *base.Topology, name string, names []string) error {
	if !t.Allows(base.VersionPlaced) {
		return t.NotYet("CREATE PLACEMENT", base.VersionPlaced)
	}
	if t.Concurrency.Ordered() {
		return base.Errorf(base.CodeInvalid, "placements are not for clusters that order transactions by timestamps")
	}
	var regions []base.RegionID
	for _, n := range names {
		id := t.HomeByName(n)
		switch {
		case id == 0:
			return base.Errorf(base.CodeInvalid, "there is no region %q in which rows may be at home: the regions are %v", n,
				regionNames(t))
		case slices.Contains(regions, id):
			return base.Errorf(base.CodeInvalid, "region %s is named twice", n)
		case len(t.NodesIn(id)) == 0:
			return base.Errorf(base.CodeInvalid, "region %s has no node: start one there first", n)
		}
		regions = append(regions, id)
	}
	if len(regions) == 0 {
		return base.Errorf(base.CodeInvalid, "placement %s needs a region", name)
	}
	if p := t.PlacementByName(name); p != nil {
		if p.Opening && slices.Equal(p.Regions, regions) {
			return nil
		}
		return base.Errorf(base.CodeExists, "there is a placement %s already, of %s", name, placementRegions(t, p))
	}
	for i := range t.Placements {
		if p := &t.Placements[i]; p.Dropped && slices.Equal(p.Regions, regions) {
			p.Name, p.Dropped, p.Opening = name, false, true
			return nil
		}
	}
	if len(t.Placements) >= base.MaxPlacements {
		return base.Errorf(base.CodeInvalid, "the cluster has had %d placements, those that were dropped included, which is "+
			"the most: use one of the same regions, or make one of the regions that a dropped one had, in the same order",
			base.MaxPlacements)
	}
	t.Placements = append(t.Placements, base.Placement{ID: base.PlacementID(len(t.Placements) + 1), Name: name, Regions: regions,
		Opening: true})
	return nil
}

func placementRegions(t *base.Topology, p *base.Placement) string {
	var names []string
	for _, r := range p.Regions {
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
	p.Dropped, p.Opening = true, false
	return nil
}

// Named is the placement of a name, if it can be used.
func Named(t *base.Topology, name string) (base.Placed, error) {
	p := t.PlacementByName(name)
	switch {
	case p == nil:
		return base.Placed{}, none(t, name)
	case p.Opening:
		return base.Placed{}, base.Errorf(base.CodeInvalid, "placement %s cannot be used yet: CREATE PLACEMENT %s with the same "+
			"regions waits until it can", name, name)
	}
	return p.Placed(), nil
}

func none(t *base.Topology, name string) error {
	var names []string
	for i := range t.Placements {
		if p := &t.Placements[i]; !p.Dropped {
			names = append(names, p.Name)
		}
	}
	return base.Errorf(base.CodeInvalid, "there is no placement %s: there are %v; CREATE PLACEMENT makes one", name, names)
}

// Removable refuses to drop a region in which rows of a placement lie.
func Removable(t *base.Topology, r *base.Region) error {
	for i := range t.Placements {
		if p := &t.Placements[i]; p.Has(r.ID) {
			return base.Errorf(base.CodeInvalid, "region %s is, or was, in placement %s (%s), whose groups have voters there: it "+
				"cannot be dropped", r.Name, p.Name, placementRegions(t, p))
		}
	}
	return nil
}
