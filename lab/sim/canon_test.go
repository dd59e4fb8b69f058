package sim

import (
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lab/history"
)

// A transaction of unknown outcome has two writes. One was seen, so the other has committed, too,
// and a delete has found it. (Seed 2103.)
func TestDeletesOfWhatUnknownTransactionsWrote(t *testing.T) {
	rec := history.NewRecorder(func() int64 { return 0 })
	a := rec.Begin(1, "r1")
	a.Write("seen", "1.1")
	a.Write("unseen", "1.2")
	a.Unknown(0)
	b := rec.Begin(2, "r1")
	b.Delete("unseen")
	b.Delete("never")
	b.Commit(20)
	o := &Outcome{History: rec.History(), bench: &bench{versions: map[[2]string]base.Timestamp{{"seen", "1.1"}: 10}}}
	ops := o.canonical().Txns[1].Ops
	if ops[0].Kind != history.OpDelete || ops[1].Kind != history.OpRead {
		t.Errorf("the first delete found something, the second did not: %v", ops)
	}
}

// A transaction of unknown outcome wrote a row, and a move rewrote it. Readers saw the row with the
// timestamp of the move only. A transaction that saw it and deleted it found something. (Seed 15.)
func TestDeletesOfWhatWasSeenAfterAMove(t *testing.T) {
	rec := history.NewRecorder(func() int64 { return 0 })
	a := rec.Begin(1, "r1")
	a.Write("x", "1.1")
	a.Unknown(0)
	b := rec.Begin(2, "r1")
	b.Read("x", "1.1")
	b.Delete("x")
	b.Commit(20)
	o := &Outcome{History: rec.History(), bench: &bench{versions: map[[2]string]base.Timestamp{}}}
	if ops := o.canonical().Txns[1].Ops; ops[1].Kind != history.OpDelete {
		t.Errorf("the delete found something: %v", ops)
	}
}

// The same if no reader saw the row before it was deleted. (Seed 8029.)
func TestDeletesOfWhatMayHaveBeenThere(t *testing.T) {
	now := int64(0)
	rec := history.NewRecorder(func() int64 { now++; return now })
	early := rec.Begin(1, "r1")
	early.Delete("x")
	early.Commit(5)
	a := rec.Begin(2, "r1")
	a.Write("x", "1.1")
	a.Write("y", "1.2")
	a.Unknown(0)
	b := rec.Begin(3, "r1")
	b.Delete("x")
	b.Commit(20)
	o := &Outcome{History: rec.History(), bench: &bench{versions: map[[2]string]base.Timestamp{}}}
	txns := o.canonical().Txns
	if txns[0].Ops[0].Kind != history.OpRead || txns[2].Ops[0].Kind != history.OpDelete {
		t.Errorf("the first delete found nothing, the second may have found something: %v, %v", txns[0].Ops, txns[2].Ops)
	}
}
