// Package table reads and changes the rows of tables for the engine.
//
//   - [Table] is a table as one statement sees it; [Indexed] is the same read through an index. The
//     copies that the planner makes of a Table share its [Access], which says how the statement
//     uses it: under which lock, whether it changes the rows that it reads, whether it reads all of
//     them before the first change.
//   - [Source] yields the rows of a read, batch by batch: spans of keys or single keys, the rows
//     that index entries name, the check of what a range of keys did not say exactly.
//   - [Editor] gathers the changes of a statement to one table and sends them to the kv transaction
//     in batches, so that the keys that must be absent are read together and no row costs a trip of
//     its own. It keeps the successor of a table up to date as well (mirror.go).
//   - [Counters] leases AUTO_INCREMENT values in blocks, and takes over the gaps into which their
//     rows will fall (fence.go).
//   - [HomesTable] is t__homes, which shows and sets where the rows of t live.
//
// Changes of the definition are not here: package ddl wraps a Table. What a statement is going to
// ask for is read ahead by package prefetch, which this package does not know: it looks into
// [Access.Fetched] before it reads, and leaves the editor of full-text indexes to
// [Env.WrapFulltext].
//
// # Order
//
// A reader calls [Table.Open], which begins and pins what is needed and chooses the lock, then
// Next. An editor is used as the engine does: StatementBegin, changes, then StatementComplete or
// DiscardChanges.
package table
