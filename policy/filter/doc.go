// Package filter drops from an epoch's batches what no receiver needs (GeoCoCo,
// section 4.3, "white data"). It is a pure core.
//
// An epoch's outcome follows from the set of submitted transactions alone (rule
// EPO-1 of docs/protocol.md): a transaction commits iff no submitted transaction of
// better priority conflicts with it, whatever becomes of that one. [Outcome] is
// that rule.
//
// [Group] sees the batches of a group of nodes before they cross the ocean and
// shortens them:
//
//   - a transaction that has lost against another one of the group keeps what the
//     rule reads of it: identity, priority and the keys it writes, exactly. It still
//     beats others. Its reads, which only its own fate depends on, and its values go.
//   - a transaction that was submitted through two nodes is left in one batch.
//   - a write that leaves the row as it was keeps its key and loses its value.
//
// [Encode] stores equal values of a batch once.
//
// Invariants, each a property test:
//
//   - FILT-1: whatever mixture of filtered and original batches a receiver has, cut
//     into slices or not, its outcome is that of the originals.
//   - FILT-2: FILT-1 also holds if batches are excluded, provided that a filtered batch is
//     replaced by its original when one that it needs is excluded.
//   - FILT-3: no decision rests on a hash: equal hashes are followed by a comparison of
//     the bytes.
//   - FILT-4: a key or a value costs constant work, whatever the size of the epoch. A
//     range that was read costs what lies in it.
package filter
