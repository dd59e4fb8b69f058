// Package server is the MySQL face of Godwit: the protocol, the engine (go-mysql-server) with its
// parser and builder, and all statements that MySQL does not have. It wires the other packages
// below sql/ together:
//
//	schema    what tables are, and how rows are laid out
//	session   connection, transaction, statement
//	table     reads and changes of rows
//	prefetch  what a statement will ask for, read ahead
//	ddl       the catalog as the engine sees it, and its changes
//	fast      statements on one row, past the engine
//	query     SELECTs and changes of many rows, in our own engine
//	rights    what an account may do
//
// Only packages below sql/ import go-mysql-server.
//
// # The life of a statement
//
// The handler (handler.go) takes a command of the protocol. It first tries the short ways: BEGIN
// and COMMIT (fasttx.go), forwarding to the region of the rows (forward.go), packages fast and
// query. Else the engine parses the text (parser.go, syntax.go), plans it, and asks the builder
// (builder.go) for each node of the plan before it builds the node itself. An autocommit statement
// that has lost a conflict is tried again, as long as no row was sent.
//
// # Where to add things
//
// A statement of our own is parsed in syntax.go and becomes an ownNode. A table of the database
// godwit is a Topic (system.go), which the Cluster of Config tells about. A cluster setting is one
// of the Settings of Config, which package node makes. A SQL function goes to package expr/fn for
// our own engine, and to package function for the statements that go-mysql-server runs. If it
// depends on the region, as UUID() does, it takes the place of the engine's in the plan (uuid.go).
//
// # Errors
//
// Lost conflicts reach the client as 1213 (40001) and lock timeouts as 1205; both end the
// transaction, as 1213 does in MySQL. See schema.ClientError.
package server
