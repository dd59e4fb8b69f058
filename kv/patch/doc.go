// Package patch evaluates updates whose result depends on their own row only: `SET n = n + 1`, `SET
// name = 'x'`. They are shipped to the owner of the row, which evaluates them over the row's value
// at the transaction's slot (docs/protocol.md REL-9).
//
// A patch is a partial function of the row's value. It is defined over a value if
//
//   - the value is of the patch's format and holds each column that it changes;
//   - a sum stays within the bounds of its column, and is not one with NULL; what is put behind a
//     string fits;
//   - the value does become another one, which is not empty.
//
// So a gateway that knows that a patch is defined knows all that it answers to the client: that the
// row was there, that it changed, and that there was no error. The owner refuses writes that would
// make a row one over which a pending patch is not defined.
//
// Package sql/schema/rowfmt defines the layout of values. A payload does not contain its length:
// its class determines it, and the patch carries the classes. Evaluation is pure: the same patch
// gives the same result on every node.
package patch
