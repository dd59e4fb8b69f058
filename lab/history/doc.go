// Package history records what clients did to a database and judges whether a correct database
// could have given these answers. It knows nothing of Godwit's internals: it sees only operations,
// answers and instants, so that a bug in the database cannot also be in the checker.
//
// # Recording
//
// A [Recorder] collects transactions from many clients. The rules that make the verdicts
// meaningful:
//
//   - Every value written to one key is unique in the history and is not empty ("" means absent).
//     Where the application's value cannot be unique (a balance), write "70#t12" and give the
//     invariants a decoder.
//   - Invoke and Return come from one monotonic clock for all clients. Transaction A precedes B in
//     real time iff A.Return < B.Invoke (equal instants count as concurrent).
//   - An outcome that the client does not know is [Unknown]. Such a transaction counts as committed
//     iff a committed transaction, or the final state, shows one of its writes. It never precedes
//     anything in real time.
//   - If the database reports commit timestamps, record them: they give the order of the versions
//     of a key, without which blind writes stay partly unordered and some anomalies cannot be
//     proved. They are believed: a database that reports wrong timestamps is rejected although some
//     other order might explain its answers.
//
// # Judging
//
// Each checker returns nil or a [Violation]. All of them are sound, that is, a Violation is proof
// under the rules above; how complete they are depends on how much of the version order is known
// ([Stats] tells).
//
//   - [Serializable], [SessionSerializable], [RelayConsistent], [StrictSerializable],
//     [SnapshotIsolation] build the dependency graph of Adya (Weak Consistency, MIT 1999, chapter
//     4): ww, wr and rw edges, rw also for range reads that missed a row, plus the real-time or
//     session edges of the level, and look for a cycle.
//   - [Linearizable] judges each key alone with porcupine.
//   - [CommitOrder] replays the history in the order of its timestamps.
//   - [BankTotal], [NoLostWrites], [MonotoneSnapshots], [NoTornReads] are invariants that need less
//     data and give shorter explanations.
//
// # Vocabulary
//
// A version is what one transaction leaves in one key when it commits: its last write, or a
// tombstone. Version order is the order in which the versions of one key replace each other. A
// transaction is effective if it committed, or is Unknown and was seen. The names of anomalies (G0,
// G1a, G1b, G1c, G-single, G2) are Adya's; the suffix -realtime or -session says that the cycle
// needs such an edge.
package history
