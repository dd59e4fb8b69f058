// Package bundle makes what a node tells somebody who helps with a fault: files with its state, as
// a tar stream. It knows no part of the node: each file is a [Part], made by who knows it.
//
// What leaves a node by a bundle is read by strangers. Everything in it passes [Hide], which takes
// out passwords, tokens and keys by their names, and literals and values of rows by their form.
// Lines of the log are hidden when they are kept ([Recent]), those of files when they are read
// ([Tail]). What is left are names: of tables, columns, users, regions, nodes and addresses.
//
// A bundle is bounded in time and bytes. A part that takes too long or fails is named in the last
// file, [ErrorsName], and does not keep the others back. A stream that does not end with that file
// is not whole.
package bundle
