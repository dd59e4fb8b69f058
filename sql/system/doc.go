// Package system lets our own engine read tables that are not stored: those of information_schema,
// performance_schema, sys, godwit and mysql.
//
// A table says what it holds when it is read, as rows of go-mysql-server's form. A [Table] is such
// a table in one statement: it is read once, when its first row is wanted, and the statement keeps
// the rows until it ends, accounted for. Scans make batches of them. Who may read a table, and what
// a user sees of others in it, is decided by the table and by package rights.
//
// The tables that list tables and columns of all databases are made of the whole catalog, and cost
// as much as that is large. Where a statement names the database, or the table, only that part of
// the catalog is asked (narrow.go). What is read so may have more rows than are wanted: the
// statement's conditions are tested on all.
package system
