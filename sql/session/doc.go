// Package session keeps what a client's connection, its transaction and its statement are about.
//
//   - [Env] is what all sessions of a gateway share.
//   - [Session] is one connection: its variables, its isolation level, what it has seen.
//   - [Txn] is its transaction. The kv transaction below begins when it is first needed, because
//     only then it is known what it must be. All of its locks, pins, savepoints and pending changes
//     belong to it and end with it.
//   - [Statement] is the facts of one statement. It is a value that is replaced as a whole, when
//     the client's command begins and when the engine begins to plan, so no fact of the statement
//     before can be left in it. A new fact about a statement is a field there.
//
// # Order
//
// The parser notes the syntax, the engine calls ValidateSession and plans, the builder of package
// server sets Planned and Writes at the root of the plan, and the first read or change of a table
// begins the kv transaction ([Txn.Begin]). An error of kv goes through [Txn.Fail], which notes
// whether the transaction is over.
//
// # Which reads lock
//
// Autocommit SELECT and READ ONLY transactions read a snapshot (LockNone). SELECT in a read-write
// transaction takes shared locks at SERIALIZABLE, the default. At REPEATABLE READ it reads the
// transaction's snapshot, at READ COMMITTED the statement's. What UPDATE, DELETE and SELECT ... FOR
// UPDATE read of the tables that they change is locked exclusively.
//
// # Multi-master tables
//
// Where a cluster has MULTI MASTER tables, the kv.DB of Env wraps every transaction of every
// statement (package txn/multimaster), also of statements that touch no such table: it routes reads
// and writes of the shard of the epochs, and passes all others on. A method that is added to kv.Txn
// must be added to that wrapper, too, or it passes the wrapper by. What this package adds for such
// tables is in multimaster.go.
package session
