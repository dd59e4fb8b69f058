// Package kv is the contract between packages that use transactions (the SQL layer, the embedded
// API, workloads in Go) and package txn, which executes them. It holds types, interfaces and the
// loop that retries an aborted transaction ([Run]), and no protocol.
//
// A transaction is strictly serializable: strict two-phase locking at the owners of the rows, with
// writes buffered at the gateway until Commit. Reads of a transaction see its own buffered writes.
//
// # Interfaces
//
// [Txn] is made of small interfaces, one for each thing that a caller does with a transaction:
// [Reader], [Prefetcher], [Writer], [Patcher], [Mover], [Pinner], [Savepoints], [Snapshots] and
// [Ender]. A function that needs one of them takes that one.
//
// A type that wraps a transaction holds it in a field, implements every method and asserts that it
// is a Txn. It does not embed the Txn: a method that is added later would then reach the inner
// transaction without the wrapper, and the compiler would not report it. A test of this package
// reads the whole module for structs that embed one of these interfaces and override only some of
// its methods.
//
// # Which reads lock
//
//   - [LockNone]: a read at one snapshot, no locks. The snapshot timestamp is chosen at the first
//     such read and is at or above every commit that was acknowledged anywhere before Begin. Use it
//     for autocommit SELECT and READ ONLY transactions. In a transaction that writes or locks, such
//     reads are those of snapshot isolation: what they saw may have changed when it commits, and
//     only what it read under locks is strictly serializable.
//   - [LockShared], [LockExclusive]: the row and, for scans, every gap of the span are locked at
//     their owners until the transaction ends.
//   - Keys of the meta shard: LockNone and LockShared read the local replica at a timestamp and are
//     validated at commit (no lock, no round trip); LockExclusive locks at the meta leader.
//
// # Errors
//
// Errors carry a [base.Code]. After [base.CodeAborted], [base.CodeLockTimeout],
// [base.CodeUnavailable] or [base.CodeSchemaChanged] from any method the transaction is over (its
// locks are released in the background) and every later call returns the same error; Run retries
// such errors. [base.CodeExists] from Commit also ends it.
package kv
