// Package bulk runs IMPORT INTO and EXPORT INTO: rows from and to files of a directory or a bucket
// (package place), in the formats of package rowfile.
//
// # Jobs
//
// Both are jobs (package kv/job) that outlive their node. They work in sessions of the account that
// gave the statement, so that its privileges, triggers, constraints and conversions are those of
// any other statement. A job has units (units.go), which nodes of one region share (package share).
//
// # An import
//
// Of each unit, one goroutine divides the file into chunks of rows. Several workers load them, each
// chunk in a transaction of its own, as LOAD DATA of a text that is made of it. The transaction
// also writes the record of the chunk: which rows of the file it has. So a chunk is loaded once,
// whatever dies:
//
//   - A worker that does not know how its transaction ended looks for the record.
//   - Another node that goes on reads the records, and leaves out what they have. Chunks need not
//     begin where they began before; but a chunk ends where one begins that is there.
//   - A node that was believed dead may still be at work. The transaction of a chunk reads the
//     claim of its unit, a row that the node that goes on has changed before it reads the records.
//     So either its record is read, or it does not commit.
//
// Records of chunks that follow each other become one. They are removed with the end of the job.
//
// A row that cannot be stored is found by halves: a part of its chunk is loaded in a transaction
// that is rolled back. So each error has a line, whatever the statement says of it. Rows that are
// left out are counted in the transaction of their chunk, over all nodes.
//
// # An export
//
// The rows of one snapshot, which a hold keeps, go to files that are written when they are full. A
// file that is there is noted in a transaction that reads the claim of its unit. A file that was
// not noted does not count: who goes on removes it, and so does the node that wrote it, if it is
// still there. A unit that was begun is read again; the files that are noted stay if it yields the
// same ones, byte for byte, and from the first one on that differs they are written anew. So all
// files of a unit are those of one run of its query, whatever order its rows come in.
package bulk
