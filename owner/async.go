package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
)

// Groups of asynchronous shards have all their voters in one region, so what they have committed may be lost with it. The
// other regions then go on from a cut: a timestamp at or below which they have everything of that region
// (PROTOCOLS D2). What must not be lost waits until it lies at or below the cut (D1):
//
//	I13 A vote of an asynchronous group in a transaction that does not stay within the asynchronous groups of its region is
//	    told to nobody before another region has it, and the cut has reached all that the transaction has read. (Not its
//	    own lower bound: its undecided votes hold the cut below the smallest of theirs, which lies above what it has read.)
//	I14 What another region says at a timestamp, as owner of rows that came to it or as a replica, lies at or below the cut.

// async reports whether the group replicates to other regions asynchronously.
func (r *Replica) async() bool { return r.isAsync }

// mixed reports whether a vote here binds groups that would not be lost together with this one.
func (r *Replica) mixed(participants []uint32) bool {
	if !r.async() {
		return false
	}
	for _, p := range participants {
		if g := base.GroupID(p); g.Region() != r.region || !r.cfg.Held.Async(g.Shard()) {
			return true
		}
	}
	return false
}

// waitHeld waits until other regions have the log of an asynchronous group up to index, and the cut of its region is ts.
func (r *Replica) waitHeld(ctx context.Context, g base.GroupID, index uint64, ts base.Timestamp) error {
	held := func() bool {
		i, cut := r.cfg.Held.HeldOf(g)
		return i >= index && cut >= ts
	}
	if !held() {
		r.cfg.Held.AskHeld(g, index, ts)
	}
	return r.await(ctx, r.cfg.EnterTimeout, held, "group %v: no other region has confirmed in time that it holds what this request relies on", g)
}

// came is what a request learned of rows that other regions have handed over: the newest hand-over of each.
type came struct {
	newest [base.MaxRegions + 1]base.Timestamp
	// of are the incarnations of the shard's groups as they were before anything was looked up.
	of [base.MaxRegions + 1]uint32
}

// noIncarnation is that of a group without a replica here, perhaps because it is beginning anew.
const noIncarnation = ^uint32(0)

func (r *Replica) incarnationOf(region int) uint32 {
	if sib := r.set.siblings(r.shard)[region]; sib != nil {
		return sib.incarnation
	}
	return noIncarnation
}

// begin is called before the rows are looked up.
func (c *came) begin(r *Replica) {
	if r.async() {
		for i := range c.of {
			c.of[i] = r.incarnationOf(i)
		}
	}
}

// note takes the writer and timestamp of a version whose label makes this group the owner.
func (c *came) note(r *Replica, w base.GroupIndex, ts base.Timestamp) {
	if w.Region != r.region && w.Index != 0 && int(w.Region) < len(c.newest) {
		c.newest[w.Region] = max(c.newest[w.Region], ts)
	}
}

// settled waits until the hand-overs survive the loss of the regions that made them (I14). If such a region is promoted over meanwhile,
// the hand-over may have been discarded, and what was looked up counts no more: the cut of the new incarnation says nothing of it.
func (c *came) settled(ctx context.Context, r *Replica) error {
	if !r.async() {
		return nil
	}
	for region, ts := range c.newest {
		from := base.DataGroup(r.shard, base.RegionID(region))
		// Also where both vote in the same place since a promotion: lost together, they have a cut each.
		if ts == 0 {
			continue
		}
		if err := r.waitHeld(ctx, from, 0, ts); err != nil {
			return err
		}
		if inc := c.of[region]; inc == noIncarnation || inc != r.incarnationOf(region) {
			return base.Errorf(base.CodeUnavailable, "group %v: region %d, which handed rows over, has been promoted over meanwhile: retry", r.id, region)
		}
	}
	return nil
}

// HeldHere is what this replica has: everything up to a log index, and all that commits at or below a timestamp.
func (s *Set) HeldHere(g base.GroupID) (index uint64, closed base.Timestamp, incarnation uint32) {
	r := s.Replica(g)
	if r == nil {
		return 0, 0, 0
	}
	// In this order: what is closed was applied before. It is asked for with locks of replicas held.
	closed = base.Timestamp(r.closed.Load())
	return r.applied.Load(), closed, r.incarnation
}

// AwaitHeld waits until the replica here has what HeldHere would say: a log index and a closed timestamp. False: it does not come about.
func (s *Set) AwaitHeld(ctx context.Context, g base.GroupID, index uint64, closed base.Timestamp) bool {
	r := s.Replica(g)
	return r != nil && r.await(ctx, r.cfg.EnterTimeout, func() bool {
		return r.applied.Load() >= index && base.Timestamp(r.closed.Load()) >= closed
	}, "group %v: what is held here has not come about", g) == nil
}

// HeldChanged tells that Held.HeldOf may answer more than before.
func (s *Set) HeldChanged() {
	for _, r := range s.Replicas() {
		if r.async() {
			r.mu.Lock()
			if r.waiting > 0 {
				r.wake()
			}
			r.mu.Unlock()
		}
	}
}

// voteHeld makes a vote known only when the rest of the cluster may rely on it (I13).
func (r *Replica) voteHeld(ctx context.Context, participants []uint32, index uint64, depends base.Timestamp) error {
	if !r.mixed(participants) {
		return nil
	}
	if err := r.waitHeld(ctx, r.id, index, depends); err != nil {
		return base.Errorf(base.CodeAmbiguous, "%v", err)
	}
	return nil
}

// Freeze keeps the words of leaders from a replica, so that it takes nothing more for closed, or lets them in again.
func (s *Set) Freeze(g base.GroupID, on bool) {
	if r := s.Replica(g); r != nil {
		r.frozen.Store(on)
	}
}
