// Package ahead looks at a definition before the engine plans it. It finds what MySQL finds wrong
// in it, with MySQL's numbers, and turns what the engine would do in another way into clauses that
// come to the same.
//
// The clauses of an ALTER TABLE are all about the table as it was: a column that one of them
// renames or adds has its new name in keys only. The engine executes one after the other.
package ahead
