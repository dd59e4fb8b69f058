// Package feed reads what transactions have committed, in the order of their timestamps, from all
// groups of the cluster. Replicas of other databases (package sql/binlog) and sinks follow it.
//
// # Use
//
//	r, err := feed.Open(ctx, env, feed.Options{Since: ts})
//	defer r.Close()
//	for {
//		txs, resolved, err := r.Next(ctx) // waits
//		// deliver txs, then note durably that all up to resolved is delivered
//	}
//
// Open it again with Since = resolved, at any node, and it goes on there: nothing is missing. What
// was delivered above resolved comes again, with the same timestamps.
//
// # Order
//
// Transactions have rising timestamps. Two that touched different groups may share one; they are
// then one Tx. A Tx is large if its transaction is, or if a table appears with its rows. Then it
// comes in parts: all but the last one have More set, and all have one timestamp. The last part may
// be empty.
//
// Within a Tx definitions come before rows, and rows are in the order of tables and keys, not in
// that of the statements: a Change is the net effect of the transaction on a row. Whoever checks
// unique indexes row by row has to delete first.
//
// # What is no change
//
// A row that only moved to another home, was pinned, or was written as it was. A change of where a
// table's rows lie: LOCALITY, or the successor that takes its place.
//
// # Definitions
//
// The catalog is read as of each moment at which it changed. Rows at or above that moment have the
// new definition, also their images from before. What happened to a table is in Definition. The
// rows of a table that is Created or Truncated follow as inserts: RESTORE and FLASHBACK make tables
// with rows. Those of a Rewritten one follow only if Options.Again wants them.
//
// # Tables that are left out
//
// ASYNC tables: a region's disaster may take back what they committed, and their lag would hold up
// all others. MULTI MASTER tables: epochs commit them, and no store keeps their versions by time.
// The tables of full-text indexes: the engine makes them. Skipped names the first two kinds. If an
// option names one of them, Open refuses. A table that becomes such a one is Dropped for the feed,
// and one that is no longer so is Created. So is one that is renamed out of the filter, and into
// it.
//
// # What it costs
//
// A reader asks the replicas near it what is new, no more than a fifth of the time, and no more
// often than every 100 ms. It keeps at most 16 MiB of versions. A transaction of more is read again
// while it is delivered. With Next it returns about 4 MiB. A hold (package hold)
// keeps old versions from the resolved mark on; after an hour behind (Options.MostBehind) it is let
// go, and Next fails with [base.CodeTooOld]. Without a reader nothing is done.
package feed
