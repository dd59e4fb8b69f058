// Package replica has CHANGE REPLICATION SOURCE TO, START REPLICA and what belongs to them: a
// cluster follows a running MySQL or MariaDB, or another cluster, as a replica of MySQL does.
//
//	statement.go  reads the statements
//	channel.go    keeps what a channel is told, and how far it has come
//	env.go        executes the statements
//	show.go       answers SHOW REPLICA STATUS
//	run.go        follows a source, as a job (package kv/job)
//	target.go     applies its changes in a session of this node (package follow reads the log)
//
// # Once
//
// A channel is a row of the meta shard. It has the position behind what was applied, and is written
// in the transaction that brings the rows there, so that nothing is applied twice and nothing is
// lost. The row also names the job that follows, and its term: a node that has lost the job, or
// whose channel was stopped, finds that in its next transaction, and applies nothing more.
// Definitions commit by themselves; the position behind one is written next. After a failure
// between the two a definition is tried again, and may find that it is there.
//
// # Rights
//
// As in MySQL, CHANGE REPLICATION SOURCE TO, START and STOP REPLICA take REPLICATION_SLAVE_ADMIN or
// SUPER, RESET REPLICA takes RELOAD, and SHOW REPLICA STATUS takes REPLICATION CLIENT.
// What a source sends is applied with the rights of the account that started the channel.
package replica
