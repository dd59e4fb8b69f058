package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/policy/placement"
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
//
// It is dropped by a command, in the same way (REGION-4, REGION-5):
//
//  1. The region is leaving: the topology says which one takes its rows over. Rows of its clients
//     are at home there from now on, and no owner gives a row to the region.
//  2. Whoever leads one of its groups has their rows move to the region that takes them over.
//  3. When every node knows that it is leaving, all transactions of before are decided, no row has
//     its home there and none of its nodes leads a group, the region is gone, with its nodes. Its
//     groups stay: the gaps between rows are theirs.

const askRegion = "region"

// regions are this node's part in that.
type regions struct {
	*env
	placement Placement
	progress  Progress
	stepping  atomic.Bool

	process  Process
	emptying atomic.Bool

	mu sync.Mutex
	// What regions wait for, as of the last look; only where the meta group is led.
	waits map[base.RegionID]string
	// When all nodes knew that a region is leaving, and from when on no transaction of before is
	// open; the same.
	known, past map[base.RegionID]base.Timestamp
	empty       map[base.GroupID]emptied // of groups led here whose region is leaving
}

// emptied says how far the rows of a group have moved to the region that takes them over.
type emptied struct {
	since base.Timestamp // up to when the node knew all commits as the look began
	left  string         // what has not moved; empty: nothing
}

func newRegions(e *env, p Placement, progress Progress, process Process) *regions {
	return &regions{env: e, placement: p, progress: progress, process: process, waits: map[base.RegionID]string{},
		known: map[base.RegionID]base.Timestamp{}, past: map[base.RegionID]base.Timestamp{},
		empty: map[base.GroupID]emptied{}}
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
	// Open asks whether a transaction is open that began before.
	Open base.Timestamp `json:"open,omitempty"`
	// Since asks which groups of the region have no rows, by a look at all commits up to then.
	Since base.Timestamp `json:"since,omitempty"`
}

type regionReply struct {
	// Lacks is what the node waits for; empty: it is ready.
	Lacks string `json:"lacks"`
	// Empty are the groups led here that have no rows.
	Empty []base.GroupID `json:"empty,omitempty"`
}

// onRegion answers a regionQuery.
func (c *regions) onRegion(q regionQuery) regionReply {
	t := c.Topology()
	if v := c.acted.Load(); v < q.Topology {
		return regionReply{Lacks: fmt.Sprintf("it acts by topology %d, and not yet by %d", v, q.Topology)}
	}
	r := t.Region(q.Region)
	switch {
	case r == nil:
	case r.State == base.RegionOpening:
		return regionReply{Lacks: c.placement.Lacks(q.Region)}
	case c.placement.OldestOpen() < q.Open:
		return regionReply{Lacks: "a transaction that began before all nodes knew that the region leaves is still open there"}
	case r.State == base.RegionLeaving && q.Since > 0:
		return c.emptiness(t, q)
	}
	return regionReply{}
}

// stepRegions brings regions that come to their next state. It runs on every node, and does
// something where the meta group is led.
func (c *regions) stepRegions(ctx context.Context, t *base.Topology) {
	regions := onTheirWay(t)
	if len(regions) == 0 || !c.groups.Leased(base.MetaGroup) || !c.stepping.CompareAndSwap(false, true) {
		return
	}
	c.work.done.Go(func() {
		defer c.stepping.Store(false)
		for _, r := range regions { // one that waits holds up no other
			c.stepRegion(ctx, t, r)
		}
	})
}

func (c *regions) stepRegion(ctx context.Context, t *base.Topology, r base.Region) {
	lacks := c.ready(ctx, t, r)
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
}

// ready asks all nodes whether a region may go on, and returns what is missing; empty if nothing
// is.
func (c *regions) ready(ctx context.Context, t *base.Topology, r base.Region) string {
	q := regionQuery{Region: r.ID, Topology: t.Version}
	_, lacks := c.askReady(ctx, t, q)
	if lacks != "" || r.State != base.RegionLeaving {
		return lacks
	}
	q.Open = c.onceNow(c.known, r.ID)
	if _, lacks := c.askReady(ctx, t, q); lacks != "" {
		return lacks
	}
	q.Since = c.onceNow(c.past, r.ID).Add(aheadAtMost)
	empty, lacks := c.askReady(ctx, t, q)
	for _, g := range t.RegionGroups(r.ID) {
		if lacks == "" && !slices.Contains(empty, g) {
			lacks = fmt.Sprintf("waits for the leader of group %v to say that no rows are left there", g)
		}
	}
	return lacks
}

// aheadAtMost is how far ahead of now owners assign commit timestamps, at most.
const aheadAtMost = time.Second

// onceNow is the time of the first call for a region.
func (c *regions) onceNow(at map[base.RegionID]base.Timestamp, r base.RegionID) base.Timestamp {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at[r] == 0 {
		at[r] = c.clock.Latest()
	}
	return at[r]
}

// onTheirWay are the regions that come or go.
func onTheirWay(t *base.Topology) (out []base.Region) {
	for _, r := range t.Present() {
		if r.State != base.RegionActive {
			out = append(out, r)
		}
	}
	return out
}

// askReady asks all nodes, and returns the groups without rows, and what is missing until the
// region may go on; empty if nothing is. A node that does not answer may act by an old topology,
// and show rows as they were: it is waited for until it is back or is decommissioned (REGION-2).
func (c *regions) askReady(ctx context.Context, t *base.Topology, q regionQuery) (empty []base.GroupID, missing string) {
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
			mu.Lock()
			defer mu.Unlock()
			lacks[n.ID] = a.Lacks
			empty = append(empty, a.Empty...)
		})
	}
	wg.Wait()
	for _, n := range t.Nodes {
		if why := lacks[n.ID]; why != "" {
			return empty, fmt.Sprintf("waits for node %d: %s", n.ID, why)
		}
	}
	return empty, ""
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
	case r.State == base.RegionLeaving:
		have.State = base.RegionGone
		for i := range t.Nodes {
			t.Nodes[i].Gone = t.Nodes[i].Gone || t.Nodes[i].Region == r.ID
		}
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

// # Dropping

// DropRegion lets a region leave: its rows move to another one, and then it and its nodes are gone.
// An empty name chooses the nearest region.
func (c *regions) DropRegion(ctx context.Context, name, into string) (*base.Topology, error) {
	if id := c.Topology().RegionByName(name); id != 0 && c.process.Bound != nil {
		tables, err := c.process.Bound(ctx, id)
		switch {
		case err != nil:
			return nil, err
		case len(tables) > 0:
			return nil, base.Errorf(base.CodeInvalid, "the rows of %s live in region %s as their locality says: "+
				"ALTER TABLE ... SET LOCALITY, or drop them, first", strings.Join(tables, ", "), name)
		}
	}
	return c.Change(ctx, func(t *base.Topology) error { return leave(t, name, into, c.Near) })
}

// Near is the round trip between two regions; 0 if it is not known.
func (c *regions) Near(a, b base.RegionID) time.Duration {
	t := c.Topology()
	best := time.Duration(0)
	for _, x := range t.NodesIn(a) {
		for _, y := range t.NodesIn(b) {
			if d := c.Between(x, y); d > 0 && (best == 0 || d < best) {
				best = d
			}
		}
	}
	return best
}

// leave makes a region leave, for a named region, or the nearest one.
func leave(t *base.Topology, name, into string, near func(a, b base.RegionID) time.Duration) error {
	r := t.Region(t.RegionByName(name))
	switch {
	case r == nil:
		return base.Errorf(base.CodeInvalid, "there is no region %q that is part of the cluster; its regions are %v", name,
			regionNames(t))
	case r.State == base.RegionLeaving:
		return base.Errorf(base.CodeInvalid, "region %s is being dropped already: see `godwit status`", name)
	case r.State != base.RegionActive:
		return base.Errorf(base.CodeInvalid, "region %s is still being added: see `godwit status`", name)
	case !t.Allows(base.VersionRegions):
		return t.NotYet("to drop a region", base.VersionRegions)
	case t.Async > 0:
		return base.Errorf(base.CodeInvalid, "this cluster has had asynchronous tables, whose groups vote in the region of "+
			"their rows: no region can be dropped")
	}
	if err := placement.Removable(t, r); err != nil {
		return err
	}
	to, err := takerOf(t, r, into, near)
	if err != nil {
		return err
	}
	r.State, r.Into = base.RegionLeaving, to
	return nil
}

// takerOf is the region that gets the rows of another one.
func takerOf(t *base.Topology, r *base.Region, name string, near func(a, b base.RegionID) time.Duration) (base.RegionID, error) {
	to := base.RegionID(0)
	for _, x := range t.Regions {
		if x.ID == r.ID || x.State != base.RegionActive || name != "" && x.Name != name {
			continue
		}
		if d := near(r.ID, x.ID); to == 0 || d > 0 && d < near(r.ID, to) {
			to = x.ID
		}
	}
	switch {
	case to != 0:
		return to, nil
	case name != "":
		return 0, base.Errorf(base.CodeInvalid, "region %q cannot take over the rows of %s: the others are %v", name, r.Name,
			regionNames(t))
	}
	return 0, base.Errorf(base.CodeInvalid, "region %s is the last that has rows: add another one first", r.Name)
}

// evacuate has the rows of leaving regions move whose groups are led here.
func (c *regions) evacuate(ctx context.Context, t *base.Topology) {
	leaving := slices.DeleteFunc(onTheirWay(t), func(r base.Region) bool { return r.State != base.RegionLeaving })
	if len(leaving) == 0 || c.process.Evacuate == nil || c.acted.Load() < t.Version || !c.emptying.CompareAndSwap(false, true) {
		return
	}
	c.work.done.Go(func() {
		defer c.emptying.Store(false)
		for _, g := range groupsOf(t, leaving) {
			if ctx.Err() != nil || !c.groups.Leased(g) {
				continue
			}
			since := c.progress.Complete()
			left, err := c.process.Evacuate(ctx, g, t.HomeFor(g.Region()))
			if err != nil {
				left = fmt.Sprintf("its rows cannot be read: %v", err)
			}
			c.mu.Lock()
			c.empty[g] = emptied{since, left}
			c.mu.Unlock()
		}
	})
}

func groupsOf(t *base.Topology, regions []base.Region) (gs []base.GroupID) {
	for _, r := range regions {
		gs = append(gs, t.RegionGroups(r.ID)...)
	}
	return gs
}

// emptiness says which groups led here have no rows any more, and what the others wait for.
func (c *regions) emptiness(t *base.Topology, q regionQuery) (a regionReply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mine := t.RegionOf(c.self) == q.Region
	for _, g := range t.AllGroups() {
		if !c.groups.Leased(g) {
			continue
		}
		e := c.empty[g]
		switch {
		case mine:
			a.Lacks = fmt.Sprintf("it still leads group %v", g)
		case g.Region() != q.Region || g == base.MetaGroup:
		case e.left != "":
			a.Lacks = fmt.Sprintf("group %v: %s", g, e.left)
		case e.since >= q.Since:
			a.Empty = append(a.Empty, g)
		}
	}
	return a
}
