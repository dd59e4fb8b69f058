package owner

import (
	"context"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/tuning"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Groups of asynchronous shards have all their voters in one region, so what they have committed
// may be lost with it. The other regions then go on from a cut: a timestamp at or below which they
// have everything of that region (REPL-2). What must not be lost waits until it lies at or
// below the cut (REPL-1): OWN-13 says which votes wait, OWN-14 which reads.

// async reports whether the group replicates to other regions asynchronously.
func (r *Replica) async() bool { return r.isAsync.Load() }

// mixed reports whether a vote here binds groups that would not be lost together with this one.
func (r *Replica) mixed(participants []uint32) bool {
	return r.async() && tuning.Mixed(r.cfg.Held, r.id, participants)
}

// waitHeld waits until other regions have the log of an asynchronous group up to index, and the cut
// of its region is ts.
func (r *Replica) waitHeld(ctx context.Context, g base.GroupID, index uint64, ts base.Timestamp) error {
	held := func() bool {
		i, cut := r.cfg.Held.HeldOf(g)
		return i >= index && cut >= ts
	}
	if !held() {
		r.cfg.Held.AskHeld(g, index, ts)
	}
	return r.await(ctx, r.cfg.EnterTimeout, held, "group %v: no other region has confirmed in time that it holds what "+
		"this request relies on", g)
}

// noIncarnation is that of a group without a replica here, perhaps because it is beginning anew.
const noIncarnation = ^uint32(0)

func (r *Replica) incarnationOf(region int) uint32 {
	if sib := r.set.siblings(r.shard)[region]; sib != nil {
		return sib.incarnation
	}
	return noIncarnation
}

// beginArrivals is called before the rows are looked up.
func (r *Replica) beginArrivals(c *view.Arrivals) {
	if r.async() {
		for i := range c.Of {
			c.Of[i] = r.incarnationOf(i)
		}
	}
}

// awaitArrivals waits until the hand-overs survive the loss of the regions that made them (OWN-14).
// If such a region is promoted over meanwhile, the hand-over may have been discarded, and what was
// looked up counts no more: the cut of the new incarnation says nothing of it.
func (r *Replica) awaitArrivals(ctx context.Context, c *view.Arrivals) error {
	if !r.async() {
		return nil
	}
	for region, ts := range c.Newest {
		from := base.DataGroup(r.shard, base.RegionID(region))
		// Also where both vote in the same place since a promotion: lost together, they have a cut
		// each.
		if ts == 0 {
			continue
		}
		if err := r.waitHeld(ctx, from, 0, ts); err != nil {
			return err
		}
		if inc := c.Of[region]; inc == noIncarnation || inc != r.incarnationOf(region) {
			return base.Errorf(base.CodeUnavailable,
				"group %v: region %d, which handed rows over, has been promoted over meanwhile: retry", r.id, region)
		}
	}
	return nil
}

// Sees reports whether votes of a group may be looked for in the copy here (AwaitVote).
func (s *Set) Sees(g base.GroupID) bool {
	r := s.Replica(g)
	return r != nil && r.async() && s.cfg.Groups != nil && s.cfg.Held.Sees(g)
}

// AwaitVote waits until a vote of an asynchronous group counts (REL-10): the copy here has its
// entry, and all that the vote depends on. A copy that a promotion asks about does not count: what
// comes to it after its answer is lost with the region. Codes: CodeUnavailable, CodeCanceled,
// CodeOverloaded: it does not come about here.
func (s *Set) AwaitVote(ctx context.Context, g base.GroupID, v *wire.VoteAt) error {
	if s.cfg.VotesUnheld {
		return nil
	}
	r := s.Replica(g)
	if r == nil || r.incarnation != v.Incarnation || !s.Sees(g) {
		return base.Errorf(base.CodeUnavailable, "group %v has no copy here in which a vote counts", g)
	}
	copies := []*Replica{r}
	for _, x := range s.cfg.Groups() {
		if x == g || x.Region() != g.Region() || !s.cfg.Held.Async(x.Shard()) {
			continue
		}
		y := s.Replica(x)
		if y == nil {
			return base.Errorf(base.CodeUnavailable, "group %v has no copy here to tell what region %d keeps", x, x.Region())
		}
		copies = append(copies, y)
	}
	if err := r.WaitApplied(ctx, v.Index, r.cfg.EnterTimeout); err != nil {
		return err
	}
	for _, y := range copies {
		if err := y.await(ctx, y.cfg.EnterTimeout, func() bool { return y.closed.Load() >= v.Depends },
			"group %v: nothing heard in time that closes what a vote depends on", y.id); err != nil {
			return err
		}
	}
	// In this order: a promotion freezes the copies before it asks what they hold.
	frozen := slices.ContainsFunc(copies, func(y *Replica) bool { return y.frozen.Load() })
	if frozen || s.Replica(g) != r || !s.Sees(g) {
		return base.Errorf(base.CodeUnavailable, "group %v: its region is being promoted over", g)
	}
	return nil
}

// HeldHere is what this replica has: everything up to a log index, and all that commits at or below
// a timestamp.
func (s *Set) HeldHere(g base.GroupID) (index uint64, closed base.Timestamp, incarnation uint32) {
	r := s.Replica(g)
	if r == nil {
		return 0, 0, 0
	}
	// In this order: what is closed was applied before. Callers may hold locks of replicas.
	closed = base.Timestamp(r.closed.Load())
	return r.applied.Load(), closed, r.incarnation
}

// AwaitHeld waits until the replica here has what HeldHere would say: a log index and a closed
// timestamp. False: it does not come about.
func (s *Set) AwaitHeld(ctx context.Context, g base.GroupID, index uint64, closed base.Timestamp) bool {
	r := s.Replica(g)
	return r != nil && r.await(ctx, r.cfg.EnterTimeout, func() bool {
		return r.applied.Load() >= index && base.Timestamp(r.closed.Load()) >= closed
	}, "group %v: what is held here has not come about", g) == nil
}

// HeldChanged says that Held.HeldOf may answer more than before.
func (s *Set) HeldChanged() {
	for _, r := range s.Replicas() {
		if r.async() {
			r.mu.Lock()
			r.wakeWaiting()
			r.mu.Unlock()
		}
	}
}

// voteHeld makes a vote known only when the rest of the cluster may rely on it (OWN-13).
func (r *Replica) voteHeld(ctx context.Context, participants []uint32, index uint64, depends base.Timestamp) error {
	if !r.mixed(participants) {
		return nil
	}
	if err := r.waitHeld(ctx, r.id, index, depends); err != nil {
		return base.Errorf(base.CodeAmbiguous, "%v", err)
	}
	return nil
}

// Freeze keeps the heartbeats of leaders from a replica, so that it takes nothing more for closed,
// or lets them in again.
func (s *Set) Freeze(g base.GroupID, on bool) {
	if r := s.Replica(g); r != nil {
		r.frozen.Store(on)
	}
}
