package placement

import (
	"cmp"
	"slices"
	"strconv"

	"github.com/godwitdb/godwit/base"
)

// Which regions vote for a row of a placement that has more regions than voters (docs/protocol.md,
// PLACE-7): those of one of its copy sets.

// copySets are the entries of a placement as it is asked for: a copy set for each of its regions,
// or one entry for all if all vote.
func copySets(t *base.Topology, s *base.PlacementSpec, regions []base.RegionID, near Near) ([]base.Placement, error) {
	voters, err := votersOf(t, s, regions)
	if err != nil {
		return nil, err
	}
	readers, err := readersOf(t, s, regions, voters)
	if err != nil {
		return nil, err
	}
	if voters == len(regions) {
		return []base.Placement{{Regions: regions}}, nil
	}
	if !t.Allows(base.VersionVoters) {
		return nil, t.NotYet("a placement in which not all regions vote", base.VersionVoters)
	}
	var out []base.Placement
	for _, r := range regions {
		vote := append([]base.RegionID{r}, nearest(r, regions, near)[:voters-1]...)
		set := base.CopySet{All: regions, Readers: readers}
		for _, x := range t.Present() {
			if !slices.Contains(vote, x.ID) {
				set.Homes = set.Homes.With(x.ID, nearest(x.ID, vote, near)[0])
			}
		}
		p := base.Placement{Regions: vote, Set: &set}
		for _, r := range readers {
			if !slices.Contains(vote, r) {
				p.Readers = append(p.Readers, r)
			}
		}
		out = append(out, p)
	}
	return out, nil
}

// nearest are the other ones of some regions by their round trips to one, those that are not known
// last; of equal ones the first that is named comes first.
func nearest(r base.RegionID, of []base.RegionID, near Near) []base.RegionID {
	out := slices.DeleteFunc(slices.Clone(of), func(x base.RegionID) bool { return x == r })
	slices.SortStableFunc(out, func(a, b base.RegionID) int {
		x, y := near(r, a), near(r, b)
		if x == 0 || y == 0 {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(x, y)
	})
	return out
}

// votersOf is how many regions vote for a row: all, if neither VOTERS nor SURVIVE says otherwise.
func votersOf(t *base.Topology, s *base.PlacementSpec, regions []base.RegionID) (int, error) {
	m := len(regions)
	switch {
	case s.Survive == base.SurviveNode:
		return 1, survivesNode(t, s, regions)
	case s.Survive > 0 && 2*s.Survive+1 > m:
		return 0, base.Errorf(base.CodeInvalid, "placement %s cannot survive %s: that takes %d that vote, so that a majority is left, "+
			"and it has %d", s.Name, losing(s.Survive), 2*s.Survive+1, m)
	case s.Voters == 0 && s.Survive > 0:
		return 2*s.Survive + 1, nil
	case s.Voters == 0:
		return m, nil
	case s.Voters > m:
		return 0, base.Errorf(base.CodeInvalid, "placement %s has %d regions: VOTERS %d is more than can vote, since a region has one "+
			"vote", s.Name, m, s.Voters)
	case s.Voters < 3:
		return 0, base.Errorf(base.CodeInvalid, "VOTERS %d does not survive the loss of a region: 3 are the fewest that do. "+
			"SURVIVE NODE has three copies vote in the home region of a row alone", s.Voters)
	case s.Voters%2 == 0:
		return 0, base.Errorf(base.CodeInvalid, "VOTERS %d survives no more than VOTERS %d, and waits for more regions: the number is "+
			"odd", s.Voters, s.Voters-1)
	case s.Survive > 0 && s.Voters < 2*s.Survive+1:
		return 0, base.Errorf(base.CodeInvalid, "VOTERS %d does not survive %s: that takes VOTERS %d", s.Voters, losing(s.Survive),
			2*s.Survive+1)
	}
	return s.Voters, nil
}

func losing(n int) string {
	if n == 1 {
		return "the loss of a region"
	}
	return "the loss of " + strconv.Itoa(n) + " regions"
}

// survivesNode refuses SURVIVE NODE where a region lacks the nodes.
func survivesNode(t *base.Topology, s *base.PlacementSpec, regions []base.RegionID) error {
	if s.Voters != 0 && s.Voters != base.CopiesAtHome {
		return base.Errorf(base.CodeInvalid, "SURVIVE NODE has three copies vote in the home region of a row: it goes with VOTERS 3, "+
			"or without VOTERS, and not with VOTERS %d", s.Voters)
	}
	for _, r := range regions {
		if n := len(t.NodesIn(r)); n < base.CopiesAtHome {
			return base.Errorf(base.CodeInvalid, "SURVIVE NODE has three copies vote in the home region of a row, so each region of "+
				"placement %s needs three nodes, and %s has %d: start nodes there, or take SURVIVE REGION", s.Name, t.RegionName(r), n)
		}
	}
	return nil
}

// readersOf are the regions with read replicas.
func readersOf(t *base.Topology, s *base.PlacementSpec, regions []base.RegionID, voters int) ([]base.RegionID, error) {
	readers, err := regionsOf(t, s.Readers)
	if err != nil {
		return nil, err
	}
	for _, r := range readers {
		if !slices.Contains(regions, r) {
			return nil, base.Errorf(base.CodeInvalid, "READ REPLICAS IN names region %s, which is not among the REGIONS of placement %s: "+
				"rows may not lie there", t.RegionName(r), s.Name)
		}
	}
	if len(readers) > 0 && voters == len(regions) {
		return nil, base.Errorf(base.CodeInvalid, "all regions of placement %s vote, and so have copies that serve reads: READ REPLICAS "+
			"are for placements with fewer VOTERS than REGIONS", s.Name)
	}
	return readers, nil
}
