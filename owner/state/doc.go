// Package state is what every replica of a group derives from the group's log alone: the leases,
// the closed timestamp, the join of all vectors, the transactions that are prepared or refused, and
// the steps of the clock mode.
//
// It looks at no row. Rows change by other groups' logs as well, and replicas apply those in
// different orders, so an entry that depended on a row would make replicas differ. Nothing here
// waits, asks the time, or sends a message; the caller holds a lock.
package state
