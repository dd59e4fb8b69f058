// Package ddl shows the catalog to the engine and changes it.
//
//   - [Provider] and the databases that it returns are the catalog as the engine sees it: each
//     look-up goes to the snapshot of the statement.
//   - [Table] is a table.Table with the methods of ALTER TABLE, which the engine wants on the table
//     itself.
//   - A mutation is one schema change within the transaction of the session: it locks the
//     descriptors that it changes, writes new ones, and shows them to the rest of the transaction.
//     As in MySQL a schema change first commits what the transaction has written.
//   - What takes long goes on beside the statements of others: indexes are filled while writers
//     keep them up (backfill.go), tables that need other keys get a successor (copytable.go), and
//     the rows of what was dropped are removed in the background ([Collector]). [Jobs] tells how
//     far it is.
//
// # Order of an online change
//
// A definition that others must respect is committed before rows are written for it, and shown to
// readers after all rows are there. Transactions pin the descriptors that they used, so no
// transaction that knows an older definition can commit after that.
//
// Invariant: an index in state IndexPublic has exactly the entries of the rows of its table.
package ddl
