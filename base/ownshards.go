package base

import "slices"

// A table that has outgrown the shards that it shares with others gets shards of its own
// (docs/protocol.md, SPLIT-1 to SPLIT-4): as many as it needs, in all regions or in those of
// its placement.

const (
	// firstOwn is the shard before those that tables have for themselves: behind those of
	// placements.
	firstOwn = 1 << 15
	// MaxOwnShards bounds the shards of one table in one placement.
	MaxOwnShards = 1024
)

// OwnShards are some shards with consecutive numbers that one table has for itself, in all regions
// or in a placement. Its number of shards and its placement never change. When the table is dropped
// or moved, its groups stay, without rows, and are used again by the next table that asks for as
// many.
type OwnShards struct {
	// Before is the shard before the first one. It names the set, and is never used again.
	Before int `json:"before"`
	Shards int `json:"shards"`
	// Placement is the placement, or copy set, in whose regions the shards are; 0: in all regions,
	// also in those that the cluster gets later.
	Placement PlacementID `json:"placement,omitempty"`
	// Opening: not all nodes are known to act by it yet, so no table lies there.
	Opening bool `json:"opening,omitempty"`
	// Replicas[n] are the nodes that hold the shard number n, from 0, and First[n] those with which
	// its groups began.
	Replicas [][]NodeID `json:"replicas"`
	First    [][]NodeID `json:"first"`
	// Later says how the groups of regions began that came later.
	Later   []LaterRegion `json:"later,omitempty"`
	Unknown string        `json:"-"`
}

// Shard is the shard number n of the set, from 0.
func (o *OwnShards) Shard(n int) ShardID { return ShardID(o.Before + n + 1) }

// Has reports whether a shard is in the set.
func (o *OwnShards) Has(s ShardID) bool { return int(s) > o.Before && int(s) <= o.Before+o.Shards }

// first are the replicas with which a group of the set began.
func (o *OwnShards) first(g GroupID) []NodeID {
	n := int(g.Shard()) - 1 - o.Before
	for _, l := range o.Later {
		if l.Region == g.Region() {
			return l.First[n]
		}
	}
	return o.First[n]
}

// BeganWith reports whether the groups of a region are as old as the set.
func (o *OwnShards) BeganWith(r RegionID) bool {
	return !slices.ContainsFunc(o.Later, func(l LaterRegion) bool { return l.Region == r })
}

// OwnOf is the set that a shard is in; nil if tables share it.
func (t *Topology) OwnOf(s ShardID) *OwnShards {
	if s <= firstOwn || s == EpochShard {
		return nil
	}
	i, found := slices.BinarySearchFunc(t.Own, s, func(o OwnShards, s ShardID) int {
		switch {
		case o.Has(s):
			return 0
		case int(s) <= o.Before:
			return 1
		}
		return -1
	})
	if !found {
		return nil
	}
	return &t.Own[i]
}

// OwnBefore is the set behind a shard; nil if there is none.
func (t *Topology) OwnBefore(before int) *OwnShards { return t.OwnOf(ShardID(before + 1)) }

// NextOwn is the shard before those of the next set.
func (t *Topology) NextOwn() int {
	if n := len(t.Own); n > 0 {
		return t.Own[n-1].Before + t.Own[n-1].Shards
	}
	return firstOwn
}

// regionsOf are the regions that have groups in a set.
func (t *Topology) regionsOf(o *OwnShards) (out []RegionID) {
	if p := t.Placement(o.Placement); p != nil {
		return p.Regions
	}
	for _, list := range [][]Region{t.Regions, t.Opening} {
		for _, r := range list {
			out = append(out, r.ID)
		}
	}
	return out
}

// validateOwn reports what makes the sets of shards that tables have for themselves unusable.
func (t *Topology) validateOwn() error {
	before := firstOwn
	for i := range t.Own {
		o := &t.Own[i]
		p := t.Placement(o.Placement)
		switch {
		case o.Before != before, o.Shards < 1, len(o.Replicas) != o.Shards, len(o.First) != o.Shards, o.Placement != 0 && p == nil:
			return Errorf(CodeInvalid, "set %d of a table's own shards begins behind %d, not %d, and has %d shards, %d replica "+
				"sets and %d first ones, in placement %d", i+1, o.Before, before, o.Shards, len(o.Replicas), len(o.First), o.Placement)
		case o.Before+o.Shards >= int(EpochShard):
			return Errorf(CodeInvalid, "no shards are left for a table of its own: the cluster has had %d", o.Before-firstOwn)
		}
		before += o.Shards
		for _, set := range o.Replicas {
			if len(set) == 0 {
				return Errorf(CodeInvalid, "set %d of a table's own shards has a shard without replicas", i+1)
			}
			for _, n := range set {
				if t.Node(n) == nil || p != nil && !p.Holds(t.RegionOf(n)) {
					return Errorf(CodeInvalid, "set %d of a table's own shards has a replica at node %d, which is unknown or in none of "+
						"its regions", i+1, n)
				}
			}
		}
	}
	return nil
}
