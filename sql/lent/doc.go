// Package lent lends functions of our own engine to go-mysql-server, and counts what the others of
// that engine make.
//
// The engine has no limits for what a function makes: SPACE takes time that grows with the square
// of the length, and what REPEAT or JSON_ARRAY of itself make grows without end. Those whose
// results may be longer than their arguments are computed by package expr/fn, which knows
// max_allowed_packet and can be interrupted. Of the others that make texts the results are counted
// to the statement, since one row may have thousands of columns.
package lent
