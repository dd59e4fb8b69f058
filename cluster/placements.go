package cluster

import (
	"context"
	"fmt"

	"github.com/godwitdb/godwit/base"
)

// Lacks is what is missing until tables may lie where some groups are; empty if nothing is. Package
// cluster/placed asks.
func (c *Cluster) Lacks(ctx context.Context, t *base.Topology, groups []base.GroupID) string {
	for _, g := range groups {
		if c.dir.Leader(g) == 0 {
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
