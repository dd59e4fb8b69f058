// Package sim runs a whole cluster in one process, in virtual time and under faults. Checkers then
// judge the histories of its clients.
//
// # What is real and what is not
//
// The nodes are assembled by package node as in production: the same consensus groups, owners,
// coordinators and heartbeats. Three things are replaced, through interfaces that production uses,
// too:
//
//   - the network is package wan's emulation: delays, jitter, loss, cuts;
//   - the disk is Pebble's crashable in-memory file system. A synced commit takes virtual time
//     ([store.Options.SyncDelay]); a crash keeps what was synced and a random part of the rest;
//   - the clock of each node is off by a drifting amount within its bound.
//
// # A run
//
// [Run] must be called inside a testing/synctest bubble. A [Config] determines everything; [Pick]
// draws one from a seed. Clients of every region run the workload during a [Schedule] of faults,
// which also follows from the seed. Then all faults end, and the run checks what must hold again:
// transactions succeed through every gateway into every group within a bound of virtual time, no
// lock and no prepared transaction stays, and all replicas of a shard hold the same versions.
// Afterwards, outside of the bubble, [Outcome.Check] judges the history.
//
// While it runs, it notes every key for which a group answers as its owner (owners.go). At no step
// may two groups, or two leaders of one group, have served the same key in overlapping intervals of
// time.
//
// A seed determines the configuration, the faults and the choices of the clients. It does not
// determine the order in which goroutines run, so a failure that depends on that order may need
// several runs to appear again.
//
// # What a client may conclude
//
// A client of a node that crashes gets no answer. The simulation throws away what the node's
// goroutines return after the crash, and records the transaction with an unknown outcome.
//
// # Tests
//
// A run that breaks a rule or an assumption must be rejected (tests named "Bites"). A break that
// shows in nearly every seed tries a few seeds. One that shows seldom has a scenario, which must
// also pass when nothing is broken. 'make test' runs a few seeds and cases of each kind;
// GODWIT_LONG=1, as 'make soak' sets, runs all of them.
package sim
