// Package tree parses statements for package bind: with TiDB's parser, to which it adds what that
// one lacks or leaves to its users. Literals keep what was written. The rows of an INSERT may have
// a name ([Aliased]), and INTERVAL (n) DAY is an interval.
package tree
