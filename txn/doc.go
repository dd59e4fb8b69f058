// Package txn runs transactions from a gateway: it implements kv.DB and kv.Txn
// over the owners of package owner, here or on other nodes.
//
// # Finding owners
//
// A key is sent to the group that the local replica of its shard takes for its
// owner (label of the key, else of the gap before it; the default owner where
// the shard is not held here). Who is asked in error says who owns the key and
// which log entries the owner must have applied to know it (PROTOCOLS C3); the
// request follows. A locked key cannot change hands, so an owner found under a
// lock stays right until the transaction ends.
//
// # Commit
//
//	C1 The participants are all groups in which the transaction holds a lock or writes. With one
//	   participant the commit is one log entry there. With several, each logs a
//	   Prepare, those that were only read too; all in parallel.
//	C2 A vote is an interval [lo, hi). The transaction is committed iff every participant has
//	   logged its Prepare and max(lo) < min(hi); its timestamp is max(lo). Whoever knows all
//	   votes knows the outcome; there is no coordinator record.
//	C3 The client is answered when C2 holds and true time has passed the timestamp (commit wait).
//	   Participants hear the decision afterwards; if they do not, they ask each other.
//	C4 An attempt that did not hear all votes asks (Resolve), which makes a participant that has not
//	   prepared refuse for good. Only if that fails too, the client is told that the outcome is ambiguous.
//	C5 Before several groups prepare, every write key is locked: blind writes are
//	   locked first, because a Prepare at the wrong owner could not be moved.
//
// # Reads
//
// LockNone reads of one transaction share a snapshot timestamp, taken from the clock's
// upper bound at the first of them: with commit wait it is above every commit
// acknowledged before. Owners promise not to commit at or below it any more. A
// replica here answers where it is complete up to that timestamp.
//
// A locking transaction that writes nothing is serializable because its locks
// were all held together: one owner's lock term proves it for that owner; with
// several, a release that confirms the locks proves it (all were held after the last read and before the
// first release).
//
// # Schema and GLOBAL rows
//
// Rows of the meta shard are read from the local replica and remembered as
// pins. Commit takes the meta replica's closed timestamp, checks that no pin
// changed up to it, and commits below it; the meta group closes ahead of now,
// so this waits for nobody. A transaction that also locks or writes meta rows locks its
// pins at the meta leader instead, because it commits above what is closed.
package txn
