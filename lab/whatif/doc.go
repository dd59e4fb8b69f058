// Package whatif plays what the clients of a cluster have done lately ([recording.File]) once more,
// in virtual time, with the real program: as the cluster is, and as it would be with other regions,
// round trips, localities or indexes. It is `godwit whatif`.
//
// # A run
//
// [Play] makes a cluster with the regions, the network, the settings, the tables and the rows of
// the recording, each row at home where it lives. Then each client executes its statements one
// after the other, with the pauses that it made between them, so that it is slower or faster with
// the cluster. It does so twice: first without INSERT and DELETE, so that rows come to where
// they are used, and then with all, which is measured.
//
// # What is not predicted
//
// Processors and disks take no time. [Compare] adds to a prediction what the fastest statement of
// its kind took more in the cluster than in the play of the cluster as it is; what waits for a
// processor is not in it. Rows are up to 2,000 of a table; literals are others of the same form;
// events and users there are not. A statement that fails in the
// play though it did not in the cluster is counted, and shown. A transaction that loses a conflict
// in the play is tried again, and one that did in the cluster is left out.
package whatif
