// Package txn runs transactions from a gateway: it implements kv.DB and kv.Txn over the owners of
// package owner, here or on other nodes.
//
// # Where to look
//
// A transaction ([Txn]) has one mode (mode.go), which says how its locking reads and its commit go:
// by locks (locks.go), at a slot (slot.go) or by timestamp (order.go). Reads are a fetch
// (fetch.go), which asks groups in requests (request.go), this node's replicas (replica.go) or
// those of another node (serve.go). A commit is one of the protocols of commit.go; it makes a plan
// (plan.go) and sends proposals (proposal.go). Meta rows are read and pinned in meta.go. An attempt
// (attempt.go) is a transaction under one name, as the owners know it.
//
// # Finding owners
//
// A key whose move was heard of lately is sent to its new group (package hints). Any other is sent
// to the group that this node leads for its own region (asking it costs nothing), else to the one
// that the local replica takes for its owner. Without a replica it is sent to the group that was
// last said to own it (HOME-10), else to its own region's group. Whoever is asked in error names
// the owner and the log entries it must have applied to know it (HOME-3); the request follows, a
// bounded number of times.
//
// # Commit
//
//	TC-1 The participants are all groups in which the transaction holds a lock or writes. With one,
//	   the commit is one log entry there. With several, each logs a Prepare, those only read too,
//	   all in parallel; blind writes are locked before, because a Prepare at the wrong owner
//	   cannot be moved.
//	TC-2 Committed iff every participant has logged its Prepare and max(lo) < min(hi), at max(lo)
//	   (OWN-8). There is no coordinator record. The client is answered when that holds and
//	   true time has passed the timestamp; participants hear of it afterwards, or ask each other.
//	TC-3 The coordinator aborts on its own only after an answer that says that nothing was proposed.
//	   If an answer is lost it asks (Resolve), whatever became of the client; if that fails too:
//	   CodeAmbiguous.
//
// # Reads
//
//	TC-4 LockNone reads share a snapshot (Clock.Snapshot) taken at the first of them: it is at or
//	   above every commit acknowledged before. The local replicas serve it if they are complete up
//	   to it (AS OF), else the owners, in parallel.
//	TC-5 A transaction that only read under locks is placed at an instant at which it held them all.
//	   One group vouches for that in every answer (term, registration, lease). Of several, each
//	   has to confirm its locks after the last one was taken: that is what Commit waits for. It
//	   also waits until what was read is settled.
//	TC-8 A commit timestamp lies above every commit acknowledged before the transaction began. In
//	   GClock mode the owner's clock sees to that. A clock of GTM mode may lag behind the oracle:
//	   there, and in DUAL mode, the transaction takes a Snapshot after it began (beside its first
//	   reads) and commits above it; one that read under locks tells it to the owners before it is
//	   over. Because: T3 takes its snapshot; T1 commits above it and is acknowledged; T2 begins,
//	   and an owner that lags lets it commit below the snapshot; T3 then sees T2 and not T1.
//
// # Timestamp ordering
//
// In a cluster that orders by timestamps, a transaction reads and commits at its own (order.go,
// docs/protocol.md, ORD): TC-1 to TC-3 hold, with votes for one timestamp; TC-4, TC-5 and TC-8 for
// those that lock, which are those that lock or write rows of the meta shard.
//
// # Meta shard
//
//	TC-6 Meta rows are read from the local replica at one timestamp and pinned. Commit bounds the
//	   commit timestamp by what the local meta replica has closed, and checks that no pin changed
//	   up to there. The meta group closes ahead of now, so this normally waits for nobody.
//	   CodeTooLate: wait for more to be closed, and again.
//	TC-7 A transaction that writes or locks meta rows commits above all that is closed there, so
//	   TC-6 cannot hold for it: it locks its pins at the meta leader and compares.
package txn
