package base

import (
	"math/bits"
	"slices"
	"strings"
)

// PlacementID numbers a placement, from 1; it is never reused. 0 is none: all regions hold the
// rows.
type PlacementID uint16

// MaxPlacements bounds the placements that a cluster ever has, those that were dropped included.
const MaxPlacements = 64

// firstPlaced is the shard before those of placements: behind as many shards of synchronous and of
// asynchronous tables as a cluster may have.
const firstPlaced = 2 << 12

// RegionSet is a set of regions.
type RegionSet uint64

// RegionsOf is the set of some regions.
func RegionsOf(ids ...RegionID) (s RegionSet) {
	for _, id := range ids {
		s |= 1 << id
	}
	return s
}

// Has reports whether a region is in the set.
func (s RegionSet) Has(id RegionID) bool { return s&(1<<id) != 0 }

// Len is the number of regions.
func (s RegionSet) Len() int { return bits.OnesCount64(uint64(s)) }

// Placed says where the rows of a table may lie, as its descriptor has it. The zero value is:
// everywhere.
type Placed struct {
	ID PlacementID `json:"id"`
	// Regions are those of the placement, and First is the one in which rows are at home whose
	// clients are in none of them.
	Regions RegionSet `json:"regions"`
	First   RegionID  `json:"first"`
	// Homes are, by the regions of clients, where rows are at home instead of First.
	Homes RegionMap `json:"homes,omitempty"`
	// Own is the shard before those that the table has for itself; 0: it shares the shards of the
	// placement, or of the cluster, with other tables.
	Own int `json:"own,omitempty"`
}

// Allows reports whether rows may lie in a region.
func (p Placed) Allows(r RegionID) bool { return p.ID == 0 || p.Regions.Has(r) }

// HomeOf is where the rows of a region's clients are at home.
func (p Placed) HomeOf(r RegionID) RegionID {
	if p.Allows(r) {
		return r
	}
	if home := p.Homes.At(r); home != 0 {
		return home
	}
	return p.First
}

// ShardBefore is the shard before those of a table that lies there and has so many shards; 0 also
// if it lies everywhere, and shares its shards with others.
func (p Placed) ShardBefore(shards int) int {
	switch {
	case p.Own != 0:
		return p.Own
	case p.ID != 0:
		return p.ID.ShardBefore(shards)
	}
	return 0
}

// Placement says in which regions rows may lie (docs/protocol.md, PLACE-1 to PLACE-7). It has
// shards of its own, as many as the cluster has, whose groups have their replicas there and nowhere
// else.
type Placement struct {
	ID   PlacementID `json:"id"`
	Name string      `json:"name"`
	// Regions never change, in the order in which they were named: rows whose clients are in none
	// of them are at home in the first one.
	Regions []RegionID `json:"regions"`
	// Readers are regions, besides, that hold copies and do not vote. No row is at home there.
	Readers []RegionID `json:"readers,omitempty"`
	// Set: this is one of several copy sets of a placement, that of the first of Regions; nil: it
	// is all of it.
	Set *CopySet `json:"set,omitempty"`
	// Dropped: no table may be placed there any more. Its groups stay, without rows, and are used
	// again by the next placement of the same regions.
	Dropped bool `json:"dropped,omitempty"`
	// Opening: not all nodes are known to act by it yet, so no table lies there.
	Opening bool `json:"opening,omitempty"`
	// Replicas[s] are the nodes that hold the placement's shard number s, from 0, and First[s]
	// those with which its groups began.
	Replicas [][]NodeID `json:"replicas"`
	First    [][]NodeID `json:"first"`
	// Unknown: see Region.
	Unknown string `json:"-"`
}

// Placed is what the descriptors of the placement's tables say of it.
func (p *Placement) Placed() Placed {
	out := Placed{ID: p.ID, Regions: RegionsOf(p.Regions...), First: p.Regions[0]}
	if p.Set != nil {
		out.Homes = p.Set.Homes
	}
	return out
}

// Has reports whether rows may be at home in a region, which votes then.
func (p *Placement) Has(r RegionID) bool { return slices.Contains(p.Regions, r) }

// ShardBefore is the shard before those of a placement, of which each has so many.
func (id PlacementID) ShardBefore(shards int) int { return firstPlaced + int(id-1)*shards }

// Placement is the placement with an id; nil if there is none.
func (t *Topology) Placement(id PlacementID) *Placement {
	if id == 0 || int(id) > len(t.Placements) {
		return nil
	}
	return &t.Placements[id-1]
}

// PlacementByName finds a placement that was not dropped, or the first of its copy sets; nil if
// there is none. Case does not count.
func (t *Topology) PlacementByName(name string) *Placement {
	for i := range t.Placements {
		if p := &t.Placements[i]; !p.Dropped && p.Number() == p.ID && strings.EqualFold(p.Name, name) {
			return p
		}
	}
	return nil
}

// PlacementOf is the placement whose shard this is; nil if all regions hold the shard.
func (t *Topology) PlacementOf(s ShardID) *Placement {
	if s <= firstPlaced || s == EpochShard || t.Shards == 0 {
		return nil
	}
	if o := t.OwnOf(s); o != nil {
		return t.Placement(o.Placement)
	}
	return t.Placement(PlacementID((int(s)-firstPlaced-1)/t.Shards + 1))
}

// MayHold reports whether what is in a shard may lie at a node.
func (t *Topology) MayHold(s ShardID, n NodeID) bool {
	p := t.PlacementOf(s)
	return p == nil || p.Holds(t.RegionOf(n))
}

// MayLiveIn reports whether rows of a shard may be given a home in a region.
func (t *Topology) MayLiveIn(s ShardID, r RegionID) bool {
	if p := t.PlacementOf(s); p != nil && !p.Has(r) {
		return false
	}
	return t.MayLive(r)
}

// HomeIn is where rows of a shard are at home whose clients have theirs in a region.
func (t *Topology) HomeIn(s ShardID, r RegionID) RegionID {
	if p := t.PlacementOf(s); p != nil && !p.Has(r) {
		return p.Placed().HomeOf(r)
	}
	return r
}

// MayPass reports whether what two nodes send each other may go over a third one: it is in every
// placement that has both (PLACE-3). Nothing is kept on the way, so the copy sets of a placement do
// not matter.
func (t *Topology) MayPass(a, b, over NodeID) bool {
	x, y, z := t.RegionOf(a), t.RegionOf(b), t.RegionOf(over)
	for i := range t.Placements {
		p := &t.Placements[i]
		if p.Number() != p.ID {
			continue
		}
		if all := p.All(); slices.Contains(all, x) && slices.Contains(all, y) && !slices.Contains(all, z) {
			return false
		}
	}
	return true
}

// placedGroups are the groups of placements in some regions.
func (t *Topology) placedGroups(gs []GroupID, in func(RegionID) bool) []GroupID {
	for i := range t.Placements {
		p := &t.Placements[i]
		for s := 1; s <= t.Shards; s++ {
			for _, r := range p.Regions {
				if in(r) {
					gs = append(gs, DataGroup(ShardID(p.ID.ShardBefore(t.Shards)+s), r))
				}
			}
		}
	}
	for i := range t.Own {
		o := &t.Own[i]
		for n := range o.Shards {
			for _, r := range t.regionsOf(o) {
				if in(r) {
					gs = append(gs, DataGroup(o.Shard(n), r))
				}
			}
		}
	}
	return gs
}

// DataShards are all shards but the meta shard.
func (t *Topology) DataShards() (out []ShardID) {
	for s := 1; s <= t.AllShards(); s++ {
		out = append(out, ShardID(s))
	}
	for i := range t.Placements {
		for s := 1; s <= t.Shards; s++ {
			out = append(out, ShardID(t.Placements[i].ID.ShardBefore(t.Shards)+s))
		}
	}
	for i := range t.Own {
		for n := range t.Own[i].Shards {
			out = append(out, t.Own[i].Shard(n))
		}
	}
	return out
}

// validatePlacements reports what makes the placements unusable.
func (t *Topology) validatePlacements() error {
	for i := range t.Placements {
		p := &t.Placements[i]
		switch {
		case p.ID != PlacementID(i+1), len(p.Regions) == 0, len(p.Replicas) != t.Shards, len(p.First) != t.Shards:
			return Errorf(CodeInvalid, "placement %s has number %d in place %d, %d regions, %d replica sets and %d first ones "+
				"for %d shards", p.Name, p.ID, i+1, len(p.Regions), len(p.Replicas), len(p.First), t.Shards)
		case p.ID.ShardBefore(t.Shards)+t.Shards >= int(EpochShard), len(t.Own) > 0 && p.ID.ShardBefore(t.Shards)+t.Shards > firstOwn:
			return Errorf(CodeInvalid, "placement %s: no shards are left for it", p.Name)
		}
		for _, set := range p.Replicas {
			if len(set) == 0 {
				return Errorf(CodeInvalid, "placement %s has a shard without replicas", p.Name)
			}
			for _, n := range set {
				if !p.Holds(t.RegionOf(n)) {
					return Errorf(CodeInvalid, "placement %s has a replica at node %d, which is in none of its regions", p.Name, n)
				}
			}
		}
	}
	return t.validateOwn()
}
