package cluster

import (
	"context"
	"fmt"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/placement"
)

// A placement is made and dropped while the cluster is in use (docs/protocol.md, PLACE-1 to
// PLACE-4). Its groups are founded as soon as nodes hear of it, and it can be used once all of them
// act by it.

// CreatePlacement makes a placement of some regions, the first of which gets the rows of clients
// elsewhere, and waits until it can be used. If that was begun before and has not come to its end,
// it is brought to it.
func (c *Cluster) CreatePlacement(ctx context.Context, name string, regions []string) error {
	t, err := c.Change(ctx, func(t *base.Topology) error { return placement.Add(t, name, regions) })
	if err != nil {
		return err
	}
	id := t.PlacementByName(name).ID
	for lacks := ""; ; {
		now := c.placementLacks(ctx, t, id)
		if now == "" {
			break
		}
		if lacks == "" || ctx.Err() == nil { // else nobody had the time to answer
			lacks = now
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
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, missing := c.askReady(ctx, t, regionQuery{Topology: t.Version})
	return missing
}

// DropPlacement takes a placement away. The caller makes sure that no table lies there and none
// will.
func (c *Cluster) DropPlacement(ctx context.Context, name string) error {
	_, err := c.Change(ctx, func(t *base.Topology) error { return placement.Drop(t, name) })
	return err
}

// PlacementNamed is the placement of a name, by the newest topology.
func (c *Cluster) PlacementNamed(ctx context.Context, name string) (base.Placed, error) {
	if _, err := c.readTopology(ctx); err != nil {
		return base.Placed{}, err
	}
	return placement.Named(c.Topology(), name)
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
