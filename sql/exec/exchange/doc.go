// Package exchange lets several goroutines work for one statement, in the way of Volcano's exchange
// operator and of morsels (Leis and others, Morsel-Driven Parallelism, SIGMOD 2014).
//
// An [Exchange] stands above a chain of operators that work on each batch of a scan alone: decode,
// filter, project, look up in the hash table of a join ([exec.Piece]). The statement's own
// goroutine takes the rows of the scan as they are stored, part by part; only it uses the
// transaction. Helpers do the rest with copies of the chain. They have expressions and vectors of
// their own, and share the rows and the table of a join, which nobody changes once they are loaded.
//
// # The same answer
//
// Parts are handed on in the order in which they were taken. So what is above an exchange gets the
// same rows in the same order, in the same batches, as without helpers: the order of a result
// without ORDER BY, the group that is found first, the one of two equal values that MIN keeps, and
// the bits of a sum of DOUBLEs do not depend on how many helpers there were. Warnings, errors and
// panics of a part come when the part has its turn, and not at all if nobody asks for so many rows.
//
// Only expressions of functions that are known to depend on nothing but their arguments run in
// helpers ([Free]); one that is not known keeps its chain in the statement's goroutine.
//
// # Processors
//
// A helper runs while a processor of the node is free and nobody else asks for it
// ([admit.Turn.Spare]). Between two parts it gives that up if a statement waits, or if as many
// statements compute as there are processors. Helpers do not wait for work: they end when there is
// none. A statement gets none before it has computed for a millisecond. Until then, the chain
// itself yields the rows as without an exchange: nothing is copied, made or started.
//
// # Bounds
//
// No more parts are computed ahead than twice the workers and two. What a part yields is accounted
// for; if it is too much, or there is no memory, the helper leaves the rest of the part to the
// statement's goroutine, which hands it on batch by batch.
package exchange
