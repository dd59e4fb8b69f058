// Package placed makes and drops placements while the cluster is in use (docs/protocol.md, PLACE-1
// to PLACE-4, PLACE-7). The groups of one are founded as soon as nodes hear of it, and it can be
// used once all of them act by it.
package placed

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/placement"
)

// Cluster is what this needs of the node's part in the cluster.
type Cluster interface {
	// Change rewrites the topology, and NewestTopology asks the meta group for it.
	Change(ctx context.Context, fn func(*base.Topology) error) (*base.Topology, error)
	NewestTopology(ctx context.Context) (*base.Topology, error)
	// Near is the round trip between two regions; 0 if it is not known.
	Near(a, b base.RegionID) time.Duration
	// PlacementLacks is what is missing until tables may lie in a placement; empty if nothing is.
	PlacementLacks(ctx context.Context, t *base.Topology, id base.PlacementID) string
}

// poll is how often it is looked whether a placement can be used.
const poll = 20 * time.Millisecond

// Create makes a placement of some regions, the first of which gets the rows of clients
// elsewhere, and waits until it can be used. If that was begun before and has not come to its end,
// it is brought to it.
func Create(ctx context.Context, c Cluster, s base.PlacementSpec) error {
	t, err := c.Change(ctx, func(t *base.Topology) error { return placement.Add(t, s, c.Near) })
	if err != nil {
		return err
	}
	name, id := s.Name, t.PlacementByName(s.Name).ID
	for lacks := ""; ; {
		now := c.PlacementLacks(ctx, t, id)
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
		case <-time.After(poll):
		}
	}
	_, err = c.Change(ctx, func(t *base.Topology) error {
		p := t.Placement(id)
		if p.Dropped {
			return base.Errorf(base.CodeInvalid, "placement %s was dropped meanwhile", name)
		}
		for _, x := range t.CopySets(id) {
			x.Opening = false
		}
		return nil
	})
	return err
}

// Drop takes a placement away. The caller makes sure that no table lies there and none will.
func Drop(ctx context.Context, c Cluster, name string) error {
	_, err := c.Change(ctx, func(t *base.Topology) error { return placement.Drop(t, name) })
	return err
}

// Named is the placement of a name, by the newest topology.
func Named(ctx context.Context, c Cluster, name string) (base.Placed, error) {
	t, err := c.NewestTopology(ctx)
	if err != nil {
		return base.Placed{}, err
	}
	return placement.Named(t, name)
}
