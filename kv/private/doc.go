// Package private keeps rows that one session alone reads and writes, in the memory of the process,
// and makes them part of the session's transactions.
//
// The rows are those of tables whose ids lie in a range of their own ([base.TableID.IsPrivate]). A
// [Store] holds them for as long as the session lasts. [Route] wraps a transaction of the cluster:
// what it is asked about keys of private tables goes to the store, everything else to the
// transaction.
//
// # Semantics
//
// One session uses a store, so there are no locks, no versions and no conflicts. Writes are done at
// once and noted in a log of what was there before. A rollback, to a savepoint or of the whole,
// plays the log backwards; the end of the transaction forgets it. A scan that goes on sees the rows
// as of its first batch, as [kv.ScanRequest] demands.
//
// Tables come and go at once: [Store.Drop] is not undone by a rollback. [Txn.Discard] drops a
// table, or an index, when the transaction commits.
//
// # Memory
//
// Every row counts with the bytes of its key and value and an overhead ([RowBytes]) against the
// store's [Budget], and so does what the log keeps. What does not fit is not written. Since writes
// report no errors, the caller asks [Txn.Full] before it tells anybody that a statement succeeded,
// and rolls back to the savepoint before it; a commit fails, too, until then.
package private
