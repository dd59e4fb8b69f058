// Package pages executes the pages of docs/statements on clusters of three regions in this process:
// what they show is what a client gets. It has tests only.
//
// A fenced block of sql is what clients send, and the block of text behind it what they get; a
// block without one gets nothing but OKs. In sql:
//
//   - a line `-- in us-east` has the statements below it sent there, and `-- as ann` by this user,
//     until the next such line (`-- as root in eu-west` is where a page begins);
//   - a line `-- a moment later` has the next statement repeated until it shows what is written,
//     for half a minute;
//   - `-- at the same time:` begins a statement that others do not wait for; what it shows comes
//     at the end of the block;
//   - `DELIMITER //` is the mysql client's.
//
// In text, `...` stands for anything, and a line that is `...` for any number of lines. Columns are
// padded with spaces, and spaces count once. A block of csv is the file that LOAD DATA LOCAL INFILE
// reads in what follows. file:///backups is a directory of the test.
//
// `go test ./lab/pages -args -rewrite` writes what clients get into the pages, but where the pages
// already say so.
package pages
