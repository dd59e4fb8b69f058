// Package exec has the operators that run a plan: batches of rows go from operator to operator.
//
// An operator (Op) pulls batches of up to expr.BatchSize rows from those below it. A batch
// belongs to the operator that made it until its next call; an operator that keeps rows copies
// them, and accounts for the copies in Mem. When a budget is used up, hash joins, aggregations,
// DISTINCT, sorts and windows spill to temporary files. They leave an eighth of each budget to the
// other operators, which fail with error 1038 when that is used up, too.
//
// Rows come from a Source, which the packages above implement over kv. Opening a plan starts the
// reads of all its leaves, before any of them is waited for.
//
// Functions of windows whose orders begin alike share one sort. A window holds the partition that
// it is at, and its functions go through that with cursors. A frame that slides gives up the rows
// that it loses, if the aggregate can forget them exactly (whole numbers, DECIMALs, bits), MIN and
// MAX keep a queue of what may still become the answer; the others (DOUBLE, variances, JSON) begin
// anew, as MySQL's do, since a sum of DOUBLEs depends on its order.
//
// Equality of values in joins, groups, DISTINCT and set operations is MySQL's: by collation for
// strings, NULL equal to NULL except in joins. It is decided by keys that are equal exactly if
// the values are, never by hashes alone.
package exec
