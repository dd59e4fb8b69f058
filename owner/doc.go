// Package owner evaluates requests for the rows of a group at its leader, and
// is the state machine that the group's log drives at every replica. It is the only place where a
// row is locked, and where a commit timestamp is chosen.
//
// What every replica derives from the log alone: versions, prepared and finished transactions,
// leases, the join of all vectors, the closed timestamp. What only the leader has, in memory, and
// loses with its term unless it hands its lead over: locks, registered transactions, the timestamp
// floor.
//
// What neither waits nor proposes is in sub-packages: state is a function of the log, view one of
// the store, evaluate one of a view and a request, rewind one of a promotion. The table of
// transactions is txns, the states of a lead are lead, and the timestamps of reads are in tscache.
// The way to the policy of row homes is homing, the way to the leader of a group is route. What is
// measured is gauge, and the plain settings are tuning.
//
// The rules, OWN-1 to OWN-17, are in docs/protocol.md.
//
// # Lock order
//
// Replica.propMu before Replica.mu. Neither is held while waiting for anything
// but the store's reads; done callbacks of the group take mu only.
package owner
