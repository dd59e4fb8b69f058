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
	// Owner guesses, without asking anybody, which node leads the group that owns a key, and the
	// region of that node; 0 if it has no idea.
	Owner(key base.Key) (base.NodeID, base.RegionID)
	// MetaVersion is the commit timestamp of the newest change applied by the local meta replica
	// within the span of keys, and the timestamp up to which that replica is complete (safe to read
	// at).
	MetaVersion(span base.Span) (changed, complete base.Timestamp)
	// MetaChanged returns a channel that is closed at the next change within the meta shard.
	MetaChanged() <-chan struct{}
}

// Run begins a transaction, calls fn and commits, and runs it again from the
// start while the error is retryable, with jittered back-off, until ctx ends.
// fn must not keep effects of its own across attempts.
func Run(ctx context.Context, db DB, opts Options, fn func(Txn) error) (base.Timestamp, error) {
	return run(ctx, db, opts, fn)
}

// Epochs is what a [DB] offers whose nodes take part in epochs (package txn/multimaster, which
// wraps every transaction of such a DB): MULTI MASTER tables, whose rows
// have keys of base.EpochShard. Its transactions ([EpochTxn]) read them at the last epoch applied
// here, write them by submitting what they have buffered to the next one, and lose to others that
// changed the same since they began.
type Epochs interface {
	// BeginEpochs has the cluster begin, unless it has.
	BeginEpochs(ctx context.Context) error
	// Declare makes a version of a table's definition the one in force, unless a newer one is:
	// transactions that are held to an older one do not commit any more. It returns when this is
	// permanent, and known here.
	Declare(ctx context.Context, table base.TableID, version base.Timestamp) error
}

// EpochTxn is what transactions of [Epochs] can do besides.
type EpochTxn interface {
	Txn
	// Hold makes the transaction depend on a version of a table's definition: the snapshot is from
	// when it was in force, and it still is when the transaction commits. Call it before the
	// table's rows are read or written.
	Hold(ctx context.Context, table base.TableID, version base.Timestamp) error
	// Buffered reports whether writes of rows of epochs, and of other rows, are buffered: Commit
	// refuses both at once.
	Buffered() (epochs, others bool)
}
