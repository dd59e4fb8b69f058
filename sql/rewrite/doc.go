// Package rewrite brings statements of MySQL, of its dumps, and Godwit's own forms of them to what
// the parser and the engine of go-mysql-server take. What is quoted, and comments, stay as they
// are.
package rewrite
