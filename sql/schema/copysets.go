package schema

import (
	"slices"

	"github.com/godwitdb/godwit/base"
)

// A table in a placement in which not all regions vote lies in copy sets of it (docs/protocol.md,
// PLACE-7). If all rows are at home in one region they are in that region's copy set, and the table
// is like any other with a placement. Else they are spread over the shards of all copy sets, by
// their keys.

// inSets reports whether the locality can be told only since there are copy sets.
func (l Locality) inSets() bool {
	return l.Sets != nil || slices.ContainsFunc(l.Places(), func(p base.Placed) bool { return p.Homes != 0 })
}

// setShard is a shard of a table that is spread over copy sets, by its number from 0.
func (t *TableDesc) setShard(n uint64) base.ShardID {
	set := t.Locality.Sets[n/uint64(t.Shards)]
	return base.ShardID(set.ShardBefore(t.Shards) + int(n%uint64(t.Shards)) + 1)
}

// setAt is the copy set of a shard of a table with so many in each, or else its placement.
func (l Locality) setAt(s base.ShardID, shards int) base.Placed {
	for _, p := range l.Sets {
		if before := p.ShardBefore(shards); int(s) > before && int(s) <= before+shards {
			return p
		}
	}
	return l.Placed
}

// HomeAt is the home of a key of a row that is at home somewhere: an entry of a unique index may
// lie in another copy set, which has it nearby if its regions do not have the row's home.
func (t *Table) HomeAt(k base.Key, home base.RegionID) base.RegionID {
	if home == 0 || t.Desc.Locality.Sets == nil {
		return home
	}
	return t.PlacedAt(k.Shard()).HomeOf(home)
}

// spread refuses a table over copy sets whose keys cannot say in which one they begin (PLACE-6).
func (t *TableDesc) spread() error {
	for i := range t.Indexes {
		if x := &t.Indexes[i]; t.Locality.Sets != nil && x.ID > base.MaxIndexID {
			return Invalid("table " + t.Name + " has had too many indexes for a placement in which not all regions vote: make it anew")
		}
	}
	return nil
}
