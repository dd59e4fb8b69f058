package kv

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Txn is one attempt of a transaction. It is not safe for concurrent use.
type Txn interface {
	// ID names this attempt; a retry has another one.
	ID() base.TxnID
	Reader
	Prefetcher
	Writer
	Patcher
	Mover
	Pinner
	Savepoints
	Snapshots
	Ender
}

// Reader reads rows. Reads see the transaction's own writes.
type Reader interface {
	// Get returns one Row per key, in order; Value is nil where the key is absent. A locking read
	// of an absent key locks its place in the gap.
	Get(ctx context.Context, keys []base.Key, lock LockMode) ([]Row, error)
	// Scan returns the next batch of rows of the spans.
	Scan(ctx context.Context, req ScanRequest) (ScanResult, error)
}

// Prefetcher reads before the statement asks.
type Prefetcher interface {
	// Ahead locks and reads keys and spans of any owners in one step and keeps the rows. Until
	// Forget, a Get of these keys or a Scan within these spans, under no stronger lock, sends no
	// message. ok is false if there was too much to keep all of it.
	Ahead(ctx context.Context, keys []base.Key, spans []base.Span, lock LockMode) (ok bool, err error)
	// Kept reports whether a read under that lock would send no message, because of Ahead or
	// because the transaction has written the key.
	Kept(span base.Span, lock LockMode) bool
	// Forget drops what Ahead keeps; the locks stay.
	Forget()
}

// Writer buffers writes until the transaction commits.
type Writer interface {
	// Put buffers a blind write. A new row gets the home given (0: the gateway's region); an
	// existing row keeps its home.
	Put(key base.Key, value []byte, home base.RegionID)
	// Insert buffers a write of a key that must be absent when the transaction commits. Commit
	// checks it (CodeExists). Insert itself checks it if the transaction has read the key under a
	// lock or written it: then a present key gives CodeExists and leaves the transaction usable.
	Insert(key base.Key, value []byte, home base.RegionID) error
	// Delete buffers a delete; deleting an absent key is no error.
	Delete(key base.Key)
	// Wrote reports whether any write is buffered.
	Wrote() bool
}

// Patcher updates rows without waiting for their owners (docs/protocol.md REL-9).
type Patcher interface {
	// Update buffers a Put of value, which is the result of patch (package patch) on the row that
	// the transaction read last or has a Draft of. If the row was read for no other purpose, a
	// transaction that crosses regions without locks does not depend on the version it read: the
	// owner applies the patch to the row as of the commit. In other transactions Update is a Put.
	Update(key base.Key, value []byte, patch *wire.Patch)
	// Draft returns a row for Update at once, as this node knows it; there may be newer versions.
	// The caller must not act on the row, except as Update validates: the patch must be defined
	// over it. ok is false if the row is absent here, or if Update would not leave it to another
	// region: then the caller reads it with Get.
	Draft(ctx context.Context, key base.Key) (row Row, ok bool, err error)
}

// Mover moves rows and gaps between regions.
type Mover interface {
	// Move makes a region the home of a row that is present when the transaction commits, and of
	// the gap behind it: the leader of that region's group owns both from then on. It joins a
	// buffered write of the key, if there is one. Absent rows, and rows at home there already, are
	// left as they are.
	Move(key base.Key, to base.RegionID, opts MoveOptions)
	// Fence makes a region the owner of the gap from a key on up to the next one, if the key is
	// absent when the transaction commits. Inserts into that gap then cost that region no trip. A
	// later write of the key replaces the fence.
	Fence(key base.Key, to base.RegionID)
}

// Pinner makes a transaction depend on definitions.
type Pinner interface {
	// Pin makes Commit fail with CodeSchemaChanged if one of the meta-shard keys has changed after
	// ts. A statement pins its schema in this way.
	Pin(ts base.Timestamp, keys ...base.Key)
}

// Savepoints mark points to which the buffered writes can return. They are numbered and nest.
type Savepoints interface {
	// Savepoint marks the buffered writes and returns the number of the mark.
	Savepoint() int
	// RollbackTo drops the writes made since a savepoint. Locks stay, and so does the savepoint.
	RollbackTo(savepoint int)
}

// Snapshots gives access to the snapshot of reads without locks.
type Snapshots interface {
	// ReadTimestamp is the snapshot of LockNone reads, 0 if none was made yet.
	ReadTimestamp() base.Timestamp
	// NextSnapshot makes the next LockNone read choose a new snapshot, unless Options.ReadTS fixed
	// it.
	NextSnapshot()
}

// Ender ends a transaction.
type Ender interface {
	// Commit makes the writes durable and visible and returns the commit timestamp.
	Commit(ctx context.Context) (base.Timestamp, error)
	// Rollback releases everything; it is safe to call after Commit or an error.
	Rollback(ctx context.Context)
}
