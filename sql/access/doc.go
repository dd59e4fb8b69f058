// Package access reads tables for the operators of package exec: rows of the store are decoded
// straight into vectors.
//
//   - [Statement] is made for each statement. It knows the session, and all reads of the statement
//     that have been started.
//   - [Table] is one table of it: an algebra.Table for the binder and the optimiser, and an
//     exec.Source for the operators. Only stored tables can be read. (Package query leaves system
//     tables and t__homes to the engine.)
//
// # Order
//
// Source.Start sends nothing: it notes what will be read. When the first row is asked for, the
// statement sends what all started reads are sure to need in one step (announce.go). So the leaves
// of a plan that do not depend on each other cost one round trip. What that step did not bring is
// read as it is needed. A read with NOWAIT or SKIP LOCKED takes no part in that step.
//
// A transaction is used by one goroutine at a time, so all reads of a statement belong to one.
// [Statement.Close] ends them.
//
// # What is read
//
// The rules of package table hold: [table.Table.Open] begins and pins what is needed and chooses
// the lock; the transaction's own writes are seen; a table that is MULTI MASTER is validated at
// commit; AS OF reads its own snapshot. Spans are lexicographic ranges of the index's columns, and
// yield exactly the rows in them, but for columns of which the index has a prefix: there they yield
// more, and the caller filters.
package access
