// Package sqlfront is the MySQL face of Godwit: go-mysql-server (the only place
// that imports it) over the transactions of package kv.
//
// # Where things are kept
//
// The catalog lives in the meta shard as one row per object (see catalog.go for
// the key table). Every gateway keeps an immutable snapshot of it; a
// statement uses one snapshot, and the transaction pins ([kv.Txn.Pin]) the
// descriptors of the tables it touched, so that it can commit only if none of
// them has changed: no transaction sees half of a schema change.
//
// A row is one kv row. Its key is
//
//	IndexPrefix(shard, table, 0) | primary-key columns, order-preserving
//
// with shard = 1 + hash(first primary-key column) mod shards, and its value holds all
// stored columns keyed by column id, so that adding or dropping a column rewrites
// nothing. Tables without a primary key get a hidden 64-bit row id. A secondary
// index belongs to one of four classes, fixed when it is made:
//
//   - local: its first column is the distribution column; its entries sit in the shard of the row;
//   - unique: hashed by its own first column, so that uniqueness is one key;
//   - by home (any other): in the shard of the row and keyed by the row's home, so
//     that inserting a row never leaves its region;
//   - global: all indexes of a GLOBAL table, in the meta shard.
//
// # Which reads lock
//
// Autocommit SELECT and READ ONLY transactions read a snapshot (LockNone). SELECT in
// a read-write transaction takes shared locks at SERIALIZABLE, the default; at REPEATABLE READ it
// reads the transaction's snapshot, at READ COMMITTED the statement's. What UPDATE, DELETE and SELECT
// ... FOR UPDATE read of the tables they change is locked exclusively.
//
// # Errors
//
// Lost conflicts reach the client as 1213 (40001) and lock timeouts as 1205; both
// end the transaction, as 1213 does in MySQL. Autocommit statements are
// retried here as long as no row was sent.
package sqlfront
