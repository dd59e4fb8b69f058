// Package bulk runs IMPORT INTO and EXPORT INTO: rows from and to files of a directory or a bucket
// (package place), in the formats of package rowfile.
//
// # Jobs
//
// Both are jobs (package kv/job) that outlive their node. They work in sessions of the account that
// gave the statement, so that its privileges, triggers, constraints and conversions are those of
// any other statement.
//
// # An import
//
// One goroutine divides the files into chunks of rows. Several workers load them, each chunk in a
// transaction of its own, as LOAD DATA of a text that is made of it. The transaction also writes
// the record of the chunk: which rows of the file it has. So a chunk is loaded once, whatever dies:
//
//   - A worker that does not know how its transaction ended looks for the record.
//   - Another node that goes on reads the records, and leaves out what they have. Chunks need not
//     begin where they began before; but a chunk ends where one begins that is there.
//   - A node that was believed dead may still be at work. The transaction of a chunk reads the term
//     of its node in the fence, a row that the node that goes on has changed before it reads the
//     records. So either its record is read, or it does not commit.
//
// Records of chunks that follow each other become one. They are removed with the end of the job.
//
// A row that cannot be stored is found by halves: a part of its chunk is loaded in a transaction
// that is rolled back. So each error has a line, whatever the statement says of it.
//
// # An export
//
// The rows of one SELECT, so of one snapshot, go to files that are written when they are full.
// Another node that goes on begins anew, and removes the files of the node before.
package bulk
