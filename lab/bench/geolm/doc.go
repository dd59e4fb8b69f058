// Package geolm regenerates the figures of GeoLM: leaders where requests take least, beside leaders
// that stay, a leader near its quorum (Raft-Plus), and GeoLM without its parts.
//
// The variants of a figure are consensus groups on the same nodes, under the same delays at the
// same time, in virtual time; there is no database above them. What a change of leader costs the
// clients of the database (table I), and what measuring costs, is taken from package sim.
package geolm
