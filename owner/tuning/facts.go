package tuning

import (
	"time"

	"github.com/godwitdb/godwit/base"
)

// Where nothing is told.
const (
	defaultEvery = 100 * time.Millisecond
	defaultAhead = 500 * time.Millisecond
)

// Facts are what a node knows of the cluster around it.
type Facts struct {
	// Alone reports that the cluster has no other node: then nobody else can
	// read a clock and commit wait is skipped. Nil is never.
	Alone func() bool
	// Ahead is how far ahead of now the meta group closes timestamps, so that every node can
	// validate catalog reads locally: twice the largest one-way delay, the heartbeat interval, and
	// slack. Nil is 500 ms.
	Ahead func() time.Duration
	// Hold is how far ahead of now the meta group's leader promises that the catalog does not
	// change (OWN-17): as long as it takes to notice its death and to elect another one. Nil: it
	// promises nothing.
	Hold func() time.Duration
	// Gone reports that a gateway which gave a sign of life at since is known to have died: its
	// node has been silent for a while, or has been started again. Nil is never.
	Gone func(gateway base.NodeID, since time.Time) bool
	// Lost reports that what is sent to a gateway does not arrive or is handled late, whatever
	// comes from it. It lives, and can neither use its locks nor give them back. Nil is never.
	Lost func(gateway base.NodeID) bool
	// QuorumDelay is added to a commit timestamp (TIME-4). Nil: what the group's commits are
	// seen to take.
	QuorumDelay func(base.GroupID) time.Duration
	// QuorumRTT is the round trip from this node to the nearest majority of a group's replicas, as
	// measured; 0 if unknown. It bounds what commits are assigned ahead. Nil: no bound.
	QuorumRTT func(base.GroupID) time.Duration
	// Farthest is the longest round trip to a node: what the path takes at least, and what it takes
	// now; 0 if none is known. Leases are as short as that allows. Nil: they have their greatest
	// length.
	Farthest func() (path, trip time.Duration)
	// Grace is how long a node that no longer leads a group has to answer what it was asked before
	// that; again: what may be repeated elsewhere meanwhile. Nil is 1 s, and 200 ms.
	Grace func(to base.NodeID, again bool) time.Duration
	// Every is the current heartbeat interval of a group's leader, as this node receives it. Nil is
	// 100 ms.
	Every func(base.GroupID) time.Duration
	// Groups are all groups of the cluster. Each must have said that it has nothing undecided of an
	// age before outcomes of that age are forgotten (OWN-11). Nil: outcomes are never forgotten.
	Groups func() []base.GroupID

	// MayLive reports whether rows of a shard may be given a home in a region (REGION-4, PLACE-2).
	// Nil: in all.
	MayLive func(base.ShardID, base.RegionID) bool
	// HomeIn is where rows of a shard are at home whose gateway's region is given. Nil: there.
	HomeIn func(base.ShardID, base.RegionID) base.RegionID

	// Keep lowers the timestamp up to which old versions may be collected to one that leaves alone
	// what somebody still reads (package kv/hold); 0: nothing may be collected. Nil lowers nothing.
	Keep func(below base.Timestamp) base.Timestamp

	// Region is this node's; nil: forwarded statements count as this node's own.
	Region func() base.RegionID
}

// Unheard reports that a gateway which gave a sign of life at since does not end its transactions.
func (f *Facts) Unheard(gateway base.NodeID, since time.Time) bool {
	return f.Gone(gateway, since) || f.Lost(gateway)
}

// Fill sets what must not be nil.
func (f *Facts) Fill() {
	if f.Alone == nil {
		f.Alone = func() bool { return false }
	}
	if f.Gone == nil {
		f.Gone = func(base.NodeID, time.Time) bool { return false }
	}
	if f.MayLive == nil {
		f.MayLive = func(base.ShardID, base.RegionID) bool { return true }
	}
	if f.HomeIn == nil {
		f.HomeIn = func(_ base.ShardID, r base.RegionID) base.RegionID { return r }
	}
	if f.Lost == nil {
		f.Lost = func(base.NodeID) bool { return false }
	}
	if f.Keep == nil {
		f.Keep = func(below base.Timestamp) base.Timestamp { return below }
	}
	if f.Every == nil {
		f.Every = func(base.GroupID) time.Duration { return defaultEvery }
	}
	if f.Ahead == nil {
		f.Ahead = func() time.Duration { return defaultAhead }
	}
}

// Trips are what Farthest says; 0 if nothing is known.
func (f *Facts) Trips() (path, trip time.Duration) {
	if f.Farthest == nil {
		return 0, 0
	}
	return f.Farthest()
}
