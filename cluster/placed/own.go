package placed

import (
	"context"
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/placement"
)

// Beginning are groups that began after the cluster, at the same time.
type Beginning struct {
	// Record names what a node keeps on disk once it has opened the first replicas here.
	Record string
	Groups []base.GroupID
}

// Beginnings are the groups that began after the cluster, as far as a node may hold them: those of
// asynchronous tables, of regions that came later, of placements, and of shards that tables have
// for themselves.
func Beginnings(t *base.Topology, self base.NodeID) (out []Beginning) {
	if t.Async > 0 {
		b := Beginning{Record: "founded-async"}
		for _, r := range t.Regions {
			b.Groups = append(b.Groups, t.AsyncGroups(r.ID)...)
		}
		out = append(out, b)
	}
	for _, l := range t.Later {
		b := Beginning{Record: fmt.Sprintf("founded-region/%d", l.Region)}
		for _, g := range t.RegionGroups(l.Region) {
			if o := t.OwnOf(g.Shard()); o == nil || !o.BeganWith(l.Region) {
				b.Groups = append(b.Groups, g)
			}
		}
		out = append(out, b)
	}
	if len(t.Placements) == 0 && len(t.Own) == 0 {
		return out
	}
	places, own := map[base.PlacementID][]base.GroupID{}, map[int][]base.GroupID{}
	for _, g := range t.AllGroups() {
		switch o, p := t.OwnOf(g.Shard()), t.PlacementOf(g.Shard()); {
		case o != nil && o.BeganWith(g.Region()):
			own[o.Before] = append(own[o.Before], g)
		case o == nil && p != nil:
			places[p.ID] = append(places[p.ID], g)
		}
	}
	for i := range t.Placements {
		if p := &t.Placements[i]; p.Holds(t.RegionOf(self)) {
			out = append(out, Beginning{fmt.Sprintf("founded-placement/%d", p.ID), places[p.ID]})
		}
	}
	for i := range t.Own {
		if o := &t.Own[i]; t.MayHold(o.Shard(0), self) {
			out = append(out, Beginning{fmt.Sprintf("founded-shards/%d", o.Before), own[o.Before]})
		}
	}
	return out
}

// OwnShards finds or makes a set of so many shards in each of some placements, for one table, and
// waits until they can be used. used says which sets have tables. It returns the shards before the
// sets, by the placements; 0 is none: all regions.
func OwnShards(ctx context.Context, c Cluster, places []base.PlacementID, shards int,
	used func(before int) bool) (map[base.PlacementID]int, error) {
	var sets map[base.PlacementID]int
	add := func(t *base.Topology) (err error) {
		sets, err = placement.AddOwn(t, places, shards, used)
		return err
	}
	t, err := c.NewestTopology(ctx)
	if err != nil {
		return nil, err
	}
	have := *t
	have.Own = slices.Clone(t.Own)
	if err := add(&have); err != nil {
		return nil, err
	}
	if len(have.Own) > len(t.Own) {
		if t, err = c.Change(ctx, add); err != nil {
			return nil, err
		}
	}
	mine := func(o *base.OwnShards) bool { return o != nil && sets[o.Placement] == o.Before }
	if !slices.ContainsFunc(t.Own, func(o base.OwnShards) bool { return o.Opening && mine(&o) }) {
		return sets, nil
	}
	if lacks, err := usable(ctx, c, t, func(s base.ShardID) bool { return mine(t.OwnOf(s)) }); err != nil {
		return nil, err
	} else if lacks != "" {
		return nil, base.Errorf(base.CodeUnavailable, "the table's own shards are made, but cannot be used yet: %s: the same "+
			"statement waits for them again", lacks)
	}
	_, err = c.Change(ctx, func(t *base.Topology) error {
		for i := range t.Own {
			if o := &t.Own[i]; mine(o) {
				o.Opening = false
			}
		}
		return nil
	})
	return sets, err
}
