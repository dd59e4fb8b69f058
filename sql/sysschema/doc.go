// Package sysschema makes the database sys: MySQL's summaries of performance_schema and
// information_schema for people, under the names and columns of MySQL 8.0.
//
// Views whose figures are times, bytes or statements come twice, as in MySQL: one words them
// ("3.20 ms"), and one with x$ before its name has the numbers. The rows are computed here and not
// by the text of a view: what reads system tables is run by go-mysql-server, whose sums are
// doubles. Who reads one needs the rights to the tables of performance_schema that it is made of.
//
// Views of what this node does not count, such as the use of tables and indexes, are not there.
package sysschema
