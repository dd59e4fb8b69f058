// Package evaluate finds out, for the owner of a group, what a commit or a vote comes to on one
// view of the store: whether this group owns the keys written, which of the writes are to be logged
// and with which labels, which gaps they give to other groups, and whether what was read still
// stands. It says as well what is wrong with a request before anything is looked up, and which keys
// and ranges a request concerns.
//
// Nothing here waits, locks or asks the time. Package owner takes the locks under which the
// findings stay true, waits for what a view lacks (Findings.Need), and then looks again.
package evaluate
