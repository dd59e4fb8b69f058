package state

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// The writes of a large transaction come in pieces, before its vote, and become rows piece by
// piece, after the outcome is known (docs/protocol.md, STAGE). In between they are records of the
// group that no reader of rows looks at.

// recordStaged is the first byte of the record of a transaction that has staged pieces and has not
// voted; their number follows. The other records begin with a wire.TxnState.
const recordStaged = 4

func stagedRecord(pieces uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{recordStaged}, pieces)
}

// pieceName is the name of the record of a piece.
func pieceName(id base.TxnID, piece uint32) string {
	return string(binary.BigEndian.AppendUint32(append([]byte("piece."), id[:]...), piece))
}

// Piece reads the writes of a staged piece.
func Piece(of *Group, id base.TxnID, piece uint32) ([]*wire.Write, error) {
	b, ok, err := of.Store.GetState(of.ID, pieceName(id, piece))
	if err != nil {
		return nil, err
	}
	var q wire.Stage
	if !ok || q.UnmarshalVT(b) != nil {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: piece %d of transaction %v is missing or damaged: "+
			"restore this replica from the others (remove its store and let it join again)", of.ID, piece, id)
	}
	return q.Writes, nil
}

// stageField is the number of the field of a wire.Command that is a wire.Stage.
const stageField = 14

// stageBytes is a piece as the command of its entry has it, encoded: it is kept like that.
func stageBytes(e group.Entry) ([]byte, error) {
	for b := e.Data; len(b) > 0; {
		field, kind, n := protowire.ConsumeField(b)
		if n < 0 {
			break
		}
		if field == stageField && kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(b)
			val, n := protowire.ConsumeBytes(b[tag:])
			if n < 0 {
				break
			}
			return val, nil
		}
		b = b[n:]
	}
	return e.Cmd.Stage.MarshalVT() // the entry is not at hand
}

// applyStage keeps a piece, if it is the next one of a transaction that may still vote.
func (s *State) applyStage(of *Group, b *store.Batch, e group.Entry) (any, error) {
	q := e.Cmd.Stage
	id, ok := TxnID(q.Txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: a piece has a malformed transaction id", of.ID)
	}
	if _, voted := s.Prepared[id]; voted || s.Dead(id) || q.Piece != s.Staged[id]+1 {
		return Outcome{State: wire.TxnState_ABORTED}, nil
	}
	val, err := stageBytes(e)
	if err != nil {
		return nil, err
	}
	b.SetState(of.ID, pieceName(id, q.Piece), val)
	b.SetTxn(of.ID, id, stagedRecord(q.Piece))
	s.Staged[id] = q.Piece
	return Outcome{}, nil
}

// unstage forgets the pieces of a transaction that will never vote here.
func (s *State) unstage(of *Group, b *store.Batch, id base.TxnID) {
	dropPieces(of, b, id, 0, s.Staged[id])
	delete(s.Staged, id)
}

// dropPieces removes the records of the pieces behind the first applied ones.
func dropPieces(of *Group, b *store.Batch, id base.TxnID, applied, pieces uint32) {
	for n := applied + 1; n <= pieces; n++ {
		b.SetState(of.ID, pieceName(id, n), nil)
	}
}

// takesPieces reports whether a vote names all pieces that were staged for it, and no others. If
// not, the transaction is aborted (STAGE-1).
func (s *State) takesPieces(of *Group, b *store.Batch, id base.TxnID, v *wire.Vote) bool {
	if v.Pieces == s.Staged[id] || of.AnyPieces {
		delete(s.Staged, id)
		return true
	}
	s.unstage(of, b, id)
	s.abort(of, b, id)
	return false
}

func (s *State) abort(of *Group, b *store.Batch, id base.TxnID) {
	s.Aborted[id] = struct{}{}
	b.SetTxn(of.ID, id, AbortedRecord)
}

// applySettle makes rows of the next piece of a vote that has committed. The transaction is
// prepared until the last piece is: what is closed stays below it, and nobody reads some of its
// rows without the others (STAGE-3).
func (s *State) applySettle(of *Group, b *store.Batch, e group.Entry) (any, error) {
	q := e.Cmd.Settle
	id, ok := TxnID(q.Txn)
	if !ok {
		return nil, base.Errorf(base.CodeCorrupt, "group %v: a decision has a malformed transaction id", of.ID)
	}
	v := s.Prepared[id]
	if v == nil {
		return s.applyRefuse(of, b, q.Txn) // decided before
	}
	if q.Piece != v.Applied+1 {
		return Outcome{State: wire.TxnState_PREPARED, TS: base.Timestamp(v.Lo), Vote: v}, nil // done before
	}
	writes, ready := of.Pieces.take(id, q.Piece)
	if !ready {
		var err error
		if writes, err = Piece(of, id, q.Piece); err != nil {
			return nil, err
		}
	}
	ts := base.Timestamp(q.Ts)
	s.put(of, b, writes, ts, e.Index)
	s.LastTS = max(s.LastTS, ts)
	b.SetState(of.ID, pieceName(id, q.Piece), nil)
	if q.Piece == v.Pieces {
		delete(s.Prepared, id)
		return s.committed(of, b, id, v, ts), nil
	}
	next := &wire.Vote{Txn: v.Txn, Lo: v.Lo, Hi: v.Hi, Participants: v.Participants, GatewayRegion: v.GatewayRegion,
		Depends: v.Depends, Statement: v.Statement, Answer: v.Answer, Pieces: v.Pieces, Spans: v.Spans, Applied: q.Piece}
	rec, err := preparedRecord(next)
	if err != nil {
		return nil, err
	}
	b.SetTxn(of.ID, id, rec)
	s.Prepared[id] = next
	return Outcome{State: wire.TxnState_PREPARED, TS: base.Timestamp(v.Lo), Vote: next}, nil
}

// committed records that a vote has committed.
func (s *State) committed(of *Group, b *store.Batch, id base.TxnID, v *wire.Vote, ts base.Timestamp) Outcome {
	rec := committedRecord(ts)
	if of.Mixed(v.Participants) {
		rec = append(rec, boundRecord)
	}
	b.SetTxn(of.ID, id, rec)
	s.endStatement(of, b, v.Statement, rec, v.Answer, ts)
	s.Fresh[id] = ts
	return Outcome{State: wire.TxnState_COMMITTED, TS: ts}
}
