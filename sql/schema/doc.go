// Package schema says what tables are and how their rows are laid out: descriptors, the catalog
// that keeps them, the formats of keys and rows, and the errors that a MySQL client sees.
//
// # Descriptors and what is made of them
//
// A descriptor (TableDesc, DatabaseDesc, ObjectDesc) is what the catalog stores, as JSON. A Table,
// a Column or an Index is a descriptor made ready for use: immutable, and shared by all sessions.
// To change a table, clone its descriptor, change the clone and write that (package ddl).
//
// The catalog lives in the meta shard as one row per object (see catalog.go for the keys). Each
// gateway keeps an immutable Snapshot of it. A statement uses one snapshot, and the transaction
// pins ([kv.Txn.Pin]) the descriptors of the tables that it touched. It can commit only if none of
// them has changed, so no transaction sees half of a schema change.
//
// # Rows and keys
//
// A row is one kv row. Its key is
//
//	IndexPrefix(shard, table, 0) | primary-key columns, order-preserving
//
// with shard = 1 + hash(first primary-key column) mod shards. Its value holds all stored columns,
// keyed by column id, so adding or dropping a column rewrites nothing. A table without primary key
// has a hidden 64-bit row id. A secondary index belongs to one of four classes, which is chosen
// when the index is made:
//
//   - local: its first column is the distribution column; an entry lies in the shard of its row;
//   - unique: hashed by its own first column, so that uniqueness is a matter of one key;
//   - by home (any other): in the shard of the row and keyed by the row's home, so that inserting a
//     row never leaves its region;
//   - global: all indexes of GLOBAL and MULTI MASTER tables, beside the rows.
//
// # Errors
//
// ClientError turns an error of the layers below into what MySQL's clients expect. A lost conflict
// is 1213 (40001), a lock timeout 1205; both end the transaction, as 1213 does in MySQL.
package schema
