package homing

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Access is one read or write of a row at its owner.
type Access struct {
	Key     base.Key
	Home    base.RegionID
	From    base.RegionID // on whose behalf
	Txn     base.TxnID    // zero: a snapshot read
	Write   bool          // or locked to be written
	At      base.Timestamp
	Changes uint16 // the label's count of home changes
	Pinned  bool
}

// Verdict is what the policy says to an access: the zero value leaves the row where it is.
type Verdict struct {
	To     base.RegionID
	With   []base.Key // rows of the same home that should go along
	Reason []byte     // travels with the move
	Along  []base.Key // rows that the transaction will probably ask for next
}

// Homes is the policy of row homes: package home decides, and an adapter in package node implements
// this interface. Its methods are called from many goroutines, on the path of every statement.
type Homes interface {
	// Accessed is called for an access to a row that this node owns.
	Accessed(Access) Verdict
	// Moved is called for a move that was applied here, wherever it was decided.
	Moved(Move)
}

// Move is a change of a row's home, or only of its pin (then From is To), as every replica of the
// shard learns it from the log.
type Move struct {
	Key      base.Key
	From, To base.RegionID
	TS       base.Timestamp
	Changes  uint16 // how often the row has moved, modulo 1024
	Alone    bool   // not along with a write of the row
	Bytes    int    // of the log entry's copy of the row
	Reason   []byte
}

// MoveOf is the move that a logged write of a group of region from makes.
func MoveOf(w *wire.Write, from base.RegionID, ts base.Timestamp) Move {
	l := base.Label(w.Label)
	return Move{Key: base.Key(w.Key).Clone(), From: from, To: l.Home(), TS: ts,
		Changes: l.Changes(), Alone: w.Kind == wire.WriteKind_MOVE, Bytes: len(w.Value), Reason: w.Reason}
}

// Proposal is a move that no statement carries out: the policy's answer to a
// read, or rows that should go with another one.
type Proposal struct {
	Key      base.Key
	From, To base.RegionID
	Reason   []byte
	// Must moves pinned rows, too, and what cannot move with an entry of its own is an error.
	Must bool
}

// Policy is the policy of row homes at a node. All of it may be nil.
type Policy struct {
	// Homes decides; nil: rows move only by explicit statements.
	Homes Homes
	// Movable says which keys the policy may move at all; nil: every one outside the meta shard.
	Movable func(base.Key) bool
	// Whole says which keys are of tables that are homed as a whole; nil: none. It is asked once a
	// request.
	Whole func(base.Key) bool
	// Proposed gets the moves that no statement carries out. It must not block. Nil ignores them.
	Proposed func(Proposal)
}
