package cluster

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/owner/gauge"
	"github.com/godwitdb/godwit/wire"
)

// Replicas are the replicas on this node as a Cluster needs them. Each part of a Cluster takes only
// the interfaces that it uses.
type Replicas interface {
	Groups
	Placement
	Leads
	Progress
	ClockLog
	Copies
	Incarnations
	Requests
	Describer
}

// Groups are the consensus groups that have a replica open on this node.
type Groups interface {
	// Held lists them.
	Held() []base.GroupID
	// Group is nil if the group has no replica here.
	Group(g base.GroupID) Group
	// Leased reports whether this node leads a group under a valid lease.
	Leased(g base.GroupID) bool
	// Closes reports whether this node leads a group under a valid lease, although it may not serve
	// yet (OWN-15).
	Closes(g base.GroupID) bool
}

// Group is a consensus group as one of its members sees it; [group.Group] implements it and says
// what the methods do.
type Group interface {
	Leader() (base.NodeID, uint64)
	Leads() (term uint64, ok bool)
	Status() group.Status
	Transfer(to base.NodeID) error
	ChangeMembers(ctx context.Context, voters, learners []base.NodeID) error
	Fresh() bool
	Abandoned() bool
	Abandon()
}

// Placement opens replicas and clears up after those that have left.
type Placement interface {
	// Open makes the replica of a group on this node; it is no error if it exists.
	// founding starts a fresh group from the members given.
	Open(g base.GroupID, members group.Conf, founding bool) error
	// Recount has reads and closed timestamps take account of the groups that count by the newest
	// topology.
	Recount()
	// OldestOpen is when the oldest transaction began that is open in a group led here.
	OldestOpen() base.Timestamp
	// Lacks says what is missing until the groups of a region can count here; empty if nothing is.
	Lacks(r base.RegionID) string
	// Left are groups with a replica on disk that is not open: those of before a restart.
	Left() ([]base.GroupID, error)
	// Sweep removes the data of shards of which no group is left here and that are not wanted.
	Sweep(wanted func(base.ShardID) bool) error
}

// Leads exchange with other nodes what leaders announce of their groups: term, applied index,
// closed timestamp.
type Leads interface {
	// Leads are the announcements of the groups led here.
	Leads() []*wire.GroupLead
	// OnLeads takes the announcements of another node's leaders.
	OnLeads(leads []*wire.GroupLead)
	// Released and OnReleased exchange what leaders say that stopped while they live (TIME-1c).
	Released() []*wire.GroupRelease
	OnReleased(from base.NodeID, released []*wire.GroupRelease)
	// CommitLead is how far ahead of now the leaders here assign commit timestamps, at most.
	CommitLead() time.Duration
}

// Progress says up to when the replicas here are complete.
type Progress interface {
	// Complete is the timestamp up to which all shards held here are complete; 0 if that is unknown
	// or none is held.
	Complete() base.Timestamp
	// ClosedChanged is closed when a closed timestamp has risen since the call.
	ClosedChanged() <-chan struct{}
	// MetaNewest is the commit timestamp of the newest version of a key of the meta shard here, 0
	// if there is none, and up to when the shard is complete.
	MetaNewest(base.Key) (newest, complete base.Timestamp)
}

// ClockLog is the log of the clock mode's steps, in the meta group.
type ClockLog interface {
	// ClockSteps are the clock mode in force, as the meta replica here knows it, and the newest
	// steps that led to it.
	ClockSteps() (now *wire.ClockOrder, steps []*wire.ClockOrder)
	// OrderClock logs a step of the clock mode, at the meta group's leader; the oracle has reached
	// raise before it counts.
	OrderClock(ctx context.Context, o *wire.ClockOrder, raise base.Timestamp) error
	// Reached is what the oracle has reached; 0 if it is not here.
	Reached() base.Timestamp
}

// Copies say how much of a group's log has arrived here.
type Copies interface {
	// HeldHere is what the replica here has of an incarnation of a group: everything up to a log
	// index, and all that commits at or below a timestamp.
	HeldHere(g base.GroupID) (index uint64, closed base.Timestamp, incarnation uint32)
	// HeldChanged is called when Cluster.HeldOf may answer more than before.
	HeldChanged()
	// AwaitHeld waits until the replica here has its group's log up to index, and all that commits
	// at or below closed; false if that does not come about.
	AwaitHeld(ctx context.Context, g base.GroupID, index uint64, closed base.Timestamp) bool
}

// Incarnations are what a promotion changes of the replicas here.
type Incarnations interface {
	// Freeze keeps a replica from learning more of its group, or lets it learn again.
	Freeze(g base.GroupID, on bool)
	// Rewind makes what is on disk of a group part of a new incarnation, if it is not: what lies
	// above the cut is discarded and reported. source: the incarnation begins with this node's
	// copy.
	Rewind(g base.GroupID, incarnation uint32, p *base.Promotion, source bool) error
}

// Requests count what a leader is asked for.
type Requests interface {
	// Loads are the requests to this node as a group's leader, by the node that asked, since the
	// process began.
	Loads(g base.GroupID) map[gauge.Asker]gauge.Load
}

// Describer completes a status.
type Describer interface {
	// Describe adds what the leader knows of a group led here.
	Describe(g base.GroupID, s *GroupStatus)
}
