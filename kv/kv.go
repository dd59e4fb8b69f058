// Package kv is the contract between those who run transactions (the SQL
// layer, the embedded API, workloads in Go) and those who make them true
// (package txn). It holds types and interfaces only.
//
// A transaction is strictly serializable: strict two-phase locking at the
// owners of the rows, writes buffered here until Commit. Reads of a
// transaction see its own buffered writes.
//
// # Which reads lock
//
//   - [LockNone]: a read at one snapshot, no locks. The snapshot timestamp is
//     chosen at the first such read and is at or above every commit that was
//     acknowledged anywhere before Begin. Use it for autocommit SELECT and
//     READ ONLY transactions. In a transaction that writes or locks, such reads are
//     those of snapshot isolation: what they saw may have changed when it commits, and only
//     what it read under locks is strictly serializable.
//   - [LockShared], [LockExclusive]: the row and, for scans, every gap of the
//     span are locked at their owners until the transaction ends.
//   - keys of the meta shard: LockNone and LockShared read the local replica
//     at a timestamp and are validated at commit (no lock, no round trip);
//     LockExclusive locks at the meta leader.
//
// # Errors
//
// Errors carry a [base.Code]. After [base.CodeAborted], [base.CodeLockTimeout],
// [base.CodeUnavailable] or [base.CodeSchemaChanged] from any method the transaction is over (its locks
// are released in the background) and every later call returns the same error;
// Run retries such errors. [base.CodeExists] from Commit also ends it.
package kv

import (
	"context"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// LockMode is what a read holds until the transaction ends.
type LockMode uint8

// The lock modes, weakest first.
const (
	LockNone LockMode = iota
	LockShared
	LockExclusive
)

// Policy says what a transaction does that meets a lock held by another one.
type Policy uint8

const (
	// Detect: wait; of a circle of waiting transactions the youngest aborts (DL_DETECT).
	Detect Policy = iota
	// NoWait: abort at once (NO_WAIT).
	NoWait
	// WaitDie: wait for younger transactions, abort at older ones (WAIT_DIE).
	WaitDie
)

// Options of one transaction; the zero value is an ordinary read-write one.
type Options struct {
	// ReadOnly transactions may use only LockNone and never write.
	ReadOnly bool
	// ReadTS fixes the snapshot of LockNone reads (AS OF); 0 lets the system choose.
	ReadTS base.Timestamp
	// Policy of lock conflicts.
	Policy Policy
	// Age is the priority in conflicts, smaller is older. A retry passes the
	// Age of its first attempt so that it cannot starve. 0 is now.
	Age base.Timestamp
	// LockTimeout bounds each wait for a lock; 0 is the cluster's default, 10 s.
	LockTimeout time.Duration
	// Source is the region on whose behalf the transaction runs: rows that it inserts without a home
	// get this one, and policies count its accesses under it. 0 is the gateway's own.
	Source base.RegionID
	// Follow lets the policy of homes move rows that are written without having been read: nothing else
	// may depend on where they are at home.
	Follow bool
	// Relay lets the transaction cross regions without locking across them: from the moment it touches rows of a second
	// region it reads one snapshot, which is validated when it commits (docs/protocol.md S).
	Relay bool
	// Touched, if not nil, is shared by all attempts of a transaction: they note in it what they read of several regions without locks, and one that locks
	// begins by locking all that at once.
	Touched *Touched
	// Trace collects round trips and bytes of the transaction; may be nil.
	Trace *obs.Trace
}

// RelayTries is how many attempts of a transaction cross regions without locks (Options.Relay) and are aborted before it locks: what it
// met then it would meet again, and nobody may lose for ever.
const RelayTries = 8

// Row is one key with its value. Value is nil if the key is absent (only in
// answers of Get).
type Row struct {
	Key   base.Key
	Value []byte
	TS    base.Timestamp // commit timestamp of the version; 0 for own buffered writes
	Home  base.RegionID  // home region of the row; 0 in the meta shard
	// Label is the whole home label; 0 for own buffered writes.
	Label base.Label
	// Advice is the region to which the policy would move the row together with this transaction's write of
	// it (Txn.Move); 0: it stays. Only rows read under LockExclusive have one.
	Advice base.RegionID
}

// Pin says what a move does to the row's pin.
type Pin uint8

// The choices of MoveOptions.Pin.
const (
	PinKeep Pin = iota
	PinOn
	PinOff
)

// MoveOptions of Txn.Move.
type MoveOptions struct {
	// Soft leaves the row at home, without an error, if the gap behind it is in use.
	Soft   bool
	Pin    Pin
	Reason []byte // for the record of moves
}

// ScanRequest asks for the rows of several spans.
type ScanRequest struct {
	// Spans to read, each within one section ([base.Key.Section]). With Merge they
	// are the same range in different shards (or homes) and rows come back in the order of
	// Suffix; otherwise span by span in the order given.
	Spans []base.Span
	Merge bool
	// Suffix is the number of leading key bytes that Merge ignores when it orders rows of different
	// spans; 0 is base.ShardPrefixLen. (An index by home uses base.IndexPrefixLen+1.)
	Suffix  int
	Reverse bool
	Lock    LockMode
	// Limit is the most rows returned by this call; 0 is no limit but MaxBytes.
	Limit int
	// MaxBytes bounds the answer; 0 is 1 MiB. At least one row is returned.
	MaxBytes int
	// State belongs to the implementation; set only in ScanResult.Next. A scan
	// sees the transaction's own writes as of its first batch, so a statement
	// that writes what it scans never meets its own rows.
	State any
}

// ScanResult is one batch. If More, call again with the same request and Resume.
type ScanResult struct {
	Rows []Row
	// Next is the request that continues the scan; nil when it is complete.
	Next *ScanRequest
}

// Txn is one attempt of a transaction. Not safe for concurrent use.
type Txn interface {
	ID() base.TxnID
	// Get returns one Row per key, in order; Value is nil where the key is absent.
	// An absent key is locked as well (its gap point).
	Get(ctx context.Context, keys []base.Key, lock LockMode) ([]Row, error)
	// Scan returns the next batch of rows of the spans.
	Scan(ctx context.Context, req ScanRequest) (ScanResult, error)
	// Ahead locks and reads keys and spans of any owners in one step and keeps what it finds: until Forget, Get of
	// these keys and Scan within these spans, under no stronger lock, ask nobody. ok is false if it was too much to keep all of it.
	Ahead(ctx context.Context, keys []base.Key, spans []base.Span, lock LockMode) (ok bool, err error)
	// Kept reports whether a read under that lock would ask nobody: because of Ahead, or because the transaction has written the key.
	Kept(span base.Span, lock LockMode) bool
	// Forget drops what Ahead keeps; the locks stay.
	Forget()
	// Put buffers a blind write; a new row gets the home given (0: the
	// gateway's region), an existing row keeps its home.
	Put(key base.Key, value []byte, home base.RegionID)
	// Update buffers a Put of value, which is what patch (package patch) makes of the row that the transaction has read last, or has a Draft of; if it has
	// read the row only to know that, the row is not held for it in a transaction that crosses regions without locks: its owner applies the patch to
	// whatever the row is when the transaction commits (docs/protocol.md S9). Elsewhere it is a Put.
	Update(key base.Key, value []byte, patch *wire.Patch)
	// Draft returns a row for Update to be made of, at once and as this node knows it: there may be newer versions. Nothing may be told to
	// anybody that rests on it but what Update sees to: that the patch is defined over the row. ok is false if the row is absent here, or
	// if Update would not leave it to another region: then it takes a Get.
	Draft(ctx context.Context, key base.Key) (row Row, ok bool, err error)
	// Insert buffers a write of a key that must be absent when the transaction commits. It is
	// checked at Commit (CodeExists), or here at once if the transaction has read
	// the key under a lock or written it: then a present key gives CodeExists and leaves the transaction usable.
	Insert(key base.Key, value []byte, home base.RegionID) error
	// Move makes a region the home of a row that is there when the transaction commits, and of the gap behind it: the
	// leader of that region's group is its owner from then on. It rides on a buffered write of the key, if there is one. Rows that
	// are absent, or at home there already, are left as they are.
	Move(key base.Key, to base.RegionID, opts MoveOptions)
	// Fence makes a region the owner of the gap from a key on up to the next one, if the key is absent when the
	// transaction commits: what is inserted there then costs that region no trip. A later write of the key takes its place.
	Fence(key base.Key, to base.RegionID)
	// Delete buffers a delete; deleting an absent key is no error.
	Delete(key base.Key)
	// Pin makes Commit fail with CodeSchemaChanged if one of the meta-shard keys has
	// changed after ts. It is how a statement's schema is held (see Catalog).
	Pin(ts base.Timestamp, keys ...base.Key)
	// Savepoint marks the buffered writes; RollbackTo drops those made since
	// (locks stay). Savepoints are numbered and nest; RollbackTo keeps its savepoint.
	Savepoint() int
	RollbackTo(savepoint int)
	// Commit makes the writes durable and visible and returns the commit timestamp.
	Commit(ctx context.Context) (base.Timestamp, error)
	// Rollback releases everything; it is safe to call after Commit or an error.
	Rollback(ctx context.Context)
	// ReadTimestamp is the snapshot of LockNone reads, 0 if none was made yet.
	ReadTimestamp() base.Timestamp
	// NextSnapshot makes the next LockNone read choose a new snapshot, unless Options.ReadTS fixed it.
	NextSnapshot()
	// Wrote reports whether any write is buffered.
	Wrote() bool
}

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
	// Owner guesses, without asking anybody, which node leads the group that owns a key, and the region of that node; 0
	// if it has no idea.
	Owner(key base.Key) (base.NodeID, base.RegionID)
	// MetaVersion is the commit timestamp of the newest change applied by the local meta replica within the
	// span of keys, and the timestamp up to which that replica is complete (safe to read at).
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

// Epochs is what a [DB] offers whose nodes take part in epochs: MULTI MASTER tables, whose rows have keys of
// base.EpochShard. Its transactions ([EpochTxn]) read them at the last epoch applied here, write them by submitting
// what they have buffered to the next one, and lose to others that changed the same since they began.
type Epochs interface {
	// BeginEpochs has the cluster begin, unless it has.
	BeginEpochs(ctx context.Context) error
	// Declare makes a version of a table's definition the one in force, unless a newer one is: transactions that are held to an
	// older one do not commit any more. It returns when this is permanent, and known here.
	Declare(ctx context.Context, table base.TableID, version base.Timestamp) error
}

// EpochTxn is what transactions of [Epochs] can do besides.
type EpochTxn interface {
	Txn
	// Hold makes the transaction depend on a version of a table's definition: the snapshot is from when it was in force, and
	// it still is when the transaction commits. Call it before the table's rows are read or written.
	Hold(ctx context.Context, table base.TableID, version base.Timestamp) error
	// Buffered reports whether writes of rows of epochs, and of other rows, are buffered: Commit refuses both at once.
	Buffered() (epochs, others bool)
}
