// Package epoch decides what the epochs of multi-master tables do (GeoGauss under
// GeoCoCo; docs/protocol.md, EPO). It is a pure core: package multi drives it.
//
// Transactions run on a snapshot, the state after some epoch, and are submitted to
// a later one, each through its node's batch. [Merge] makes of an epoch's batches what
// it changes:
//
//   - MERGE-1: a transaction commits iff no transaction submitted to the same epoch that is better
//     conflicts with it, whatever becomes of that one (rule EPO-1; package filter), and nothing
//     that it writes, or has read and says so, was written between its snapshot and the epoch. What
//     is older than [MaxLag] epochs does not commit, so that nobody has to remember tombstones for
//     longer.
//   - MERGE-2: the result is a function of the set of submitted transactions and of the
//     state before the epoch. Order, duplicates, slices and filtering do not change
//     it, nor its [Digest].
//   - MERGE-3: writes never overwrite what their transaction has not seen: snapshot isolation.
//     A transaction that lists all its reads is serializable, in the place of its
//     priority within its epoch.
//
// A [View] says who takes part from which epoch on. Voters are nodes whose majority
// makes an epoch permanent (rule EPO-2), like those of the meta group:
//
//   - VIEW-1: an epoch is exposed, and its transactions are acknowledged, when a majority of the
//     view's voters has said that it has all batches up to it on disk ([View.Exposed]).
//   - VIEW-2: a sealed node says no such thing in that view any more. Of the reports of a majority
//     of sealed voters, the largest is at or above everything that was exposed, or ever will be, in
//     that view ([View.Decide]): it ends there, and the next view begins after it (rule EPO-3).
//   - VIEW-3: what a view discards was not exposed, so its transactions may be submitted again
//     under the same ids; MERGE-1 keeps a transaction from committing twice.
//   - VIEW-4: empty epochs are not written down, and nobody may build on their numbers: snapshots,
//     reports and the ends of views are epochs that changed something or were submitted to.
package epoch
