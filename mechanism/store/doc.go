// Package store keeps everything a node must not forget in one Pebble
// database: raft logs, the small records of groups, transaction records and
// the versions of rows. It is the only package that imports Pebble.
//
// # Durability
//
// All changes go through a [Batch], which is atomic. Batches become visible and reach the
// write-ahead log in one order, and a crash loses a suffix of that order: what a synced commit made
// durable includes every batch committed before it, synced or not. So raft entries and hard states
// are committed with sync=true, applied entries with sync=false (the log that holds them is durable
// already), and the truncation of a log can never survive the loss of the apply batches before it.
// Concurrent synced commits share an fsync.
//
// # Rows are a lattice (HOME-1, HOME-4)
//
// The versions of a shard are a set keyed by (key, commit timestamp). Each carries the log entry
// that wrote it, its [Version.Writer]; a group's applied index says which entries this replica has
// seen. Together they are a causal context, and merging two replicas is the join of an
// observed-remove set:
//
//	(STORE-1) a version that both sides hold stays;
//	(STORE-2) a version that one side holds stays iff the other side has not seen its writer's
//	     entry: if it has, it removed the version, by [Store.CollectVersions] or
//	     [Batch.CollectKeys];
//	(STORE-3) a collected key is marked with the timestamp at or below which all its versions are
//	     gone, also those that other groups' entries bring later; marks travel with snapshots, and
//	     go when CollectVersions is called at or above them, that is once the local consistency
//	     point has passed them;
//	(STORE-4) thresholds, applied indexes and contexts only grow;
//	(STORE-5) all that is merged at once is of one export. What was collected between two exports
//	     would come back from the older one under the context of the newer one, and stay: its owner
//	     no longer has it, so nobody collects it again.
//
// This refines the rule "the side with the higher collection threshold decides" of HOME-4, which
// loses a logged Collect when the lagging side happens to have the higher threshold. Applying
// entries of different groups in different orders, twice, and with merges in between reaches one
// state.
//
// # Duties of the caller
//
//   - Version.Writer names the log entry being applied; the batch that puts its versions also sets
//     the group's applied index ([Batch.SetApplied]).
//   - CollectVersions is called with a timestamp at or below the local consistency point.
//   - A Batch that was filled is committed or closed soon: a snapshot import waits for batches that
//     touch its shard.
//   - A Batch, a Reader, an Iter and an Import are each used by one goroutine at a time; Store and
//     Log by any.
//   - An error with base.CodeCorrupt means stored bytes are wrong: stop using the replica, and
//     repair the shard ([Store.Survey], [Store.Quarantine], [Import.Restore]; rules RECOVER-4 and
//     RECOVER-5).
package store
