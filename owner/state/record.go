package state

import (
	"encoding/binary"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// Outcome is how a transaction stands in a group's log.
type Outcome struct {
	State wire.TxnState
	TS    base.Timestamp // of its commit, or the lower bound of its vote
	Vote  *wire.Vote     // if it is prepared
	// Bound: the commit bound groups beyond those that are lost with this one.
	Bound bool
	// Statement: it is the record of a forwarded statement, and Answer what its client is to be
	// told.
	Statement bool
	Answer    []byte
	// Staged is how many pieces it has staged, of a record of a transaction that has not voted.
	Staged uint32
	// Settled: the transaction was refused because its statement has been settled.
	Settled bool
}

// A record of a transaction is its state and, by state, the vote or the commit timestamp.

func preparedRecord(v *wire.Vote) ([]byte, error) {
	b := make([]byte, 1+v.SizeVT())
	b[0] = byte(wire.TxnState_PREPARED)
	_, err := v.MarshalToSizedBufferVT(b[1:])
	return b, err
}

func committedRecord(ts base.Timestamp) []byte {
	b := make([]byte, 0, 9)
	return binary.BigEndian.AppendUint64(append(b, byte(wire.TxnState_COMMITTED)), uint64(ts))
}

// What may follow the commit timestamp.
const (
	// boundRecord: the transaction bound groups beyond those that are lost with this one.
	boundRecord = 1
	// statementRecord: it is that of a forwarded statement; its answer follows.
	statementRecord = 2
)

// statementRecordOf is the record of a forwarded statement whose transaction has the record given.
func statementRecordOf(txn, answer []byte) []byte {
	b := make([]byte, 0, 10+len(answer))
	b = append(b, txn[:9]...)
	flags := byte(statementRecord)
	if len(txn) > 9 {
		flags |= txn[9]
	}
	return append(append(b, flags), answer...)
}

// AbortedRecord is the record of a transaction that was aborted or refused.
var AbortedRecord = []byte{byte(wire.TxnState_ABORTED)}

// ParseRecord reads the record of a transaction.
func ParseRecord(g base.GroupID, id base.TxnID, b []byte) (Outcome, error) {
	switch {
	case len(b) >= 9 && b[0] == byte(wire.TxnState_COMMITTED):
		out := Outcome{State: wire.TxnState_COMMITTED, TS: base.Timestamp(binary.BigEndian.Uint64(b[1:]))}
		if out.readFlags(b[9:]) {
			return out, nil
		}
	case len(b) == 1 && b[0] == byte(wire.TxnState_ABORTED):
		return Outcome{State: wire.TxnState_ABORTED}, nil
	case len(b) == 5 && b[0] == recordStaged:
		return Outcome{Staged: binary.BigEndian.Uint32(b[1:])}, nil
	case len(b) > 1 && b[0] == byte(wire.TxnState_PREPARED):
		v := new(wire.Vote)
		if err := v.UnmarshalVT(b[1:]); err == nil {
			return Outcome{State: wire.TxnState_PREPARED, TS: base.Timestamp(v.Lo), Vote: v}, nil
		}
	}
	return Outcome{}, base.Errorf(base.CodeCorrupt, "group %v: the record of transaction %v is damaged: "+
		"restore this replica from the others (remove its store and let it join again)", g, id)
}

// readFlags reads what follows the commit timestamp; false: it is damaged.
func (o *Outcome) readFlags(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	o.Bound, o.Statement = b[0]&boundRecord != 0, b[0]&statementRecord != 0
	if o.Statement {
		o.Answer = slices.Clone(b[1:])
	}
	return b[0] != 0 && b[0]&^(boundRecord|statementRecord) == 0 && (o.Statement || len(b) == 1)
}

// Recorded is what the store says of a transaction; UNKNOWN if nothing.
func Recorded(of *Group, id base.TxnID) (Outcome, error) {
	rec, ok, err := of.Store.GetTxn(of.ID, id)
	if err != nil || !ok {
		return Outcome{State: wire.TxnState_UNKNOWN}, err
	}
	return ParseRecord(of.ID, id, rec)
}

// OutcomeOf is how a transaction, or a forwarded statement, stands in the log, if it voted or ended
// there.
func (s *State) OutcomeOf(of *Group, id base.TxnID, statement bool) (out Outcome, known bool, err error) {
	v := s.Prepared[id]
	if statement {
		v = s.VoteFor(id)
	}
	if v != nil {
		return Outcome{State: wire.TxnState_PREPARED, TS: base.Timestamp(v.Lo), Vote: v}, true, nil
	}
	if out, err = Recorded(of, id); err != nil {
		return out, false, err
	}
	// The record of a vote may be older than what Apply knows by now.
	known = out.State != wire.TxnState_UNKNOWN && out.State != wire.TxnState_PREPARED
	return Outcome{State: out.State, TS: out.TS, Answer: out.Answer}, known, nil
}

// TxnID is a transaction's name as it travels.
func TxnID(b []byte) (id base.TxnID, ok bool) {
	if len(b) != len(id) {
		return id, false
	}
	return base.TxnID(b), true
}

// Groups are the participants of a vote.
func Groups(ids []uint32) []base.GroupID {
	gs := make([]base.GroupID, len(ids))
	for i, g := range ids {
		gs[i] = base.GroupID(g)
	}
	return gs
}
