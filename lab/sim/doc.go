// Package sim runs a whole cluster below SQL in one process, on virtual time
// and under faults, and has the histories of its clients judged.
//
// # What is real and what is not
//
// The nodes are assembled by package node as in production: the same consensus groups, owners,
// coordinators and heartbeats. Three things are replaced, all through seams that exist anyway:
//
//   - the network is package wan's emulation: delays, jitter, loss, cuts;
//   - the disk is Pebble's crashable in-memory file system. A synced commit takes virtual time
//     ([store.Options.SyncDelay]); a crash keeps what was synced and a random part of the rest;
//   - the clock of each node is off by a drifting amount within its bound.
//
// # A run
//
// [Run] must be called inside a testing/synctest bubble. A [Config] says everything; [Pick] draws
// one from a seed. Clients of every region run the workload while a [Schedule] of faults, composed
// from the seed too, comes and goes. Then everything is healed, and the run checks what must hold
// again: transactions succeed through every gateway into every group within a bound of virtual
// time, no lock and no prepared transaction stays, all replicas of a shard hold the same versions.
// The history is judged afterwards, outside the bubble, by [Outcome.Check].
//
// While it runs, every key for which a group answers as its owner is noted (owners.go): at every
// step, no two groups, and no two leaders of one group, may have served the same key in overlapping
// intervals of time.
//
// A seed repeats its configuration, its faults and the choices of its clients. It does not repeat
// the order in which goroutines run, so a failure that depends on it may need several runs.
//
// # What a client may conclude
//
// A client of a node that crashes gets no answer: whatever the node's goroutines still return after
// the crash is thrown away and the transaction is recorded as of unknown outcome.
//
// # Tests
//
// A test that removes a rule or breaks a promise must be rejected ("bites"). What shows in nearly
// every seed may try a few; what shows seldom has a scenario, which must also pass when nothing is
// broken. 'make test' runs a few seeds and cases of each kind; GODWIT_LONG=1, as 'make soak' sets,
// runs all of them.
package sim
