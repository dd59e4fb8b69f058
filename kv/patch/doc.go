// Package patch evaluates updates whose result depends on their own row only: `SET n = n + 1`, `SET
// name = 'x'`. They are shipped to the owner of the row and evaluated there over whatever the row
// is at the transaction's slot (docs/protocol.md REL-9).
//
// A patch is a partial function of the row's value. It is defined over a value if
//
//   - the value is of the patch's format and holds each column that it changes;
//   - a sum stays within the bounds of its column, and is not one with NULL; what is put behind a
//     string fits;
//   - the value does become another one, which is not empty.
//
// So whoever knows that a patch is defined knows all that a client is told of the statement: that
// the row was there, that it changed, and that there was no error. The owner lets nobody make a row
// one over which a pending patch is not defined.
//
// Values are laid out as package sql/schema/rowfmt says. Payloads do not say how long they are:
// their class does, which comes with the patch. The package is a pure function: the same patch
// gives the same everywhere.
package patch
