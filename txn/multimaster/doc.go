// Package multimaster runs the epochs of multi-master tables on one node: it gathers what
// is submitted here, exchanges batches with all other members through package collective,
// merges them by package epoch, and keeps the rows in the node's store. docs/protocol.md, EPO has
// the rules, docs/design.md ("Epoch tables") the reasons.
//
// Every node is a member and holds all rows, several nodes of one region too: each
// reads its own replica, and a region's nodes form a group of the collective's plan, so
// that what they submit crosses the ocean once.
//
// # An epoch
//
// A node that has something to submit begins the next epoch, at most every [Config.Interval], and
// wakes the others; epochs overlap. Its own batch is on disk before it is sent. Once a node has all
// batches of an epoch, and has written them down, it says so with what it sends next; once a
// majority of the voters has said so, the epoch is exposed: each node merges it, in order, applies
// it, and answers those who wait. Nothing is sent while nobody submits anything.
//
// # Rows
//
// Rows are versions of [base.EpochShard] whose timestamps are epochs. A snapshot is the last epoch
// applied here that changed something; reads of it never leave the node.
//
// # Transactions
//
// [DB] wraps the transactions of another kv.DB, and so every statement's transaction on a node of a
// cluster, whether or not it uses such a table: which tables it will touch is not known when it
// begins, and it may read both kinds. A transaction that touches no row of [base.EpochShard] pays
// for that with one allocation when it begins and one comparison of the key's shard with each
// call; it takes no lock of the engine, chooses no snapshot here, and its Commit is the inner one.
// A transaction may read both kinds of rows and write one of them ([ErrMixed]).
//
// # Views
//
// A node that misses a batch for [Config.Suspect], that has restarted, or that is not a member,
// asks for a new view: it seals those it reaches, sees that a majority of the voters, and all who
// are to be members, hold everything up to the last epoch, and has the [Registry], the meta
// group's, replace the view. A restarted node is a new participant: it takes part from the next
// view on, so nothing of a round needs to be remembered. A node that is far behind fetches epochs
// from the log of a member, or the rows themselves, before it asks.
//
// # Parts
//
// The [Engine] has three goroutines: begin starts epochs (rounds.go), collect writes them down and
// applies them (rounds.go), manage brings about views (view.go, catchup.go). Its state is in parts,
// each of which says what guards it: membership, progress, submissions (submit.go), comparison of
// outcomes (verdict.go), planner (plan.go) and lifecycle.
//
// # Duties of the caller
//
//   - Registry.Replace is linearizable: of two replacements of one view, one fails.
//   - The voters are nodes of which a majority survives what the cluster is to survive.
package multimaster
