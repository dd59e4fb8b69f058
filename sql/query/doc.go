// Package query runs SELECTs: it binds them (package bind), plans them (opt), runs the plan (exec)
// over the tables of the statement (access), and encodes the result for the protocol. UPDATE,
// DELETE, INSERT and REPLACE are queries whose rows are written (change.go, insert.go): package
// assign converts values to what columns hold, formula.go computes what follows from a row,
// references.go follows foreign keys, trigger.go fires triggers. routine.go runs the statements of
// stored programs. weigh.go refuses what would take too much to parse.
//
// What it does not run is left to the engine before anything was done, and counted by its reason
// ([Runner.Fallbacks]). Everything around the statement is as with the engine: privileges of each
// table and view that it names, transaction and autocommit, the list of processes and KILL,
// warnings, status variables.
package query
