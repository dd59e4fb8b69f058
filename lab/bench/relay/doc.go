// Package relay regenerates the figures of Relay: nobody nearby waits for somebody far away.
//
// On locks (sections 4.2 and 4.3; benchmark relay), transactions that cross regions run in a tier
// of their own, beside one kind of locks for all, as Spanner has them. On timestamp ordering
// (section 4.4; benchmark crdbrelay), each region has a timestamp manager, beside CockroachDB's
// ordering alone.
//
// Both run whole clusters in virtual time, and the same closed loop of clients ([loop]).
package relay
