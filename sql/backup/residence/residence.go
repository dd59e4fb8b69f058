// Package residence says to whose place of a backup a row goes, where regions have places of their
// own: to that of the region in which it is at home. Rows of a table with a placement never go to
// the place of a region outside of it, nor to the main one.
package residence

import (
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
)

// Sorting says to whose place rows go.
type Sorting struct {
	Mine base.RegionID  // whose place is written; 0: the main one
	With base.RegionSet // the regions that have places of their own
}

// of is the region to whose place a row goes; 0: to the main one.
func (s *Sorting) of(t *schema.Table, shard base.ShardID, home base.RegionID) base.RegionID {
	p := t.PlacedAt(shard)
	if home != 0 && s.With.Has(home) && p.Allows(home) {
		return home
	}
	return s.Deputy(p)
}

// Deputy is the region to whose place rows of a placement go that are at home in a region without
// one; 0: there is none.
func (s *Sorting) Deputy(p base.Placed) base.RegionID {
	if p.ID == 0 {
		return 0
	}
	if s.With.Has(p.First) {
		return p.First
	}
	for r := base.RegionID(1); r <= base.MaxRegions; r++ {
		if s.With.Has(r) && p.Regions.Has(r) {
			return r
		}
	}
	return 0
}

// MineIs reports whether a row goes to the place that is written; a nil Sorting has one place only.
func (s *Sorting) MineIs(t *schema.Table, shard base.ShardID, home base.RegionID) bool {
	return s == nil || s.of(t, shard, home) == s.Mine
}

// Shards are those of a table that may have rows for the place that is written.
func (s *Sorting) Shards(t *schema.Table) []base.ShardID {
	all := t.Shards()
	if s == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(sh base.ShardID) bool {
		p := t.PlacedAt(sh)
		switch {
		case t.Desc.Locality.Kind == schema.Global:
			return s.Mine != 0
		case p.ID == 0:
			return false
		}
		return s.Mine == 0 || !p.Regions.Has(s.Mine)
	})
}

// Placements are those in which rows of a table lie.
func Placements(d *schema.TableDesc) []base.Placed {
	if d.Locality.Sets != nil {
		return d.Locality.Sets
	}
	return d.Locality.Places()
}

// Placed reports whether a table has rows with a placement.
func Placed(d *schema.TableDesc) bool {
	return slices.ContainsFunc(Placements(d), func(p base.Placed) bool { return p.ID != 0 })
}

// Unread names a table that is left out.
func Unread(d *schema.TableDesc) string {
	if d.Locality.Parts != nil {
		return d.DB + "." + d.Name + " (with PLACEMENT BY)"
	}
	if d.Locality.Sets != nil {
		return d.DB + "." + d.Name + " (spread over a placement in which not all regions vote)"
	}
	if d.Locality.Placed.ID != 0 {
		return d.DB + "." + d.Name + " (with a placement)"
	}
	return d.DB + "." + d.Name
}
