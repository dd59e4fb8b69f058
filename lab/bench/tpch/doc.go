// Package tpch runs the queries of TPC-H on Godwit and on MariaDB, over the same rows, and compares
// answers and times.
//
// The rows are made by the distributions of the specification (revision 3.0.1, clause 4.2), not by
// the random numbers of its program dbgen, so that answers cannot be compared with the published
// ones: MariaDB is the judge. The queries have the substitution parameters of validation (clauses
// 2.4.x.3). Indexes are those that clause 1.5.4 permits: of primary keys, of foreign keys, and of
// dates.
//
// This is no TPC benchmark: no power or throughput test, no refresh functions, and a scale far
// below 1. Below 0.01 the four suppliers of a part are not always different ones.
package tpch
