// Package expr has the scalar expressions of the executor: types, vectors, the tree of an
// expression, and its compiled form, which works on batches of rows with MySQL's semantics.
//
//	Node     the tree: what a binder makes and a planner rewrites. Immutable, with types.
//	Expr     a compiled value: Eval fills a vector for the selected rows of a batch.
//	Pred     a compiled condition: Filter keeps the rows for which it is TRUE, or FALSE.
//	Acc      an aggregate over groups.
//
// # Types
//
// A type is derived bottom up. The constructors of nodes (NewCall, NewCase, NewIn) insert the
// casts that MySQL's rules imply, so that a compiled function meets arguments of the kinds it is
// made for. A comparison takes place in one type, for strings in one collation (Call.Cmp), which
// follows from the coercibility of both sides; a mix that MySQL refuses is error 1267.
//
// # Three-valued logic
//
// A Pred has no vector of truth values. Filter(want=true) returns the rows for which the
// condition is TRUE, Filter(want=false) those for which it is FALSE; rows for which it is NULL
// are in neither. NOT swaps the two, AND and OR narrow the selection step by step.
//
// # Ownership
//
// A vector that Eval returns belongs to the expression and is valid until its next Eval. Compiled
// expressions hold vectors and are used by one goroutine; nodes may be shared.
//
// # Evaluation order
//
// CASE, IF, COALESCE, AND and OR evaluate later arguments only for the rows that get there, so
// that an error in a branch that MySQL would not take does not arise.
package expr
