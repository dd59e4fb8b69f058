package kv

import (
	"context"

	"github.com/godwitdb/godwit/base"
)

// DB runs transactions from one gateway node.
type DB interface {
	Begin(opts Options) Txn
	// Topology is the newest one this node knows.
	Topology() *base.Topology
	// Region and Node are where the gateway is.
	Region() base.RegionID
	Node() base.NodeID
	// Clock returns a timestamp at or above every commit acknowledged anywhere before the call.
	Clock() base.Timestamp
	// Time is what this node's clock reads, for intervals that people give. Clock runs ahead of it
	// by what others have promised not to go below: by a lease, after a restart of all nodes.
	Time() base.Timestamp
	// Owner guesses, without sending a message, which node leads the group that owns a key, and
	// that node's region; 0 if nothing is known.
	Owner(key base.Key) (base.NodeID, base.RegionID)
	// MetaVersion is the commit timestamp of the newest change applied by the local meta replica
	// within the span of keys, and the timestamp up to which that replica is complete (safe to read
	// at).
	MetaVersion(span base.Span) (changed, complete base.Timestamp)
	// MetaChanged returns a channel that is closed at the next change within the meta shard.
	MetaChanged() <-chan struct{}
	// Changes tells which versions were committed in a period. It waits until the period is over
	// everywhere. It takes no locks, and counts as no use of the rows.
	Changes(ctx context.Context, req ChangesRequest) (ChangesResult, error)
}

// HomeRegion is where the rows of a gateway's clients are at home: in its region, or the one that
// takes over from one that is being dropped.
func HomeRegion(db DB) base.RegionID { return db.Topology().HomeFor(db.Region()) }

// Run begins a transaction, calls fn and commits, and runs it again from the
// start while the error is retryable, with jittered back-off, until ctx ends.
// fn must not keep effects of its own across attempts.
func Run(ctx context.Context, db DB, opts Options, fn func(Txn) error) (base.Timestamp, error) {
	return run(ctx, db, opts, fn)
}

// Epochs is implemented by a [DB] whose nodes take part in epochs. Package txn/multimaster wraps
// every transaction of such a DB. It has MULTI MASTER tables, whose rows have keys of
// base.EpochShard. Its transactions ([EpochTxn]) read these rows at the last epoch applied here,
// and submit their buffered writes to the next one. A transaction loses if another one has changed
// the same rows since it began.
type Epochs interface {
	// BeginEpochs makes the cluster begin with epochs, unless it has begun.
	BeginEpochs(ctx context.Context) error
	// Declare puts a version of a table's definition in force, unless a newer one is in force.
	// Transactions that depend on an older version do not commit any more. It returns when this is
	// permanent and known here.
	Declare(ctx context.Context, table base.TableID, version base.Timestamp) error
}

// EpochTxn is implemented by the transactions of [Epochs].
type EpochTxn interface {
	Txn
	// Hold makes the transaction depend on a version of a table's definition: it must be in force
	// at the snapshot and at the commit. Call it before the table's rows are read or written.
	Hold(ctx context.Context, table base.TableID, version base.Timestamp) error
	// Buffered reports whether writes of rows of epochs, and of other rows, are buffered: Commit
	// refuses both at once.
	Buffered() (epochs, others bool)
}
