// Package opt makes a plan of a query: of the algebra that the binder yields, a tree of physical
// operators, and of that the operators of package exec.
//
// The steps, each in a file:
//
//	unnest.go    subqueries in expressions become Apply
//	decor.go     Apply becomes a join, where what depends on the outer row can be pulled up
//	push.go      conditions go down as far as they keep their meaning; outer joins that a
//	             condition makes inner ones become such
//	nothing.go   what has no rows, whatever the tables have, is not read
//	order.go     the order of inner joins: dynamic programming up to 10 relations, greedy above
//	path.go      how a table is read: all of it, ranges of an index, look-ups for outer rows
//	window.go    window functions, and which of them share a sort
//	physical.go  the other operators
//	cost.go      what that takes, in microseconds
//	build.go     the operators of package exec
//
// A cost is time: the round trips that depend on each other (latency), and the work for bytes and
// rows. Whatever can be asked for at once counts once.
package opt
