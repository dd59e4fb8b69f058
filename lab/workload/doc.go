// Package workload drives any server that speaks the MySQL protocol with TPC-C, YCSB, YCSB-T, a
// bank and travellers, one client population a region, and reports what each region saw.
//
// # Contract
//
// New makes a Workload from a name and Options; the three verbs then take Targets, one a region:
//
//	w, err := workload.New("tpcc", opts)
//	err = w.Init(ctx, targets)                  // create the tables and load them
//	report, err := w.Run(ctx, targets, runOpts) // drive them until the duration is over or ctx is
//	   cancelled
//	results, err := w.Check(ctx, targets[0]) // judge the invariants; meant for a database at rest
//
// The order of the targets matters: it fixes which part of the data belongs to which region, so
// Init and Run must be given the same regions in the same order. Run reads sizes (warehouses,
// customers, records) from the tables, so only Init needs the scale options.
//
// # Vocabulary
//
//   - target: a region with one or more URLs; clients of the region are spread over its URLs and
//     move to the next one when a connection is lost.
//   - part: the share of the data that belongs to one region. Each part is loaded through its own
//     region's connections, because Godwit homes a row in the region that inserts it. TPC-C:
//     warehouse w belongs to region (w-1) mod R. YCSB: keys carry the region's number. YCSB-T and
//     bank: contiguous key ranges.
//   - client: one connection that runs transactions one after the other, with its own seeded random
//     generator.
//   - kind: a transaction type, the unit of every statistic ("new-order", "read",
//     "transfer-cross").
//   - retry: one more attempt of the same transaction with the same inputs after a retryable error
//     (see Retryable). Latency runs from the first attempt to the answer that counts, back-off
//     included.
//   - error: what a client of a real application would see. It is counted, its text is listed, and
//     the client goes on with another transaction.
//   - rollback: an intended one (TPC-C 2.4.1.4), neither an error nor part of tpmC.
//
// # Ending
//
// When the duration is over or ctx is cancelled no new transaction starts. Those in flight have
// RunOptions.Grace to finish; then their connections are closed, which makes the server roll them
// back. Neither end counts as an error.
package workload
