package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/godwitdb/godwit/base"
)

// A region is added while the cluster is in use (docs/protocol.md, REGION-1 to REGION-3). Each step
// is a change of the topology, made by the node that leads the meta group once all nodes are ready
// for it:
//
//  1. A node joins with the name of a region that the cluster does not have. The region is opening:
//     the nodes found its groups, and its own nodes are sent all shards.
//  2. When every node has the groups of the shards that it holds, and hears of what they close, the
//     region is joining: readers count its groups.
//  3. When every node does so, the region is active, and rows may be at home there.

const askRegion = "region"

// regions are this node's part in that.
type regions struct {
	*env
	placement Placement
	stepping  atomic.Bool

	mu    sync.Mutex
	waits map[base.RegionID]string // what regions wait for, as of the last look; only where the meta group is led
}

func newRegions(e *env, p Placement) *regions {
	return &regions{env: e, placement: p, waits: map[base.RegionID]string{}}
}

// acts notes that this node acts by a version of the topology: its replicas are open, and count.
func (m *membership) acts(version uint64) {
	for {
		old := m.acted.Load()
		if version <= old || m.acted.CompareAndSwap(old, version) {
			return
		}
	}
}

// regionQuery asks a node whether a region may go on to its next state.
type regionQuery struct {
	Region   base.RegionID `json:"region"`
	Topology uint64        `json:"topology"` // the node has to act by this version
}

type regionReply struct {
	// Lacks is what the node waits for; empty: it is ready.
	Lacks string `json:"lacks"`
}

// onRegion answers a regionQuery.
func (c *regions) onRegion(q regionQuery) regionReply {
	t := c.Topology()
	if v := c.acted.Load(); v < q.Topology {
		return regionReply{fmt.Sprintf("it acts by topology %d, and not yet by %d", v, q.Topology)}
	}
	if r := t.Region(q.Region); r == nil || r.State != base.RegionOpening {
		return regionReply{}
	}
	return regionReply{c.placement.Lacks(q.Region)}
}

// stepRegions brings regions that come to their next state. It runs on every node, and does
// something where the meta group is led.
func (c *regions) stepRegions(ctx context.Context, t *base.Topology) {
	r, ok := nextToStep(t)
	if !ok || !c.groups.Leased(base.MetaGroup) || !c.stepping.CompareAndSwap(false, true) {
		return
	}
	c.work.done.Go(func() {
		defer c.stepping.Store(false)
		lacks := c.askReady(ctx, t, r.ID)
		c.mu.Lock()
		c.waits[r.ID] = lacks
		c.mu.Unlock()
		if lacks != "" {
			return
		}
		_, err := c.Change(ctx, func(now *base.Topology) error { return step(now, r) })
		switch {
		case err == nil:
			c.log.Info("a region was brought on", "region", r.Name, "from", r.State)
		case !errors.Is(err, errStepped) && ctx.Err() == nil:
			c.log.Warn("a region cannot be brought on, trying again", "region", r.Name, "from", r.State, "err", err)
		}
	})
}

// nextToStep is a region that is on its way in.
func nextToStep(t *base.Topology) (base.Region, bool) {
	for _, r := range t.Regions {
		if r.State == base.RegionJoining {
			return r, true
		}
	}
	if len(t.Opening) > 0 {
		return t.Opening[0], true
	}
	return base.Region{}, false
}

// askReady asks all nodes whether a region may go on, and returns what is missing; empty if nothing
// is. A node that does not answer may act by an old topology, and show rows as they were: it is
// waited for until it is back or is decommissioned (REGION-2).
func (c *regions) askReady(ctx context.Context, t *base.Topology, r base.RegionID) string {
	q := regionQuery{Region: r, Topology: t.Version}
	var mu sync.Mutex
	var wg sync.WaitGroup
	lacks := map[base.NodeID]string{}
	for _, n := range t.Nodes {
		if n.Gone && !c.Live(n.ID) {
			continue
		}
		wg.Go(func() {
			a, err := c.onRegion(q), error(nil)
			if n.ID != c.self {
				a, err = question[regionReply](ctx, c.env, n.ID, askRegion, q)
			}
			if err != nil {
				a.Lacks = fmt.Sprintf("it does not answer (%v): start it, or decommission it", err)
			}
			if a.Lacks != "" {
				mu.Lock()
				lacks[n.ID] = a.Lacks
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for _, n := range t.Nodes {
		if why := lacks[n.ID]; why != "" {
			return fmt.Sprintf("waits for node %d: %s", n.ID, why)
		}
	}
	return ""
}

// errStepped: another node has done so.
var errStepped = errors.New("the region has been brought on already")

// step brings a region to its next state.
func step(t *base.Topology, r base.Region) error {
	switch have := t.Region(r.ID); {
	case have == nil || have.State != r.State:
		return errStepped
	case r.State == base.RegionJoining:
		have.State = base.RegionActive
		return nil
	}
	t.Opening = slices.DeleteFunc(t.Opening, func(x base.Region) bool { return x.ID == r.ID })
	r.State = base.RegionJoining
	t.Regions = append(t.Regions, r)
	slices.SortFunc(t.Regions, func(a, b base.Region) int { return int(a.ID) - int(b.ID) })
	return nil
}

// regionWaits is what regions wait for that are on their way; none where the meta group is not led.
func (c *regions) regionWaits(t *base.Topology) map[base.RegionID]string {
	if !c.groups.Leased(base.MetaGroup) {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[base.RegionID]string{}
	for r, why := range c.waits {
		if x := t.Region(r); x != nil && why != "" && x.State != base.RegionActive && x.State != base.RegionGone {
			out[r] = why
		}
	}
	return out
}
