package cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// A placement is made and dropped while the cluster is in use (docs/protocol.md, PLACE-1 to
// PLACE-4). Its groups are founded as soon as nodes hear of it, and it can be used once all of them
// act by it.

// CreatePlacement makes a placement of some regions, the first of which gets the rows of clients
// elsewhere, and waits until it can be used. If that was begun before and has not come to its end,
// it is brought to it.
func (c *Cluster) CreatePlacement(ctx context.Context, name string, regions []string) error {
	t, err := c.Change(ctx, func(t *base.Topology) error { return addPlacement(t, name, regions) })
	if err != nil {
		return err
	}
	id := t.PlacementByName(name).ID
	for {
		lacks := c.placementLacks(ctx, t, id)
		if lacks == "" {
			break
		}
		select {
		case <-ctx.Done():
			return base.Errorf(base.CodeUnavailable, "placement %s is made, but cannot be used yet: %s: the same statement "+
				"waits for it again, and DROP PLACEMENT takes it back", name, lacks)
		case <-time.After(leaderPoll):
		}
	}
	_, err = c.Change(ctx, func(t *base.Topology) error {
		p := t.Placement(id)
		if p.Dropped {
			return base.Errorf(base.CodeInvalid, "placement %s was dropped meanwhile", name)
		}
		p.Opening = false
		return nil
	})
	return err
}

// placementLacks is what is missing until tables may lie in a placement; empty if nothing is.
func (c *Cluster) placementLacks(ctx context.Context, t *base.Topology, id base.PlacementID) string {
	for _, g := range t.Groups() {
		if p := t.PlacementOf(g.Shard()); p != nil && p.ID == id && c.dir.Leader(g) == 0 {
			return fmt.Sprintf("group %v has no leader yet", g)
		}
	}
	// PLACE-1: a node that does not know of the groups forgets outcomes for which they ask.
	_, missing := c.askReady(ctx, t, regionQuery{Topology: t.Version})
	return missing
}

// addPlacement adds a placement to a topology, or takes the groups of one that was dropped.
func addPlacement(t *base.Topology, name string, names []string) error {
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

// DropPlacement takes a placement away. The caller makes sure that no table lies there and none
// will.
func (c *Cluster) DropPlacement(ctx context.Context, name string) error {
	_, err := c.Change(ctx, func(t *base.Topology) error {
		p := t.PlacementByName(name)
		if p == nil {
			return noPlacement(t, name)
		}
		p.Dropped, p.Opening = true, false
		return nil
	})
	return err
}

// PlacementNamed is the placement of a name, by the newest topology.
func (c *Cluster) PlacementNamed(ctx context.Context, name string) (base.Placed, error) {
	if _, err := c.readTopology(ctx); err != nil {
		return base.Placed{}, err
	}
	t := c.Topology()
	p := t.PlacementByName(name)
	switch {
	case p == nil:
		return base.Placed{}, noPlacement(t, name)
	case p.Opening:
		return base.Placed{}, base.Errorf(base.CodeInvalid, "placement %s cannot be used yet: CREATE PLACEMENT %s with the same "+
			"regions waits until it can", name, name)
	}
	return p.Placed(), nil
}

func noPlacement(t *base.Topology, name string) error {
	var names []string
	for i := range t.Placements {
		if p := &t.Placements[i]; !p.Dropped {
			names = append(names, p.Name)
		}
	}
	return base.Errorf(base.CodeInvalid, "there is no placement %s: there are %v; CREATE PLACEMENT makes one", name, names)
}

// placedIn refuses to drop a region in which rows of a placement lie.
func placedIn(t *base.Topology, r *base.Region) error {
	for i := range t.Placements {
		if p := &t.Placements[i]; p.Has(r.ID) {
			return base.Errorf(base.CodeInvalid, "region %s is, or was, in placement %s (%s), whose groups have voters there: it "+
				"cannot be dropped", r.Name, p.Name, placementRegions(t, p))
		}
	}
	return nil
}

// foundPlacements opens the groups of placements of which this node is one of the first members.
func (c *reconciliation) foundPlacements(t *base.Topology) error {
	if c.disk.FoundPlacement == nil {
		return nil
	}
	for i := range t.Placements {
		p := &t.Placements[i]
		if !p.Has(t.RegionOf(c.self)) {
			continue
		}
		if err := c.disk.FoundPlacement(p.ID, func() error {
			for _, g := range t.AllGroups() {
				if t.PlacementOf(g.Shard()) == p {
					if err := c.foundIf(t, g); err != nil {
						return err
					}
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
