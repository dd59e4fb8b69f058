// Package function is where SQL functions of Godwit are added for statements that go-mysql-server
// runs, and where those of the engine are replaced that answer otherwise than MySQL's. Our own
// engine has its functions in package expr/fn: a new function goes to both.
//
// A function is an entry of the table in function.go: a name and how to make an expression from
// its arguments. The provider of package ddl shows the table to the engine, which looks there
// before it looks at its own functions. Add a file for a function, an entry to the table, and cases
// to the test, with what MySQL answers.
//
// Functions that touch the client's session, such as LAST_INSERT_ID(), must also be named in
// sql/server/route.go: a statement with one of them is not forwarded to another region.
package function
