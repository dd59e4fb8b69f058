// Package geolm regenerates the figures of GeoLM: leaders at the node where requests take least,
// beside leaders that stay, a leader near its quorum (Raft-Plus), and GeoLM without some of its
// parts.
//
// The variants of a figure are consensus groups on the same nodes, under the same delays at the
// same time, in virtual time; there is no database above them. Package sim measures what a change
// of leader costs the clients of the database (table I), and what measuring costs.
package geolm
