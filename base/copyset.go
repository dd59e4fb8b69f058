package base

import (
	"fmt"
	"slices"
)

// A placement in which not all regions vote has a copy set for each of its regions
// (docs/protocol.md, PLACE-7): an entry of Topology.Placements with shards of its own, whose rows
// have their copies in some of the regions and nowhere else.

// CopySet says to which placement an entry of Topology.Placements belongs, and what was asked for
// there. It is replaced, never changed.
type CopySet struct {
	// Of is the placement: the number of its first copy set.
	Of PlacementID `json:"of"`
	// All are the regions of the placement, in the order in which they were named.
	All []RegionID `json:"all"`
	// Readers are those with read replicas of all copy sets in which they do not vote.
	Readers []RegionID `json:"readers,omitempty"`
	// Homes are where rows are at home whose clients are in a region that does not vote: see
	// [Placed.Homes].
	Homes RegionMap `json:"homes,omitempty"`
	// Unknown: see Region.
	Unknown string `json:"-"`
}

// RegionMap maps regions to regions, or to 0: four bits for each.
type RegionMap uint64

const regionMapBits = 4

// At is what a region is mapped to.
func (m RegionMap) At(r RegionID) RegionID {
	return RegionID(m >> (uint(r) * regionMapBits) & (1<<regionMapBits - 1))
}

// With maps a region.
func (m RegionMap) With(r, to RegionID) RegionMap {
	at := uint(r) * regionMapBits
	return m&^((1<<regionMapBits-1)<<at) | RegionMap(to)<<at
}

// What CREATE PLACEMENT says with SURVIVE, besides a number of regions.
const (
	SurviveUnsaid = 0
	SurviveNode   = -1
)

// PlacementSpec is what CREATE PLACEMENT asks for.
type PlacementSpec struct {
	Name    string
	Regions []string
	// Voters is how many regions vote; 0: it is not said.
	Voters int
	// Readers are regions with read replicas.
	Readers []string
	// Survive is how many regions may be lost, or SurviveUnsaid, or SurviveNode.
	Survive int
}

// Number is that by which a placement is known: of its first copy set, if it has several.
func (p *Placement) Number() PlacementID {
	if p.Set != nil {
		return p.Set.Of
	}
	return p.ID
}

// NumberOf is the number of the placement of which an entry is; 0 for 0.
func (t *Topology) NumberOf(id PlacementID) PlacementID {
	if p := t.Placement(id); p != nil {
		return p.Number()
	}
	return id
}

// Holds reports whether a region has copies: it votes, or has a read replica.
func (p *Placement) Holds(r RegionID) bool { return p.Has(r) || slices.Contains(p.Readers, r) }

// All are the regions of the whole placement.
func (p *Placement) All() []RegionID {
	if p.Set != nil {
		return p.Set.All
	}
	return p.Regions
}

// CopySets are the copy sets of a placement, by the order of its regions, the one itself if it has
// no others; nil if there is none.
func (t *Topology) CopySets(id PlacementID) (out []*Placement) {
	p := t.Placement(id)
	if p == nil || p.Set == nil {
		if p != nil {
			out = append(out, p)
		}
		return out
	}
	for _, r := range p.Set.All {
		for i := range t.Placements {
			if x := &t.Placements[i]; x.Set != nil && x.Set.Of == p.Set.Of && x.Dropped == p.Dropped && x.Regions[0] == r {
				out = append(out, x)
			}
		}
	}
	return out
}

// VotersOf are the nodes that hold a shard, without those that have a read replica of a placement.
func (t *Topology) VotersOf(s ShardID) (out []NodeID) {
	all, p := t.ShardReplicas(s), t.PlacementOf(s)
	if p == nil || len(p.Readers) == 0 {
		return all
	}
	for _, n := range all {
		if p.Has(t.RegionOf(n)) {
			out = append(out, n)
		}
	}
	return out
}

// Whole says of a placement with copy sets where rows of all of them may be at home.
func (p *Placement) Whole() Placed {
	return Placed{ID: p.Number(), Regions: RegionsOf(p.All()...), First: p.All()[0]}
}

// CopiesAtHome is how many copies vote where all are in one region, so that they survive a node.
const CopiesAtHome = 3

// Survives is how many copies of a row of a placement vote, and what may be lost, as nodes are now,
// so that all of its rows can still be read and written.
func (t *Topology) Survives(p *Placement) (voters int, what string) {
	for _, s := range t.CopySets(p.ID) {
		for _, nodes := range s.Replicas {
			n := 0
			for _, x := range nodes {
				if s.Has(t.RegionOf(x)) {
					n++
				}
			}
			if voters == 0 || n < voters {
				voters = n
			}
		}
	}
	switch n := (len(p.Regions) - 1) / 2; {
	case n > 1:
		return voters, fmt.Sprintf("%d regions", n)
	case n == 1:
		return voters, "a region"
	case voters >= CopiesAtHome:
		return voters, "a node"
	}
	return voters, "nothing"
}
