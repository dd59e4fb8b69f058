package state

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// TestPiecesAhead: pieces that were read before are those in the store, they are given away once,
// no more are kept than there is room for, and nothing goes on once it is over.
func TestPiecesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := store.Open(store.Options{Dir: "s", FS: store.Memory(), Simulation: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		of := &Group{ID: base.DataGroup(1, 1), Store: s}
		id, other := base.MakeTxnID(1, 1, 1), base.MakeTxnID(1, 1, 2)
		const pieces = 9
		b := s.NewBatch()
		for n := uint32(1); n <= pieces; n++ {
			q := &wire.Stage{Txn: id[:], Piece: n, Writes: []*wire.Write{{Key: []byte(fmt.Sprint("key", n))}}}
			val, err := q.MarshalVT()
			if err != nil {
				t.Fatal(err)
			}
			b.SetState(of.ID, pieceName(id, n), val)
		}
		if err := b.Commit(false); err != nil {
			t.Fatal(err)
		}
		b.Close()
		a := NewPiecesAhead()
		a.Begin(of, id, &wire.Vote{Pieces: pieces, Applied: 1})
		a.Begin(of, other, &wire.Vote{Pieces: 1})
		synctest.Wait()
		if len(a.kept) != aheadPieces {
			t.Errorf("%d pieces are kept", len(a.kept))
		}
		if _, ok := a.take(other, 2); ok {
			t.Error("a piece of another transaction is here")
		}
		for n := uint32(2); n <= pieces; n++ {
			if n == 4 {
				n = 6 // others have settled two
			}
			ws, ok := a.take(id, n)
			if !ok || string(ws[0].Key) != fmt.Sprint("key", n) {
				t.Fatalf("piece %d: %v %v", n, ws, ok)
			}
			synctest.Wait()
			if _, again := a.take(id, n); again || len(a.kept) > aheadPieces {
				t.Errorf("piece %d is still here, with %d", n, len(a.kept))
			}
			synctest.Wait()
		}
		a.End(id)
		// what ends at once ends, too
		a.Begin(of, id, &wire.Vote{Pieces: pieces})
		a.End(id)
		a.Begin(of, other, nil)
		if _, ok := a.take(id, 1); ok {
			t.Error("a piece is here after the end")
		}
		// nobody reads once it is closed: the store closes next
		a.Begin(of, other, &wire.Vote{})
		a.End(other)
		a.Begin(of, id, &wire.Vote{Pieces: pieces})
		a.Close()
		a.Begin(of, id, &wire.Vote{Pieces: pieces})
		if _, ok := a.take(id, 1); ok || !a.over {
			t.Error("a piece is here after it was closed")
		}
	})
}

// TestStageBytes: a piece is kept as it is in the entry.
func TestStageBytes(t *testing.T) {
	id := base.MakeTxnID(1, 1, 1)
	c := &wire.Command{Closed: 7, Proposal: 9, Vector: []*wire.GroupIndex{{Region: 1, Index: 2}}, Needs: 1,
		Stage: &wire.Stage{Txn: id[:], Piece: 3, Writes: []*wire.Write{{Key: []byte("k"), Value: []byte("v")}}}}
	data, err := c.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	want, err := c.Stage.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{data, nil} {
		if got, err := stageBytes(group.Entry{Cmd: c, Data: data}); err != nil || string(got) != string(want) {
			t.Errorf("%x, %v; want %x", got, err, want)
		}
	}
}
