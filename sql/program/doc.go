// Package program parses and runs stored programs: procedures, functions and the bodies of
// triggers and events. There is one interpreter for all of them.
//
// It knows blocks, variables, conditions, handlers, cursors and control flow. The texts of
// statements and expressions are cut out of the program as they were written, and belong to the
// [Host]: it evaluates expressions, with the variables that a [Frame] knows, runs statements, and
// converts values to the types of variables.
//
// An error of a statement is a condition. The innermost block that has a handler for it runs it; in
// one block a handler for the number of the error goes before one for its SQLSTATE, and that one
// before SQLEXCEPTION. While a handler runs, the handlers of its block take nothing, and the blocks
// inside of it are out of sight. A condition without a handler ends the program. What statements
// only warn of is a condition, too, and forgotten without a handler.
package program
