package placement

import (
	"slices"

	"github.com/godwitdb/godwit/base"
)

// AddOwn finds, or adds, a set of so many shards in each of some placements that no table uses; 0
// is no placement. used says which sets have tables. It returns the shards before the sets, by the
// placements, and fails if the cluster cannot have such sets now.
func AddOwn(t *base.Topology, places []base.PlacementID, shards int, used func(before int) bool) (map[base.PlacementID]int, error) {
	switch {
	case !t.Allows(base.VersionOwnShards):
		return nil, t.NotYet("ALTER TABLE ... SPLIT INTO", base.VersionOwnShards)
	case t.Concurrency.Ordered():
		return nil, base.Errorf(base.CodeInvalid, "tables have no shards of their own in clusters that order transactions by timestamps")
	case shards < 1 || shards > base.MaxOwnShards:
		return nil, base.Errorf(base.CodeInvalid, "a table has 1 to %d shards of its own, and not %d", base.MaxOwnShards, shards)
	}
	out := map[base.PlacementID]int{}
	for _, id := range places {
		if _, twice := out[id]; twice {
			continue
		}
		if id != 0 && t.Placement(id) == nil {
			return nil, base.Errorf(base.CodeInvalid, "there is no placement %d", id)
		}
		at := slices.IndexFunc(t.Own, func(o base.OwnShards) bool {
			return o.Placement == id && o.Shards == shards && !used(o.Before)
		})
		if at < 0 {
			// A region on its way counts the shards that there were as it came (REGION-2).
			if r := onItsWay(t); id == 0 && r != nil {
				return nil, base.Errorf(base.CodeInvalid, "region %s is being added or dropped: a table gets shards of its own when that "+
					"is done (`godwit status` says how far it is)", r.Name)
			}
			if t.NextOwn()+shards >= int(base.EpochShard) {
				return nil, base.Errorf(base.CodeInvalid, "no %d shards are left for a table of its own: those of tables that were "+
					"dropped or moved are used again by tables that ask for as many", shards)
			}
			t.Own = append(t.Own, base.OwnShards{Before: t.NextOwn(), Shards: shards, Placement: id, Opening: true})
			at = len(t.Own) - 1
		}
		out[id] = t.Own[at].Before
	}
	return out, nil
}

// onItsWay is a region that comes or goes; nil if there is none.
func onItsWay(t *base.Topology) *base.Region {
	for _, r := range t.Present() {
		if r.State != base.RegionActive {
			return &r
		}
	}
	return nil
}

// ownShards are the shards that tables have for themselves, with the replicas that the rule wants.
// Those in one placement, or in all regions, are placed like one family: so the nodes of a region
// hold as many of them each, however few the sets have.
func ownShards(t *base.Topology) []base.OwnShards {
	out := slices.Clone(t.Own)
	families := map[base.PlacementID][]int{}
	for i := range out {
		families[out[i].Placement] = append(families[out[i].Placement], i)
	}
	for id, family := range families {
		placeFamily(t, id, out, family)
	}
	for i := range out {
		o := &out[i]
		if o.First == nil {
			o.First = slices.Clone(o.Replicas)
		}
		if o.Placement != 0 {
			continue
		}
		o.Later = slices.Clone(o.Later)
		for _, r := range t.Opening {
			// AddOwn makes no set while a region comes, so this one came later.
			if o.BeganWith(r.ID) {
				o.Later = append(o.Later, base.LaterRegion{Region: r.ID, First: slices.Clone(o.Replicas)})
			}
		}
	}
	return out
}

// placeFamily places the sets in one placement.
func placeFamily(t *base.Topology, id base.PlacementID, sets []base.OwnShards, family []int) {
	old := *t
	old.Replicas = nil
	for _, i := range family {
		before := sets[i].Replicas
		if before == nil {
			before = make([][]base.NodeID, sets[i].Shards)
		}
		old.Replicas = append(old.Replicas, before...)
	}
	placed := make([][]base.NodeID, len(old.Replicas))
	add := func(r base.RegionID, want func(nodes int) int) {
		nodes := standing(t, r)
		for s, set := range placeShards(&old, nodes, 0, len(placed), want(len(nodes))) {
			placed[s] = append(placed[s], set...)
		}
	}
	regions, readers := presentIDs(t), []base.RegionID(nil)
	if p := t.Placement(id); p != nil {
		regions, readers = p.Regions, p.Readers
	}
	for k, r := range regions {
		add(r, func(nodes int) int { return replicasPerRegion(len(regions), k, nodes) })
	}
	for _, r := range readers {
		add(r, func(nodes int) int { return min(1, nodes) })
	}
	for _, i := range family {
		sets[i].Replicas, placed = placed[:sets[i].Shards:sets[i].Shards], placed[sets[i].Shards:]
	}
}

func presentIDs(t *base.Topology) (out []base.RegionID) {
	for _, r := range t.Present() {
		out = append(out, r.ID)
	}
	return out
}
