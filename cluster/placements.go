package cluster

import (
	"context"
	"fmt"

	"github.com/godwitdb/godwit/base"
)

// PlacementLacks is what is missing until tables may lie in a placement; empty if nothing is.
// Package cluster/placed asks.
func (c *Cluster) PlacementLacks(ctx context.Context, t *base.Topology, id base.PlacementID) string {
	for _, g := range t.Groups() {
		if p := t.PlacementOf(g.Shard()); p != nil && p.Number() == id && c.dir.Leader(g) == 0 {
			return fmt.Sprintf("group %v has no leader yet", g)
		}
	}
	// PLACE-1: a node that does not know of the groups forgets outcomes for which they ask.
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, missing := c.askReady(ctx, t, regionQuery{Topology: t.Version})
	return missing
}

// NewestTopology asks the meta group for the topology.
func (c *Cluster) NewestTopology(ctx context.Context) (*base.Topology, error) {
	if _, err := c.readTopology(ctx); err != nil {
		return nil, err
	}
	return c.Topology(), nil
}

// foundPlacements opens the groups of placements of which this node is one of the first members.
func (c *reconciliation) foundPlacements(t *base.Topology) error {
	if c.disk.FoundPlacement == nil {
		return nil
	}
	for i := range t.Placements {
		p := &t.Placements[i]
		if !p.Holds(t.RegionOf(c.self)) {
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
