// Package sqldiff judges SQL answers by those of another server: it makes random schemas, rows and
// statements, runs them here and on MariaDB, and compares. What differs it makes smaller.
//
//   - schema.go, forms.go, gen.go, query.go, change.go: the generator. A statement is a tree of
//     [Node], typed by the kinds of its expressions, so that the reducer can cut it.
//   - compare.go: rows are compared as bags, in order only where ORDER BY makes one; numbers as
//     numbers; then the types of columns, affected rows, numbers of errors, and the tables after a
//     change.
//   - reduce.go: leaves out and replaces parts of a statement as long as it still differs.
//   - relation.go: tests that need no second server: ternary logic partitioning, NoREC, pivoted
//     query synthesis.
//   - side.go, mariadb.go: the servers. run.go: rounds, and the report by classes.
//
// A seed makes the statements of a round again. What MySQL leaves open is not generated, or not
// compared: the order of equal rows, which of equal texts DISTINCT keeps. Where MariaDB and MySQL 8
// differ, MySQL's manual decides.
//
// What was found is in testdata, with MySQL's answers, and runs in the tests of this package
// without MariaDB.
package sqldiff
