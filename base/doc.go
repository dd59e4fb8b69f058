// Package base holds the vocabulary of all other packages: identifiers, timestamps, keys and their
// order-preserving encoding, home labels, and the immutable topology snapshot. It does no I/O,
// reads no clock and starts no goroutine.
//
// # Keys
//
// A user key is a byte string compared as bytes. Its first bytes say where it belongs, without any
// catalog:
//
//	shard (2 bytes, big endian) | table (8) | index (4) | [home (1)] | columns ...
//
// The parts:
//
//   - Shard 0 is the meta shard: catalog, users, membership, GLOBAL tables. It has one consensus
//     group, [MetaGroup], on every node.
//   - Shards 1..N hold table data. The SQL layer picks the shard by hashing the distribution key
//     (by default the first primary-key column).
//   - The low [TableRegionBits] bits of a table id name the region that owns the table's first gap
//     in every shard and index until another region does (the sentinel of HOME-5), so no sentinel
//     is stored.
//   - An index id with [ByHome] set keys its entries by home region too, so that inserting into it
//     never leaves the region (HOME-6). Only such indexes have the home byte.
//
// # Groups
//
// A data group is (shard, home region); its replicas are those of the shard.
// The owner of a row is the leader of the group (shard of key, region of the
// row's label). A label also covers the gap from its key up to the next key
// (or tombstone), see [Label].
package base
