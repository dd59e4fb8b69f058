// Package fn has the functions and aggregates that package expr finds by name. Importing it
// registers them.
//
// Most functions are described by a sig: kinds of arguments, type of the result, and the
// computation of one value. Those that are not native are those of the engine's library, boxed
// row by row (box.go); what the library is known to do wrong is native.
package fn
