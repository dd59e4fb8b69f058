// Package txns is the table of the transactions that a group's owner knows: their locks, what they
// are about to commit, the slots that bound them, and who waits for them.
//
// Nothing here waits, sends or logs: methods look at the table, or change it, and return. Package
// owner guards a table with one lock, waits outside of it, and makes a table anew for each term.
package txns
