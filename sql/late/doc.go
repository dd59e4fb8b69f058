// Package late tells clients of errors that come after some rows of a result: of a row that cannot
// be computed, of KILL QUERY, of max_execution_time. MySQL sends an ERR packet where the next row,
// or the end, would be, and the connection goes on. The protocol library has no way to do that, and
// closes the connection.
package late
