package tuning

import "github.com/godwitdb/godwit/base"

// Held knows what other regions hold of the groups that replicate to them asynchronously; package
// cluster does from heartbeats.
type Held interface {
	// Async reports whether the groups of a shard are such.
	Async(s base.ShardID) bool
	// Confirmed reports whether this process knows that no other node has taken over from it while
	// it was away.
	Confirmed() bool
	// Away reports whether this node is in another region than the voters of an asynchronous group.
	Away(g base.GroupID) bool
	// HeldOf: another region has the log of the group up to index, and other regions have all that
	// commits at or below cut in any asynchronous group of its region. Neither ever shrinks while a
	// region is not lost.
	HeldOf(g base.GroupID) (index uint64, cut base.Timestamp)
	// Sees reports whether this node's own copy of an asynchronous group counts in HeldOf.
	Sees(g base.GroupID) bool
	// AskHeld asks other regions to say so as soon as HeldOf has reached both. It does not wait.
	AskHeld(g base.GroupID, index uint64, cut base.Timestamp)
}

// Mixed reports whether some of the participants of a vote would not be lost together with an
// asynchronous group.
func Mixed(h Held, g base.GroupID, participants []uint32) bool {
	for _, p := range participants {
		if o := base.GroupID(p); o.Region() != g.Region() || !h.Async(o.Shard()) {
			return true
		}
	}
	return false
}
