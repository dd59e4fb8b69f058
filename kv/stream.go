package kv

import (
	"context"

	"github.com/godwitdb/godwit/base"
)

// Streamer is a transaction that can log rows before it commits, while its caller still makes
// others. A Txn that is none logs everything when it commits.
type Streamer interface {
	// Stream says that the transaction is writing many rows of a table, and entries of some of its
	// indexes, for one statement, and then commits. It is called again and again, with the same
	// arguments, behind some of the writes. From the first call on
	//   - no row or entry is written that was written before the last call; a row may be written
	//     again until the next one, an entry may not;
	//   - entries are written by Put and Delete;
	//   - reads need not see what is written;
	//   - RollbackTo a savepoint with such writes behind it ends the transaction.
	// What is written again all the same ends it, too. Insert still finds rows that the transaction
	// has inserted. An error ends the transaction. Stream may wait for the log.
	Stream(ctx context.Context, table base.TableID, indexes ...base.IndexID) error
}
