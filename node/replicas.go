package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/owner/rewind"
	"github.com/godwitdb/godwit/wire"
)

// directory is the cluster, which is made after the parts that need it.
type directory struct{ *cluster.Cluster }

// replicas opens groups on this node and removes the data of those that leave it.
type replicas struct {
	self  base.NodeID
	set   *owner.Set
	host  *group.Host
	dir   *directory
	store *store.Store

	mu   base.Turn             // held while a group is opened, which writes
	left map[base.ShardID]bool // shards of which a group was here, so that data may have to be removed
	shut map[base.ShardID]bool // shards that are being taken out of the store: no group is opened
}

// removable takes a replica out of service when its group has left the node.
type removable struct {
	*owner.Replica
	reps *replicas
}

// Removed implements group.Remover.
func (r removable) Removed() {
	r.reps.mu.Lock()
	defer r.reps.mu.Unlock()
	r.reps.set.Remove(r.ID())
	r.reps.left[r.ID().Shard()] = true
}

func (r *replicas) Open(g base.GroupID, members group.Conf, founding bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.set.Replica(g) != nil || r.shut[g.Shard()] || r.store.Fetching(g.Shard()) {
		return nil
	}
	rep, err := r.set.Add(g)
	if err != nil {
		return err
	}
	if !founding {
		members = group.Conf{}
	}
	grp, err := r.host.Open(g, members, removable{rep, r}, func() base.NodeID {
		if r.dir.Cluster == nil {
			return 0
		}
		if n := r.dir.Preferred(g); r.dir.Fit(n) {
			return n
		}
		return 0
	})
	if err != nil {
		r.set.Remove(g)
		return err
	}
	rep.Attach(grp)
	return nil
}

// close takes all groups of shards out of service, until reopen.
func (r *replicas) close(shards []base.ShardID) error {
	r.mu.Lock()
	for _, s := range shards {
		r.shut[s] = true
	}
	r.mu.Unlock()
	for _, g := range r.Held() {
		if !slices.Contains(shards, g.Shard()) {
			continue
		}
		r.set.Remove(g)
		if err := r.host.Remove(g, false); err != nil && r.host.Group(g) != nil {
			return err
		}
	}
	return nil
}

// reopen lets groups of shards be opened again.
func (r *replicas) reopen(shards []base.ShardID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range shards {
		delete(r.shut, s)
	}
}

// Held implements cluster.Replicas.
func (r *replicas) Held() []base.GroupID {
	var ids []base.GroupID
	for _, rep := range r.set.Replicas() {
		ids = append(ids, rep.ID())
	}
	return ids
}

// Recount implements cluster.Replicas.
func (r *replicas) Recount() { r.set.Recount() }

// OldestOpen implements cluster.Replicas.
func (r *replicas) OldestOpen() base.Timestamp { return r.set.OldestOpen() }

// Lacks implements cluster.Replicas.
func (r *replicas) Lacks(region base.RegionID) string {
	t := r.dir.Topology()
	for _, g := range t.RegionGroups(region) {
		if slices.Contains(t.ShardReplicas(g.Shard()), r.self) {
			if why := r.set.Lacks(g); why != "" {
				return why
			}
		}
	}
	return ""
}

// Left implements cluster.Replicas. A group with an applied index has data here. Shards without one
// are remembered, to remove what is left of them.
func (r *replicas) Left() (left []base.GroupID, err error) {
	stored, err := r.store.Groups()
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, g := range stored {
		applied, err := r.store.Applied(g)
		if err != nil {
			return nil, err
		}
		if r.left[g.Shard()] = true; applied > 0 && r.set.Replica(g) == nil {
			left = append(left, g)
		}
	}
	return left, nil
}

// Sweep implements cluster.Replicas.
func (r *replicas) Sweep(wanted func(base.ShardID) bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range r.left {
		if wanted(s) || slices.ContainsFunc(r.set.Replicas(), func(rep *owner.Replica) bool { return rep.ID().Shard() == s }) {
			continue
		}
		if err := r.store.ClearShard(s); err != nil {
			return fmt.Errorf("clear shard %d: %w", s, err)
		}
		delete(r.left, s)
	}
	return nil
}

// Loads implements cluster.Replicas.
func (r *replicas) Loads(g base.GroupID) map[gauge.Asker]gauge.Load {
	rep := r.set.Replica(g)
	if rep == nil {
		return nil
	}
	return rep.Loads()
}

func (r *replicas) Leads() []*wire.GroupLead       { return r.set.Leads() }
func (r *replicas) OnLeads(l []*wire.GroupLead)    { r.set.OnLeads(l) }
func (r *replicas) CommitLead() time.Duration      { return r.set.CommitLead() }
func (r *replicas) ClosedChanged() <-chan struct{} { return r.set.ClosedChanged() }
func (r *replicas) Released() []*wire.GroupRelease { return r.set.Released() }
func (r *replicas) OnReleased(from base.NodeID, l []*wire.GroupRelease) {
	r.set.OnReleased(from, l)
}
func (r *replicas) MetaNewest(k base.Key) (newest, complete base.Timestamp) {
	return r.set.MetaNewest(k)
}
func (r *replicas) Complete() base.Timestamp { return r.set.Complete() }

// Group implements cluster.Replicas.
func (r *replicas) Group(g base.GroupID) cluster.Group {
	if grp := r.host.Group(g); grp != nil {
		return grp
	}
	return nil // and not a nil *group.Group in the interface
}

// Leased implements cluster.Replicas.
func (r *replicas) Leased(g base.GroupID) bool {
	rep := r.set.Replica(g)
	if rep == nil {
		return false
	}
	_, ok := rep.Serving()
	return ok
}

// Closes implements cluster.Replicas.
func (r *replicas) Closes(g base.GroupID) bool {
	rep := r.set.Replica(g)
	return rep != nil && rep.Closes()
}

// ClockSteps implements cluster.Replicas.
func (r *replicas) ClockSteps() (*wire.ClockOrder, []*wire.ClockOrder) {
	if rep := r.set.Replica(base.MetaGroup); rep != nil {
		return rep.ClockSteps()
	}
	return &wire.ClockOrder{}, nil
}

// OrderClock implements cluster.Replicas.
func (r *replicas) OrderClock(ctx context.Context, o *wire.ClockOrder, raise base.Timestamp) error {
	rep := r.set.Replica(base.MetaGroup)
	if rep == nil {
		return base.Errorf(base.CodeNotLeader, "the meta group has no replica here")
	}
	return rep.OrderClock(ctx, o, raise)
}

// Reached implements cluster.Replicas.
func (r *replicas) Reached() base.Timestamp {
	if rep := r.set.Replica(base.MetaGroup); rep != nil {
		return rep.Reached()
	}
	return 0
}

// Describe implements cluster.Replicas.
func (r *replicas) Describe(g base.GroupID, s *cluster.GroupStatus) {
	rep := r.set.Replica(g)
	if rep == nil {
		return
	}
	s.ClosedLag = time.Since(rep.Closed().Time())
	if l := rep.Lead(); l != nil {
		s.Serving = true
		s.Lease = time.Until(base.Timestamp(l.LeaseEnd).Time())
	}
	for _, t := range rep.Txns() {
		s.Locks += t.Locks
		if t.Phase == "prepared" {
			s.Prepared++
		}
	}
}

// HeldHere implements cluster.Replicas.
func (r *replicas) HeldHere(g base.GroupID) (uint64, base.Timestamp, uint32) {
	return r.set.HeldHere(g)
}

// HeldChanged implements cluster.Replicas.
func (r *replicas) HeldChanged() { r.set.HeldChanged() }

// AwaitHeld implements cluster.Replicas.
func (r *replicas) AwaitHeld(ctx context.Context, g base.GroupID, index uint64, closed base.Timestamp) bool {
	return r.set.AwaitHeld(ctx, g, index, closed)
}

// Freeze implements cluster.Replicas.
func (r *replicas) Freeze(g base.GroupID, on bool) {
	r.set.Freeze(g, on)
	if grp := r.host.Group(g); grp != nil {
		grp.Freeze(on)
	}
}

// lostRecord is the name of the local record that lists what a group's copy here held above the cut
// of a promotion.
func lostRecord(promotion uint64, g base.GroupID) string {
	return fmt.Sprintf("lost/%d/%d", promotion, g)
}

// Rewind implements cluster.Replicas.
func (r *replicas) Rewind(g base.GroupID, incarnation uint32, p *base.Promotion, source bool) error {
	if have, err := r.store.Incarnation(g); err != nil || have >= incarnation {
		return err
	}
	if r.set.Replica(g) != nil {
		r.set.Remove(g)
		if err := r.host.Remove(g, false); err != nil && r.host.Group(g) != nil {
			return err
		}
	}
	return r.set.Rewind(rewind.Rewinding{Group: g, Incarnation: incarnation, Cut: p.Cut, Source: source},
		func(l rewind.Lost) error {
			return saveJSON(r.store, lostRecord(p.ID, g), l)
		})
}
