package cluster

import (
	"context"
	"log/slog"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/cluster/join"
	"github.com/godwitdb/godwit/cluster/upgrade"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// Options of a Cluster. All fields without a default are required.
type Options struct {
	Self base.NodeID
	// Knows is the newest cluster version that this node's build knows. Default: VersionNewest.
	Knows     base.ClusterVersion
	Identity  *join.Identity
	Transport wan.Transport
	Clock     *clock.Clock
	Replicas  Replicas
	Paths     Paths // nil: all are direct
	Logger    *slog.Logger
	Disk      Disk
	Listeners Listeners
	Process   Process
	Trust     Trust
	Vitals    Vitals
	Pace      Pace
}

// Paths is how messages reach this node and the others: directly, or over others while the direct
// path is cut.
type Paths interface {
	// Detoured reports whether the heartbeat of a node that is handled now came over others.
	Detoured(from base.NodeID) bool
	// Elsewhere reports whether another node hears a node. If so it lives, and messages will soon
	// reach it again.
	Elsewhere(id base.NodeID) bool
	// Cut lists the nodes whose direct path is cut, and on which way each is reached instead,
	// itself last; nil if on none.
	Cut() map[base.NodeID][]base.NodeID
	// Parted lists those of them to which no way leads, though others may hear them.
	Parted() []base.NodeID
}

// Disk is what this node keeps of the cluster over a restart.
type Disk struct {
	// Founding lets this node start fresh groups as one of their first members: only in its first
	// life, or a replica that was removed and its data cleared would begin anew by itself.
	Founding bool
	// Found calls found, which opens the first replicas of groups that began after the cluster, in
	// this node's first life with them only: what they are is named by a record, of package
	// cluster/placed. Nil: it is never called.
	Found func(record string, found func() error) error
	// Stored is the newest topology on disk; nil if none.
	Stored *base.Topology
	// SaveTopology keeps a newer topology on disk.
	SaveTopology func(*base.Topology) error
	// Promised is the newest promise on disk, and Promise keeps another one there. SetVersion has
	// the store opened only by builds that know a version. Nil: nothing is promised, and all do.
	Promised   upgrade.Promise
	Promise    func(upgrade.Promise) error
	SetVersion func(base.ClusterVersion) error
}

// Listeners are called when something happens to the cluster; each may be nil.
type Listeners struct {
	// OnTopology gets each newer topology.
	OnTopology func(*base.Topology)
	// OnGone is called, once, when this node has been decommissioned and holds no replica any more.
	OnGone func()
	// OnSilent gets a node whose process has most likely ended: nothing was heard of it for
	// Pace.SilentAfter, or it was started again. OnBack gets one that answers, at first or again.
	OnSilent, OnBack func(base.NodeID)
	// OnLate gets a node that most of the others find late, this one among them, at each heartbeat
	// at which they do: it handles late what arrives, though its heartbeats come.
	OnLate func(base.NodeID)
}

// Process is what only the rest of this process knows; each may be nil.
type Process struct {
	// Describe fills in what only this process knows of itself.
	Describe func(*NodeStatus)
	// Answer answers questions of other nodes that this package does not know (Cluster.Ask); nil,
	// nil: neither does it.
	Answer func(name string, body []byte) ([]byte, error)
	// Load is the number of statements in flight at this node.
	Load func() int
	// RowsStay reports whether no policy moves rows between regions: then groups follow their load.
	// Nil: it may.
	RowsStay func() bool
	// Evacuate has the rows of a group led here move to a region, and says how many are left, and
	// of what; empty: none. Nil: they do not move.
	Evacuate func(ctx context.Context, g base.GroupID, to base.RegionID) (left string, err error)
	// Bound are the tables, by name, whose rows live in a region as their locality says. Nil: none.
	Bound func(ctx context.Context, r base.RegionID) ([]string, error)
}

// Trust is how this node comes to trust its clock.
type Trust struct {
	// Steady is the clock's source, if it notices when it is set; may be nil.
	Steady *clock.Steady
	// SourceName names the clock's source; may be nil.
	SourceName func() string
	// ModeLease is how long this node may act in a clock mode without hearing the meta group's
	// leader. Default 5 s.
	ModeLease time.Duration
	// NoFence has the node issue although its clock is found wrong: for tests of what that breaks.
	NoFence bool
	// NoProof has it go by its clock before others have confirmed it (MODE-9): for the same.
	NoProof bool
	// FarLeads has it keep its leads where a round trip to a majority takes long: for the same.
	FarLeads bool
}

// Pace is how often a node does what it does regularly.
type Pace struct {
	// HeartbeatEvery is the time between heartbeats. Default 100 ms.
	HeartbeatEvery time.Duration
	// NoticeEvery is the time between closed timestamps sent to nodes that wait for them. Default
	// 10 ms; negative: only heartbeats carry them.
	NoticeEvery time.Duration
	// SilentAfter is how long no heartbeat may come from a node before OnSilent. Default ten
	// heartbeats.
	SilentAfter time.Duration
	// LostAfter is how long no heartbeat may come from a node, or none of ours reach it, before
	// requests to it end. Default fifteen heartbeats.
	LostAfter time.Duration
	// ReconcileEvery is the time between looks at where replicas should be. Default 500 ms.
	ReconcileEvery time.Duration
}

// fill sets what is left to its default.
func (p *Pace) fill() {
	setDefault(&p.HeartbeatEvery, 100*time.Millisecond)
	setDefault(&p.NoticeEvery, 10*time.Millisecond)
	setDefault(&p.SilentAfter, 10*p.HeartbeatEvery)
	setDefault(&p.LostAfter, 15*p.HeartbeatEvery)
	setDefault(&p.ReconcileEvery, 500*time.Millisecond)
}

func setDefault(d *time.Duration, to time.Duration) {
	if *d == 0 {
		*d = to
	}
}
