// Package homing stands between the owner of a group and the policy of row homes: it tells the
// policy which rows transactions read and write, takes its advice to the transactions, and proposes
// the moves that no statement carries out. It also remembers the newest moves.
//
// The policy decides (package home), and moves are made by logged writes of the owner
// (OWN-7): nothing here changes which group owns a row. The owner lends its lock on transactions,
// and the way to lock a row that is free.
package homing
