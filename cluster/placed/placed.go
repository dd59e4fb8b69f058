// Package placed makes and drops placements, and makes shards that tables have for themselves,
// while the cluster is in use (docs/protocol.md, PLACE-1 to PLACE-4, PLACE-7, SPLIT-1 to SPLIT-4).
// Their groups are founded as soon as nodes hear of them, and can be used once all nodes act by
// them.
package placed

import (
	"context"
	"errors"
	"slices"
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
	// Lacks is what is missing until tables may lie where some groups are; empty if nothing is.
	Lacks(ctx context.Context, t *base.Topology, groups []base.GroupID) string
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
	lacks, err := usable(ctx, c, t, func(s base.ShardID) bool {
		p := t.PlacementOf(s)
		return t.OwnOf(s) == nil && p != nil && p.Number() == id
	})
	if err != nil {
		return err
	}
	if lacks != "" {
		return base.Errorf(base.CodeUnavailable, "placement %s is made, but cannot be used yet: %s: the same statement "+
			"waits for it again, and DROP PLACEMENT takes it back", name, lacks)
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

// usable waits until tables may lie in some shards, and returns what is missing if the context ends
// before; empty: nothing is. CodeCanceled: the statement that waits was killed.
func usable(ctx context.Context, c Cluster, t *base.Topology, in func(base.ShardID) bool) (lacks string, _ error) {
	groups := slices.DeleteFunc(t.Groups(), func(g base.GroupID) bool { return g == base.MetaGroup || !in(g.Shard()) })
	for {
		now := c.Lacks(ctx, t, groups)
		if now == "" {
			return "", nil
		}
		if lacks == "" || ctx.Err() == nil { // else nobody had the time to answer
			lacks = now
		}
		select {
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) { // the statement was killed
				return "", base.Ended(ctx)
			}
			return lacks, nil
		case <-time.After(poll):
		}
	}
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
