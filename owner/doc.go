// Package owner evaluates requests for the rows of a group at its leader, and
// is the state machine that the group's log drives at every replica. It is the only place where a
// row is locked, and where a commit timestamp is chosen.
//
// What every replica derives from the log alone: versions, prepared and finished transactions,
// leases, the join of all vectors, the closed timestamp. What only the leader has, in memory, and
// loses with its term unless it hands its lead over: locks, registered transactions, the timestamp
// floor.
//
// What neither waits nor proposes is in sub-packages: state is a function of the log, view one of
// the store, evaluate one of a view and a request, rewind one of a promotion. The table of
// transactions is txns, the states of a lead are lead, and the timestamps of reads are in tscache.
// The way to the policy of row homes is homing, the way to the leader of a group is route. What is
// measured is gauge, and the plain settings are tuning.
//
// # Lease (TIME-1)
//
//	OWN-1 A leader reads and closes timestamps only while clock.Latest() is below the end of a lease
//	   of its own that was applied in its own term; a read at or above that end waits for the
//	   renewal. A leader stops by its monotonic clock as well, for modes without a bound (MODE-5).
//	   A new leader serves when three things hold. Every other holder's lease in its log is over:
//	   its clock's lower bound has passed the end, or the lease's length has passed since it
//	   learned of it, or it knows where that holder ended it (handover.go). It has applied the
//	   join of all vectors in its log (HOME-3). And it holds the write locks of all prepared
//	   transactions again. A node that knows nothing of the time moves the end of its lease on by
//	   no more than the time that has passed.
//
// # Timestamps
//
//	OWN-2 Timestamps are assigned and handed to the log in one order, each above the floor. The
//	   floor is at least: every snapshot served or promised closed, every timestamp assigned, every
//	   lease end and commit timestamp in the log of a new leader. A write also lies above the
//	   version whose label makes this group its key's owner, hence above all that the previous owner
//	   served or wrote (HOME-2).
//	OWN-3 A snapshot read raises the floor to its timestamp first, then waits for what was proposed
//	   or prepared at or below it on its spans, and only then opens its view: nothing can appear
//	   in that view's past. Locks of transactions that have not begun to commit do not matter to
//	   it. A gap being handed over counts as written.
//	OWN-4 What a view says about ownership is what counts, and it is taken after the last wait.
//	   Parts that others own are answered as Foreign, with the log entry that made them so.
//	OWN-5 Commit wait: locks of a commit are released, and its client answered, when its timestamp
//	   is settled (Clock.Settle: in GClock mode, when true time has passed it everywhere); a
//	   snapshot read does not return a version before that either. A cluster of one node skips it
//	   and lets its clock follow instead, except for the meta group, which commits ahead of now: a
//	   clock that followed it would run away, each commit pushing the next one further. In no other
//	   case may the timestamps assigned feed the clock.
//	OWN-6 A closed timestamp in a log entry holds as of that entry: commits in flight lie before it,
//	   undecided votes above it. One sent by heartbeat holds as of the index sent with it, the
//	   applied one, so commits in flight must lie above it too. The two must not be mixed up: the
//	   closed timestamp of an entry in flight, sent with the applied index, lets a follower read
//	   just before the commit it has not got. A commit that is applied and only waits for its
//	   timestamp to pass holds no closed timestamp back: every read of its versions waits for the
//	   same (OWN-5).
//
// # Ownership (HOME-2 to HOME-5)
//
// The owner of a key is the home of its newest version, a tombstone too; of a
// key without versions, that of its predecessor in the section; else base.Key.DefaultOwner.
//
//	OWN-7 Only a logged write of the present owner changes which group owns a key: a new row (also in the
//	   place of a tombstone) gets the home of its writer, and with it the gap up to the next key.
//	   So does a fence, which is a tombstone at an absent key, labelled with the home of its
//	   requester. Such a write locks that gap exclusively: what a transaction has locked or prepared is
//	   not handed over. The label is chosen by the owner and logged; applying an entry looks at no
//	   row, since other groups' logs change rows as well and replicas apply them in different
//	   orders. Collecting a tombstone merges its gap into its predecessor's only where one group
//	   owns both, under an exclusive lock from the predecessor to the next key.
//
//	OWN-12 What a view says of a key that this group owns stays true from a moment at which the
//	   key's exclusive lock was held until its release in the same term: a version of the key, or of
//	   a key whose gap it lies in, that names another owner would be a write of this group (OWN-7),
//	   under a lock in conflict with that one; and all such writes that hold no lock any more are in
//	   the view. So a commit need not look up again what its transaction read for update. An index
//	   keyed by home (base.ByHome) has a section per home, which belongs to that home's group for
//	   good: labels in it name no other, and a write of it that asks for no absence needs no view.
//
// # Transactions of several groups (TXN-3 to TXN-5)
//
//	OWN-8 A vote [lo, hi) is durable. The transaction has committed iff every participant listed has
//	   logged its Prepare and max(lo) < min(hi), at max(lo). No node decides by timeout: one that wants
//	   to know asks all (Resolve), and a participant that has neither voted nor ended logs its
//	   refusal first. A coordinator may abort on its own only if some participant certainly did
//	   not and will not vote.
//	OWN-9 hi is at most the lease end: read locks die with the term, and whatever a successor lets
//	   happen to those rows lies above that end. lo of a group that was only read is just above
//	   what was read; lo of a writer is like any commit timestamp, also if its deletes found
//	   nothing.
//	OWN-10 A decision takes effect, locks included, when it is applied, whichever node proposed it and
//	   whether or not its client still waits. It raises the floor to the commit timestamp before it
//	   releases the locks.
//	OWN-11 An attempt that began more than RecordAge before the closed timestamp of the log is
//	   refused by every replica alike, so outcomes older than that may be forgotten; but only when
//	   every group has said (GroupLead.settled) that it has nothing undecided of that age.
//
// # A leader without the other groups of its shard
//
//	OWN-16 Only members get a group's log. A new leader that lacks what its log relies on (HOME-3)
//	   for a second passes the lead on to the next voter that is alive and up to date, and so does
//	   a leader that serves and has had no replica of another group of its shard for a second.
//	   Because: the groups of a shard change their members one after the other. A node that has
//	   left one of them is elected for another, and waits for entries that it will never get. Who
//	   asks about a transaction waits for that leader, and the closed timestamp of the meta group
//	   may wait for the transaction; and without that no node learns of a newer topology.
//
// # The meta group without its leader
//
//	OWN-15 A new leader of the meta group logs a lease before it outlives those of its predecessors,
//	   and closes timestamps under it while it waits, below the undecided votes in its log. All that
//	   is committed lies before that lease in its log; predecessors can commit nothing any more,
//	   and what they promised or let read lies below their leases, which this leader's commits
//	   exceed once it serves, like all it has closed. So nodes that only have to know that the
//	   catalog has not changed go on after an election.
//
//	OWN-17 A leader of the meta group that serves promises in its heartbeats, as of the applied index
//	   sent along, that no commit at or below a timestamp (the catalog hold) changes the catalog
//	   (base.CatalogTable). The hold lies below the end of its applied lease, the undecided votes
//	   and the commits under way that change the catalog. Its own later changes of the catalog lie
//	   above it; so do those of a target of its lead, which is told of it, and those of any other
//	   successor, which lie above the ends of all leases in the log. Leases that are handed on
//	   never end before those they follow, so that this holds for every later successor too. A
//	   node goes by the hold as by a closed timestamp, for keys of the catalog alone: statements
//	   go on while the leader is dead and no other one has been elected. A change of the catalog
//	   waits for the hold to pass; nothing is promised for a while after it, so that the next
//	   change does not. Because: B does not hear of a new leader yet, which changes a table at 100;
//	   B goes by the hold up to 200 and commits at 150 by the old definition.
//
// # Asynchronous groups (REPL-1)
//
//	OWN-13 A vote of an asynchronous group in a transaction that does not stay within the
//	   asynchronous groups of its region is sent to no node before another region has it, and the
//	   cut has reached all that the transaction has read. (Not its own lower bound: its undecided
//	   votes hold the cut below the smallest of theirs, which lies above what it has read.)
//	OWN-14 What another region says at a timestamp, as owner of rows that came to it or as a
//	   replica, lies at or below the cut.
//
// # Timestamp ordering
//
// In a cluster that orders by timestamps (docs/protocol.md, ORD) the groups of rows keep OWN-1,
// OWN-3 (with marks instead of the floor), OWN-4 and OWN-6 to OWN-12. Of OWN-2 remains: no commit
// at or below the floor, which rises with promises and with what locks, and each is pending
// (txns.Txn.Early) from the moment it has its timestamp. OWN-5 holds for what locks only.
//
// # Lock order
//
// Replica.propMu before Replica.mu. Neither is held while waiting for anything
// but the store's reads; done callbacks of the group take mu only.
package owner
