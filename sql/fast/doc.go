// Package fast runs statements on one row by its primary key, and reads of a few rows by a range of
// it, past the engine, whose analyzer would cost several times the rest.
//
// A statement text is brought to a [Template]: what it says with its constants left out, parsed
// once. A template is bound to one version of a table. What this package is not sure about (a value
// that must be converted with a warning, say) it leaves to the engine before it has done anything.
// It uses the same snapshots, privileges, transactions, pins, locks and editors as the engine does.
//
// The order of a call: [Runner.Text] or [Runner.Prepared] recognises the statement, [Call.Try] runs
// it or says that the engine has to, and [Call.Learn] keeps how the engine described the result.
//
// An UPDATE whose result depends on nothing but its row can be shipped to the owner of the row as a
// patch (ship.go, package kv/patch).
package fast
