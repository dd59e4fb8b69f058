// Package follow reads the binary log of a running MySQL or MariaDB server, or of another Godwit
// cluster, as a replica does, and applies what that server commits.
//
//	stream.go  reads the log, and makes transactions and definitions of its events
//	event.go   reads events and the values of rows
//	apply.go   writes the statements that change the same rows, and applies them
//	follow.go  does both, for as long as a connection lasts
//
// Where rows go, and where the position behind them is kept, is a matter of the [Target]: of
// another server for the command `godwit import` (package cmd/migrate), of the node itself for
// START REPLICA (package sql/replica). A target keeps the position in the transaction that brings
// it there, so nothing is applied twice and nothing is left out.
package follow
