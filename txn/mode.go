package txn

// mode is the protocol by which a transaction reads what it will write, and commits. It is chosen
// when the transaction begins and changes at most once:
//
//	                a row of a second region
//	crossable ───────────────────────────────▶ bySlot
//	    │
//	    │ locks the meta shard, or commits
//	    ▼
//	 byLocks  ◀─────────────────────────────── byTimestamp
//	                locks or writes the meta shard
//
// Reads without locks (kv.LockNone) see one snapshot in all of them.
type mode uint8

const (
	// byLocks: strict two-phase locking at the owners (locks.go).
	byLocks mode = iota
	// crossable locks as long as it stays in its region (kv.Options.Relay).
	crossable
	// bySlot: it has left its region, reads one snapshot, and proposes a slot for its commit
	// (slot.go).
	bySlot
	// byTimestamp: the cluster orders by timestamps (order.go).
	byTimestamp
)

// modeOf is how a transaction begins.
func (db *DB) modeOf(t *Txn) mode {
	switch {
	case db.ordered && t.opts.ReadTS == 0:
		return byTimestamp
	case db.ordered || !t.opts.Relay || t.opts.Prepare != nil:
		return byLocks
	}
	return crossable
}

// lockOnly makes a transaction that has not left its region stay with locks: what is locked from
// here on stays locked.
func (t *Txn) lockOnly() {
	if t.mode == crossable {
		t.mode, t.foreseen = byLocks, true // it has noted itself what would be foreseen
	}
}

// turned reports whether the transaction locks although its cluster orders by timestamps.
func (t *Txn) turned() bool { return t.db.ordered && t.opts.ReadTS == 0 && t.mode == byLocks }
