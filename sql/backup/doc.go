// Package backup runs BACKUP, RESTORE, SHOW BACKUP and VERIFY BACKUP. The format of the files is
// package archive's, and where they may lie package place's.
//
// # A backup
//
// A backup is what reads AS OF one timestamp show, of all regions: definitions, rows with their
// homes, counters of AUTO_INCREMENT, and of a whole cluster its users and grants. It takes no
// locks. A hold (package hold) keeps the versions that it still has to read. Shards of tables are
// read side by side, in pages, each in a transaction of its own that begins again if a node does
// not answer.
//
// An incremental backup reads what was committed since the moment of the backup before, as the log
// of changes does (changes.go). Where versions of that time have been collected it reads all rows,
// and writes what differs from the keys and versions that the backup before had.
//
// # Jobs
//
// BACKUP, RESTORE and BACKUP LOG are jobs (package kv/job): what they have to do is an order, and
// how far they are lies beside the files, or in the job's checkpoint. Another node goes on with a
// job whose node is gone. Two may work at once for a moment; the names of files have the term of
// the lease in them, and all writes of a restore can be repeated.
//
// # Places of regions
//
// With PLACES each region that has a place gets a part of the backup: a job of its own, done by a
// node of the region, which writes a backup of its rows alone to its place (places.go).
//
// # The log of changes
//
// A segment has all versions of a period, from the stores' own order of commits (kv.DB.Changes),
// and the definitions as of each change of them. Rows of a table that the segment before did not
// know are in it as a whole: a table may get its rows before it gets its definition.
//
// # A restore
//
// Rows are written under table ids that no definition names, so nobody sees them. They are garbage
// until one transaction writes all definitions, the counters and the users, and takes the ids back
// from the garbage. Whatever ends a restore before that, nothing of it was visible, and the
// collector removes the rows.
//
// Keys are computed anew: another cluster has other shards and regions. Index entries are made of
// the rows. Of several backups that build on each other the streams of one shard are merged, so
// that each row is written once, as it was last.
//
// # Whom to trust
//
// A place is no part of the cluster: everything that is read from there may be anything. Checksums
// find damage, a passphrase finds forgery (package archive). A restored view or procedure acts with
// the rights of its definer; to restore one of another account takes the privilege that it takes to
// create one.
package backup
