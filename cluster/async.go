package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/group"
	"github.com/godwitdb/godwit/wire"
)

// held is what is known, from pulses, of the copies of asynchronous groups outside their region.
type held struct {
	mu sync.Mutex
	at map[base.GroupID]map[base.NodeID]copyAt
	// promotions is the number of them that the topology had.
	promotions int
}

// copyAt says how much a replica has: everything up to a log index, and all that commits at or below a timestamp.
type copyAt struct {
	index  uint64
	closed base.Timestamp
}

// heldHere is what this node has of the asynchronous groups of other regions.
func (c *Cluster) heldHere(t *base.Topology) (out []*wire.GroupHeld) {
	mine := t.RegionOf(c.o.Self)
	for _, r := range t.Regions {
		if t.Votes(r.ID, mine) {
			continue
		}
		out = append(out, c.heldOf(r.ID, t)...)
	}
	return out
}

func (c *Cluster) heldOf(region base.RegionID, t *base.Topology) (out []*wire.GroupHeld) {
	for _, g := range t.AsyncGroups(region) {
		if index, closed, inc := c.o.Replicas.HeldHere(g); index > 0 {
			out = append(out, &wire.GroupHeld{Group: uint32(g), Index: index, Closed: uint64(closed), Incarnation: inc})
		}
	}
	return out
}

func (c *Cluster) onHeld(from base.NodeID, hs []*wire.GroupHeld) {
	t := c.Topology()
	if t.Async == 0 {
		return
	}
	c.held.mu.Lock()
	if c.held.at == nil || c.held.promotions != len(t.Promotions) {
		// What was said of earlier incarnations no longer holds.
		c.held.at, c.held.promotions = map[base.GroupID]map[base.NodeID]copyAt{}, len(t.Promotions)
	}
	for _, h := range hs {
		g := base.GroupID(h.Group)
		if h.Incarnation != t.Incarnation(g) {
			continue
		}
		if c.held.at[g] == nil {
			c.held.at[g] = map[base.NodeID]copyAt{}
		}
		c.held.at[g][from] = copyAt{h.Index, base.Timestamp(h.Closed)}
	}
	c.held.mu.Unlock()
	c.o.Replicas.HeldChanged()
}

// Async reports whether the groups of a shard replicate to other regions asynchronously.
func (c *Cluster) Async(s base.ShardID) bool {
	t := c.Topology()
	return t.IsAsync(s) && len(t.Regions) > 1
}

// aloneFor is how long a process that hears of no other region takes for granted that it was not promoted over while it was away.
const aloneFor = 10 * time.Second

// Confirmed reports whether another region has told this process a topology that is no newer than its own, or
// none can be heard: groups whose region was given up for lost have a new incarnation elsewhere.
func (c *Cluster) Confirmed() bool {
	return c.confirmed.Load() || c.peers.mono() > aloneFor
}

// confirm takes the version of the topology that a node knows.
func (c *Cluster) confirm(from base.NodeID, version uint64) {
	if t := c.Topology(); !c.confirmed.Load() && version <= t.Version && t.RegionOf(from) != t.RegionOf(c.o.Self) {
		c.confirmed.Store(true)
		c.o.Replicas.HeldChanged()
	}
}

// Away reports whether what this node says of an asynchronous group must survive the loss of the region in which the group votes: it is
// elsewhere, or voters that move to it have not arrived.
func (c *Cluster) Away(g base.GroupID) bool {
	t := c.Topology()
	return t.RegionOf(c.o.Self) != t.Seat(g.Region()) || t.Moving(g.Region())
}

// HeldOf is what other regions hold of an asynchronous group, as far as this node has heard: one of their nodes has its log
// up to index, and of all asynchronous groups of its region some node elsewhere has all that commits at or below cut.
// What lies at or below the cut survives the loss of the region.
func (c *Cluster) HeldOf(g base.GroupID) (index uint64, cut base.Timestamp) {
	t := c.Topology()
	if index, _, inc := c.o.Replicas.HeldHere(g); index > 0 && inc != t.Incarnation(g) {
		return 0, 0 // what is here of it has not begun anew yet: nobody may go by that
	}
	own := !t.Votes(g.Region(), t.RegionOf(c.o.Self))
	cut = base.MaxTimestamp
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	for _, x := range t.AsyncGroups(g.Region()) {
		var best copyAt
		if own {
			if index, closed, inc := c.o.Replicas.HeldHere(x); inc == t.Incarnation(x) {
				best = copyAt{index, closed}
			}
		}
		for n, h := range c.held.at[x] {
			if t.Votes(g.Region(), t.RegionOf(n)) {
				continue // from before its region voted
			}
			best.index, best.closed = max(best.index, h.index), max(best.closed, h.closed)
		}
		if cut = min(cut, best.closed); x == g {
			index = best.index
		}
	}
	return index, cut
}

// errArrived: somebody else has said so.
var errArrived = errors.New("the voters are known to have arrived")

// arrived says in the topology which of the groups led here have all their voters where they shall be.
func (c *Cluster) arrived(ctx context.Context, t *base.Topology) {
	there := map[base.GroupID]bool{}
	for _, r := range t.Regions {
		if p := t.Promoted(r.ID); p != nil { // what is said of earlier ones no longer matters
			for _, id := range p.Moving {
				if g := c.o.Replicas.Group(id); g != nil && c.atSeat(t, g.Status(), id) {
					there[id] = true
				}
			}
		}
	}
	if len(there) == 0 {
		return
	}
	if !c.arriving.CompareAndSwap(false, true) {
		return
	}
	c.done.Go(func() {
		defer c.arriving.Store(false)
		_, err := c.Change(ctx, func(now *base.Topology) error {
			now.Promotions = slices.Clone(now.Promotions)
			changed := false
			for id := range there {
				if now.Incarnation(id) != t.Incarnation(id) || now.Seat(id.Region()) != t.Seat(id.Region()) {
					continue // it is moving to elsewhere by now
				}
				if p := now.Promoted(id.Region()); p != nil && slices.Contains(p.Moving, id) {
					p.Moving = slices.DeleteFunc(slices.Clone(p.Moving), func(g base.GroupID) bool { return g == id })
					changed = true
				}
			}
			if !changed {
				return errArrived
			}
			return nil
		})
		if err != nil && !errors.Is(err, errArrived) && ctx.Err() == nil {
			c.o.Logger.Warn("that groups have moved cannot be said, trying again", "err", err)
		}
	})
}

// atSeat reports whether a group that is led here has all its voters in the region where they shall be.
func (c *Cluster) atSeat(t *base.Topology, s group.Status, id base.GroupID) bool {
	elsewhere := func(n base.NodeID) bool { return t.RegionOf(n) != t.Seat(id.Region()) }
	if _, _, incarnation := c.o.Replicas.HeldHere(id); incarnation != t.Incarnation(id) {
		return false
	}
	return s.IsLeader && s.Serving && len(s.Outgoing) == 0 && len(s.Voters) > 0 && !slices.ContainsFunc(s.Voters, elsewhere)
}

// foundAsync opens the asynchronous groups of which this node is one of the first members.
func (c *Cluster) foundAsync(t *base.Topology) error {
	for _, r := range t.Regions {
		for _, g := range t.AsyncGroups(r.ID) {
			voters, learners := FirstMembers(t, g)
			if !slices.Contains(voters, c.o.Self) && !slices.Contains(learners, c.o.Self) {
				continue
			}
			if err := c.o.Replicas.Open(g, group.Conf{Voters: voters, Learners: learners}, true); err != nil {
				return err
			}
		}
	}
	return nil
}

// EnableAsync makes the shards of asynchronous tables, if there are none, and waits until their groups have leaders.
func (c *Cluster) EnableAsync(ctx context.Context) error {
	if c.Topology().Async == 0 {
		if _, err := c.Change(ctx, func(t *base.Topology) error {
			t.Async = t.Shards
			return nil
		}); err != nil {
			return err
		}
	}
	for {
		missing := base.MetaGroup
		t := c.Topology()
		for _, r := range t.Regions {
			for _, g := range t.AsyncGroups(r.ID) {
				if c.dir.Leader(g) == 0 {
					missing = g
				}
			}
		}
		if missing == base.MetaGroup {
			return nil
		}
		select {
		case <-ctx.Done():
			return base.Errorf(base.CodeUnavailable, "group %v of asynchronous tables has no leader yet: retry", missing)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// AwaitHeld waits until other regions hold all that asynchronous groups have committed until now.
func (c *Cluster) AwaitHeld(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, topologyTimeout)
	defer cancel()
	now := c.o.Clock.Latest()
	for {
		t := c.Topology()
		behind := ""
		for _, r := range t.Regions {
			if gs := t.AsyncGroups(r.ID); len(gs) > 0 && len(t.Regions) > 1 {
				if _, cut := c.HeldOf(gs[0]); cut < now {
					behind = r.Name
				}
			}
		}
		if behind == "" {
			return nil
		}
		select {
		case <-ctx.Done():
			return base.Errorf(base.CodeUnavailable, "no other region has confirmed in time what the asynchronous tables of region %s hold", behind)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
