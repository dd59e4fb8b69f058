// Package tscache remembers up to which timestamps keys have been read, for timestamp ordering
// (docs/protocol.md, ORD), and at which timestamps transactions have ended, for a region's
// timestamp manager. Both are bounded: what is forgotten counts as read, or as ended, at the
// largest timestamp forgotten. Neither is safe for concurrent use.
package tscache
