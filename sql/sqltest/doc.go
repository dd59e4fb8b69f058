// Package sqltest holds no code: its tests are stories about the SQL front, one a file of testdata.
//
// A story runs against whole servers of package sql/server, one a region, over a shared
// [github.com/godwitdb/godwit/kv/memkv] store. Clients talk to them in the MySQL protocol through
// pipes, and everything runs in a testing/synctest bubble: waits cost nothing, time stands still
// between steps, and a statement that waits for a lock is known to wait.
//
// The store has no distances. A recorder between it and the servers gives it some: a request that
// concerns a row whose home is another region is one round trip. The recorder also writes down
// which requests a statement made, so that stories can show what is read ahead.
//
// # Language
//
// Stories are files of github.com/cockroachdb/datadriven; `go test ./sql/sqltest -rewrite` writes
// the answers anew. Directives:
//
//	cluster regions=(eu,us) shards=4       servers of these regions (default: eu, us); before all
//	                                       else
//	session name region=us user=u db=d     a client's connection; "a" (eu) and "b" (us) are there
//	sql [name] [flags]                     statements, one a line; indented lines go on
//	prepared [name] [flags]                a statement, and lines "? 1, 'x', NULL" that execute it
//	packet [name] [rows]                   all lines as one text of several statements, and what the
//	                                       server sent for each to the byte; with rows without counts
//	                                       and status
//	relay                                  transactions cross regions by slots from here on
//	took                                   whether what was sent last was a program
//	agree [name]                           the same statements by the fast path, as text and
//	                                       prepared, and by the engine: one answer, or all of them
//	start name                             a statement that may wait: says whether it does
//	finish name                            the answer of a statement that was started
//	advance 5s                             virtual time
//	fault region=eu op=commit nth=1 code=aborted   a request to come fails
//	corrupt table=t value=ff00             overwrites all rows of a table
//	behind region=eu                       its gateway hears no more of changes of the catalog, until
//	                                       "behind region=eu no"
//	entries table=t index=1 do=keep [by-home]   remembers the entries of an index (do=drop deletes
//	                                       them, too; do=put writes what was remembered)
//	stored                                 what is in the store, whoever it belongs to
//	restart region=eu                      stops a server and starts another one in its place
//
// Flags of sql and prepared: trace (the requests), trips (round trips), path (fast, engine or
// forwarded), warn (warnings), names (of columns), sort (rows in order of their text), quiet (only
// errors), words (of errors; without it they are a number and an SQLSTATE, since most words are the
// engine's), last (only the last row).
//
// Stories below testdata/plain are plain MySQL: with the flag -beside DSN they run against another
// server of the protocol, and differences between the answers are logged.
package sqltest
