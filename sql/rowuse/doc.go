// Package rowuse tells which regions use which rows of tables, from the statements that nodes keep
// anyway (package recording): nothing is counted while statements run. It is for tables that live
// in one place for all of their rows, of which the heat of single rows is not kept.
//
// # Samples
//
// A row is known by a hash of its primary key's literals. [Of] gives those rows of a node with the
// least hashes (a bottom-k sample: Cohen and Kaplan, "Summarizing data using bottom-k sketches",
// PODC 2007). All nodes hash alike, so a row that is in the sample of one is in those of all that
// use it, and [Merge] knows of each row how often each region uses it. A sample has [MaxRows] rows
// of a table, and 16 bytes a row leave the node: no literal does.
package rowuse
