// Package bound keeps statements that go-mysql-server runs within their memory, and lets them be
// interrupted.
//
// That engine counts nothing. Its operators that keep rows (sorts, groups, hash joins, windows,
// caches of subqueries, recursive CTEs) pull them from the iterators of their children, so that is
// where they are counted: [Builder] sees each node before the engine builds it, and puts an
// iterator of its own between a node that keeps rows and its children. What aggregates keep is
// counted where they are updated.
//
// An [Account] is what one statement keeps. It is made for each statement of a client, travels in
// the statement's context, so that statements of procedures and triggers count to it, and gives
// everything back when the statement ends. What an operator keeps is given back when its iterator
// is closed. What the engine keeps longer (hash tables, cached results, results of subqueries) is
// given back when it is made anew, or when the statement ends.
//
// The iterators also look whether the statement has been interrupted. So do the expressions by
// which rows are sorted, and LIKE.
package bound
