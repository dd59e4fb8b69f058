package state

import (
	"encoding/binary"

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

// boundRecord follows the commit timestamp of a transaction that bound groups beyond those that are
// lost with this one.
const boundRecord = 1

// AbortedRecord is the record of a transaction that was aborted or refused.
var AbortedRecord = []byte{byte(wire.TxnState_ABORTED)}

// ParseRecord reads the record of a transaction.
func ParseRecord(g base.GroupID, id base.TxnID, b []byte) (Outcome, error) {
	bound := len(b) == 10 && b[9] == boundRecord
	switch {
	case (len(b) == 9 || bound) && b[0] == byte(wire.TxnState_COMMITTED):
		return Outcome{State: wire.TxnState_COMMITTED, TS: base.Timestamp(binary.BigEndian.Uint64(b[1:])), Bound: bound}, nil
	case len(b) == 1 && b[0] == byte(wire.TxnState_ABORTED):
		return Outcome{State: wire.TxnState_ABORTED}, nil
	case len(b) > 1 && b[0] == byte(wire.TxnState_PREPARED):
		v := new(wire.Vote)
		if err := v.UnmarshalVT(b[1:]); err == nil {
			return Outcome{State: wire.TxnState_PREPARED, TS: base.Timestamp(v.Lo), Vote: v}, nil
		}
	}
	return Outcome{}, base.Errorf(base.CodeCorrupt, "group %v: the record of transaction %v is damaged: "+
		"restore this replica from the others (remove its store and let it join again)", g, id)
}

// Recorded is what the store says of a transaction; UNKNOWN if nothing.
func Recorded(of *Group, id base.TxnID) (Outcome, error) {
	rec, ok, err := of.Store.GetTxn(of.ID, id)
	if err != nil || !ok {
		return Outcome{State: wire.TxnState_UNKNOWN}, err
	}
	return ParseRecord(of.ID, id, rec)
}

// TxnID is a transaction's name as it travels.
func TxnID(b []byte) (id base.TxnID, ok bool) {
	if len(b) != len(id) {
		return id, false
	}
	return base.TxnID(b), true
}
