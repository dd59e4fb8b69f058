// Package recording keeps the newest statements of one node's clients, so that `godwit whatif` can
// play them again: when each began, of which session it was, what it cost, its text without
// literals, and the literals.
//
// # Bounds
//
// A [Recorder] keeps [MaxBytes], in chunks of which the oldest is dropped when there is no room. It
// takes [Rate] bytes a second on average, some 1,000 to 3,000 statements. Of more it keeps slices:
// all statements of all sessions for a while, then none, so that within a slice those meet that
// met. Sessions come and go between transactions, so a transaction is kept whole or not at all. A
// statement that is not kept costs two atomic loads.
//
// # Secrets
//
// Literals are in the memory of the node only, as rows are. Before anything leaves the cluster, a
// [Mask] replaces each by another one of the same form and length. Equal ones stay equal, and
// numbers, dates and strings keep their order, so that conditions find the rows that they found;
// nothing else is left of them.
package recording
