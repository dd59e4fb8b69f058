package state

import (
	"bytes"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// A forwarded statement has a name like that of a transaction (docs/protocol.md, FWD). The
// transactions that try to execute it carry the name in the entry of the group that settles it, and
// its record is beside theirs.

// statementOver reports whether a statement was refused, has committed, or is too old: a
// transaction that executes it must not commit any more. No name is no statement.
func (s *State) statementOver(of *Group, name []byte) (bool, error) {
	id, ok := TxnID(name)
	if !ok {
		return false, nil
	}
	if _, fresh := s.Fresh[id]; fresh || s.Dead(id) {
		return true, nil
	}
	out, err := Recorded(of, id)
	return out.State != wire.TxnState_UNKNOWN, err
}

// endStatement records that a statement has committed, with a transaction whose record is given.
func (s *State) endStatement(of *Group, b *store.Batch, name, txn, answer []byte, ts base.Timestamp) {
	id, ok := TxnID(name)
	if !ok {
		return
	}
	b.SetTxn(of.ID, id, statementRecordOf(txn, answer))
	s.Fresh[id] = ts
	if s.answers == nil {
		s.answers = map[base.TxnID][]byte{}
	}
	s.answers[id] = answer
}

// Shown is called when all that was applied is visible in the store.
func (s *State) Shown() {
	clear(s.Fresh)
	clear(s.answers)
}

// VoteFor is an undecided vote of a transaction that executes a statement; nil if there is none.
func (s *State) VoteFor(statement base.TxnID) *wire.Vote {
	for _, v := range s.Prepared {
		if bytes.Equal(v.Statement, statement[:]) {
			return v
		}
	}
	return nil
}
