package state

import (
	"sync"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// PiecesAhead holds staged pieces that were read and decoded before the entries that settle them
// are applied: so that is done beside the group's turns, and not in them. A piece never changes, so
// whether it is here makes no difference to what is applied.
type PiecesAhead struct {
	mu   sync.Mutex
	of   base.TxnID
	next uint32 // the least piece that is still of use
	kept map[uint32][]*wire.Write
	room *sync.Cond
	over bool

	reads  sync.WaitGroup
	closed bool
}

// aheadPieces is how many decoded pieces are kept: each takes some times the bytes of its rows.
const aheadPieces = 4

// NewPiecesAhead keeps none yet.
func NewPiecesAhead() *PiecesAhead {
	a := &PiecesAhead{over: true}
	a.room = sync.NewCond(&a.mu)
	return a
}

// Begin reads the pieces of a vote that are left, as far as there is room, beside the caller, until
// End. Pieces of only one transaction are kept at a time; those of another are not read. v is nil
// if it is decided.
func (a *PiecesAhead) Begin(of *Group, id base.TxnID, v *wire.Vote) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if v != nil && a.over && !a.closed {
		a.of, a.next, a.over, a.kept = id, v.Applied+1, false, map[uint32][]*wire.Write{}
		a.reads.Go(func() { a.read(of, id, v.Pieces) })
	}
}

// Close ends reading for good: when it returns, nobody reads the store, which may close.
func (a *PiecesAhead) Close() {
	a.mu.Lock()
	a.closed, a.over, a.kept = true, true, nil
	a.room.Broadcast()
	a.mu.Unlock()
	a.reads.Wait()
}

// read reads the pieces up to the last one.
func (a *PiecesAhead) read(of *Group, id base.TxnID, last uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for piece := a.next; piece <= last && !a.over && a.of == id; {
		switch {
		case piece < a.next:
			piece = a.next // it was settled without
		case len(a.kept) >= aheadPieces:
			a.room.Wait()
		default:
			a.mu.Unlock()
			writes, err := Piece(of, id, piece)
			a.mu.Lock()
			if err != nil {
				return // who applies it will see
			}
			if piece >= a.next && !a.over && a.of == id {
				a.kept[piece] = writes
			}
			piece++
		}
	}
}

// End forgets the pieces of a transaction.
func (a *PiecesAhead) End(id base.TxnID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == id {
		a.over, a.kept = true, nil
		a.room.Broadcast()
	}
}

// take gives a piece away, if it is here.
func (a *PiecesAhead) take(id base.TxnID, piece uint32) ([]*wire.Write, bool) {
	if a == nil {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || a.of != id {
		return nil, false
	}
	writes, ok := a.kept[piece]
	a.next = piece + 1
	for n := range a.kept {
		if n <= piece {
			delete(a.kept, n)
		}
	}
	a.room.Broadcast()
	return writes, ok
}
