// Package relay regenerates the figures of Relay: local transactions do not wait for those that
// cross regions.
//
// On locks (sections 4.2 and 4.3; benchmark relay), transactions that cross regions run in a tier
// of their own. The baseline has one kind of locks for all, as Spanner. On timestamp ordering
// (section 4.4; benchmark crdbrelay), each region has a timestamp manager. The baseline is
// CockroachDB's ordering without one.
//
// Both run whole clusters in virtual time under the same closed loop of clients ([loop]).
package relay
