package group

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// Transport is what a Host needs of the WAN; *wan transports satisfy it.
type Transport interface {
	Handle(kind wire.Kind, h wan.Handler)
	HandleOrdered(kind wire.Kind, h func(from base.NodeID, body []byte))
	Send(to base.NodeID, kind wire.Kind, m wan.Msg) error
	Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp wan.Msg) error
	Region(id base.NodeID) base.RegionID
	// Lost reports whether nothing is known to arrive from a node, or there.
	Lost(id base.NodeID) bool
}

// Sharer is a Transport that can send what several nodes of one region need to that region once, as
// [overlay.Overlay] does. A Host uses it for the appends of groups with several members there.
//
// [overlay.Overlay]: https://pkg.go.dev/github.com/godwitdb/godwit/mechanism/wan/overlay#Overlay
type Sharer interface {
	// FansOut reports whether that is wanted now.
	FansOut(region base.RegionID) bool
	// SendShared sends each node its batch; message i of it ends with run Runs[i]-1, or with none
	// if that is 0.
	SendShared(region base.RegionID, runs [][]byte, shares []*wire.RaftShare) error
}

// HostOptions configures a Host. Self, Store and Transport are required; every
// other field has a default that suits a WAN.
type HostOptions struct {
	Self      base.NodeID
	Store     *store.Store
	Transport Transport

	// TickInterval is the unit of the three timeouts below. Default 100 ms.
	TickInterval time.Duration
	// HeartbeatTicks is how often a leader speaks when it has nothing to say. Default 5.
	HeartbeatTicks int
	// ElectionTicks is the least silence after which a follower campaigns; the
	// time drawn is between that and twice that. Default 15.
	ElectionTicks int

	// MaxMsgBytes bounds the entries of one append message. Default 128 KiB.
	MaxMsgBytes uint64
	// MinShared is the size in bytes from which on an append for several nodes of a region is sent
	// there once, if the transport is a Sharer. Default 256: less saves no more than the receipts
	// of its receivers take.
	MinShared int
	// MaxInflightMsgs and MaxInflightBytes bound what is under way to one
	// follower of one group: bytes / round trip is its greatest throughput.
	// Default 512 and 32 MiB (160 MiB/s over 200 ms).
	MaxInflightMsgs  int
	MaxInflightBytes uint64

	// MaxPending and MaxPendingBytes bound the proposals of one group that are
	// not answered yet; beyond it CodeOverloaded. Default 8192 and 64 MiB.
	MaxPending      int
	MaxPendingBytes int64
	// MaxCommandBytes bounds one encoded command. Default 32 MiB.
	MaxCommandBytes int
	// AmbiguousTicks is how long proposals outlive the leadership they were
	// made under, waiting to be seen applied or overwritten, before they are
	// answered CodeAmbiguous. Default three times ElectionTicks: an
	// election and the first commit after it.
	AmbiguousTicks int

	// A replica keeps LogKeepEntries applied entries, and at most LogKeepBytes
	// of them, for followers that lag. A leader keeps up to LogMaxBytes while a
	// live follower needs them. Default 4096, 4 MiB and 64 MiB.
	LogKeepEntries uint64
	LogKeepBytes   int64
	LogMaxBytes    int64

	// PreferredInterval is the shortest time between two attempts to hand one
	// group to its preferred leader. Default 3 s.
	PreferredInterval time.Duration

	// SnapshotChunkBytes is the size of one chunk of a snapshot, SnapshotWindow
	// how many are under way in one stream, SnapshotStreams how many streams a
	// node sends, and receives, at once, besides one of the meta shard. Default 512 KiB, 8 and 2.
	SnapshotChunkBytes int
	SnapshotWindow     int
	SnapshotStreams    int
	// SnapshotTimeout ends a stream that makes no progress. Default 30 s. A receiver gives the
	// place of a silent one to another after five.
	SnapshotTimeout time.Duration

	// HandTo is the node that a leader should hand the lead of a group to; 0: none. Nil is the
	// preferred leader.
	HandTo func(g base.GroupID) base.NodeID
	// Fit reports whether a node is fit to lead, as far as is known. Nil: all are.
	Fit func(node base.NodeID) bool
	// Logger receives leader changes at Info and raft's own words at Debug; nil discards.
	Logger *slog.Logger
	// Fatal is told of a replica that stopped for good (storage failed, state
	// machine refused, invariant broken). The other replicas go on. It runs in
	// a goroutine of its own.
	Fatal func(g base.GroupID, err error)
	// Restored is told of a shard that was lost here and has been fetched from a node. Its groups
	// can be opened.
	Restored func(shard base.ShardID, from base.NodeID)
	// TrustTails has replicas vote and stand whose logs may lack what they acknowledged. It is for
	// tests, which show what breaks then.
	TrustTails bool
	// QuietLosers leaves GRP-11 and GRP-18 out. PatientRefusers has voters that refuse a candidate
	// wait for their turn nevertheless, and HastyRefusers has all of them stand at once (GRP-10).
	// They are for tests, too.
	QuietLosers, PatientRefusers, HastyRefusers bool
	// FixedTurns has survivors wait for those that turn out to be lost while they wait (GRP-10).
	FixedTurns bool
	// StubbornLosers leaves GRP-13 out.
	StubbornLosers bool
	// MetaWaits has snapshots of the meta shard wait for those of other shards, for tests.
	MetaWaits bool
	// RefusesStreams has a node refuse a snapshot for which it has no place, and LoneSnapshots has
	// none wait for other groups of its shard, for tests. LoneHeads has a node send headers of
	// snapshots in chunks of their own, and take no others, as older builds do.
	RefusesStreams, LoneSnapshots, LoneHeads bool
	// GuestsWait has whoever does a turn of a sole voter wait for its disk, for tests.
	GuestsWait bool
	// HastyReturns has voters that come back stand at once if they see each other first (GRP-12),
	// SplitVotes leaves GRP-16 out.
	HastyReturns, SplitVotes bool
	// PatientReturns leaves GRP-12 out, PatientPaths GRP-14, StubbornLeaders GRP-15, and
	// HastyLeavers GRP-17.
	PatientReturns, PatientPaths, StubbornLeaders, HastyLeavers bool
	// PatientTargets has members give the target of a hand-over as long to get a lease as any other
	// new leader (GRP-8).
	PatientTargets bool
	// AsksOnce leaves GRP-20 out, KeepsStalled GRP-21.
	AsksOnce, KeepsStalled bool
	// SickFirst leaves GRP-22 out.
	SickFirst bool
	// KeepsVotes has a leader that hands its lead over keep its vote back as long as the hand-over
	// may take (TIME-6b).
	KeepsVotes bool
	// Fresh reports whether a node's replica of a group is open and has no state (Group.Fresh), as
	// one must that becomes a member. Asked by the leader, it may take its time. Nil is always, for
	// nodes that never come back.
	Fresh func(ctx context.Context, g base.GroupID, node base.NodeID) bool
}

func orDefault[T comparable](p *T, def T) {
	var zero T
	if *p == zero {
		*p = def
	}
}

// fill sets the defaults and reports every bad option together.
func (o *HostOptions) fill() error {
	orDefault(&o.TickInterval, 100*time.Millisecond)
	orDefault(&o.HeartbeatTicks, 5)
	orDefault(&o.ElectionTicks, 15)
	orDefault(&o.MaxMsgBytes, 128<<10)
	orDefault(&o.MinShared, 256)
	orDefault(&o.MaxInflightMsgs, 512)
	orDefault(&o.MaxInflightBytes, 32<<20)
	orDefault(&o.MaxPending, 8192)
	orDefault(&o.MaxPendingBytes, 64<<20)
	orDefault(&o.MaxCommandBytes, 32<<20)
	orDefault(&o.AmbiguousTicks, 3*o.ElectionTicks)
	orDefault(&o.LogKeepEntries, 4096)
	orDefault(&o.LogKeepBytes, 4<<20)
	orDefault(&o.LogMaxBytes, 64<<20)
	orDefault(&o.PreferredInterval, 3*time.Second)
	orDefault(&o.SnapshotChunkBytes, 512<<10)
	orDefault(&o.SnapshotWindow, 8)
	orDefault(&o.SnapshotStreams, 2)
	orDefault(&o.SnapshotTimeout, 30*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	var errs []error
	bad := func(cond bool, format string, args ...any) {
		if cond {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	bad(o.Self == 0, "Self: a host needs a node id above 0")
	bad(o.Store == nil, "Store: a host needs an open store")
	bad(o.Transport == nil, "Transport: a host needs a transport")
	bad(o.TickInterval < time.Millisecond, "TickInterval %v: at least 1ms", o.TickInterval)
	bad(o.HeartbeatTicks < 1, "HeartbeatTicks %d: at least 1", o.HeartbeatTicks)
	bad(o.ElectionTicks <= o.HeartbeatTicks, "ElectionTicks %d: must exceed HeartbeatTicks %d", o.ElectionTicks, o.HeartbeatTicks)
	bad(o.MaxInflightBytes < o.MaxMsgBytes, "MaxInflightBytes %d: must be at least MaxMsgBytes %d", o.MaxInflightBytes,
		o.MaxMsgBytes)
	bad(o.MaxInflightMsgs < 1, "MaxInflightMsgs %d: at least 1", o.MaxInflightMsgs)
	bad(o.MaxPending < 1 || o.MaxPendingBytes < 1, "MaxPending %d, MaxPendingBytes %d: at least 1", o.MaxPending,
		o.MaxPendingBytes)
	bad(o.LogMaxBytes < o.LogKeepBytes, "LogMaxBytes %d: must be at least LogKeepBytes %d", o.LogMaxBytes, o.LogKeepBytes)
	bad(o.SnapshotWindow < 1 || o.SnapshotStreams < 1 || o.SnapshotChunkBytes < 1,
		"SnapshotWindow, SnapshotStreams, SnapshotChunkBytes: at least 1")
	if err := errors.Join(errs...); err != nil {
		return base.Errorf(base.CodeInvalid, "group host options: %v", err)
	}
	return nil
}

// Conf is the membership of a group: who votes and who only follows.
type Conf struct {
	Voters   []base.NodeID
	Learners []base.NodeID
}
