// Package prefetch reads ahead what a statement is going to ask for. The engine asks row by row: it
// checks foreign keys, looks for duplicates, looks tables up for joins and runs triggers one row at
// a time, which would be a trip to another region for each. So the rows are read ahead in batches,
// and what they lead to is locked and read together.
//
// All of it is a prediction. The engine does its work as ever, finds most answers at hand
// ([kv.Txn.Ahead], or [table.Access.Fetched]), and asks the owners for the others. A wrong
// prediction costs time and never an answer.
//
//   - lookupjoin.go, subquery.go: the inner rows of lookup joins and correlated subqueries, a batch
//     of outer rows at a time;
//   - readplan.go: which rows of a plan are going to be changed, and how;
//   - prediction.go: the read set of such changes, through foreign keys and unique indexes, level
//     by level; words.go: that of full-text indexes;
//   - speculate.go, speculable.go, speculativetxn.go: speculative execution of triggers, whose
//     reads depend on their code.
//
// The builder of package server tells the [Planner] of the nodes of each plan from the root down,
// before the engine builds them. What it keeps of a statement is in its session.Statement.
//
// Our own engine reads ahead by itself (package access). Of this package it uses what follows
// foreign keys.
package prefetch
