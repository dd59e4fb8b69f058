// Package statements keeps what the statements of clients cost: by digest (package digest), which
// performance_schema and the database godwit show, and in the log if they were slow.
//
// What counts is what a client has sent to this node: a text, one of several in a text, the
// execution of a prepared statement. What procedures, triggers and events execute is part of the
// statement that called them, or of none, and what other gateways have forwarded counts there.
package statements
