package txn

import (
	"context"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/txn/bounds"
	"github.com/godwitdb/godwit/wire"
)

// attempt is a transaction under one name, which is how owners know it. A group votes once for each
// name, so a commit that is tried again takes another one (Txn.renamed).
type attempt struct {
	db    *DB
	id    base.TxnID
	meta  wire.TxnMeta
	begun time.Time
	parts []part
	// groups are those of parts, for heartbeats; guarded by db.live.mu.
	groups []base.GroupID
	bounds bounds.Bounds
	inGate bool // it entered the gate, before its first lock
	ended  bool // committed, or released
}

// part is a group in which an attempt holds locks, or has asked for some.
type part struct {
	group base.GroupID
	term  uint64 // leadership term of the locks; 0: nothing is known to be locked
	// opened: its leader knows the opening, so that what it locks later commits above it.
	opened bool
}

// part is the record of a group, made if need be. From the first one on the attempt is kept alive
// by heartbeats.
func (a *attempt) part(g base.GroupID) *part {
	if p := a.findPart(g); p != nil {
		return p
	}
	a.parts = append(a.parts, part{group: g})
	a.db.live.add(a, g)
	return &a.parts[len(a.parts)-1]
}

func (a *attempt) findPart(g base.GroupID) *part {
	for i := range a.parts {
		if a.parts[i].group == g {
			return &a.parts[i]
		}
	}
	return nil
}

// lockTerm is the term of the locks in a group; 0 if there are none.
func (a *attempt) lockTerm(g base.GroupID) uint64 {
	if p := a.findPart(g); p != nil {
		return p.term
	}
	return 0
}

// locked are the groups in which locks are known to be held.
func (a *attempt) locked() []part {
	var held []part
	for _, p := range a.parts {
		if p.term != 0 {
			held = append(held, p)
		}
	}
	return held
}

// forgetParts drops all groups: the attempt has told them itself that it is over there.
func (a *attempt) forgetParts() {
	a.parts = nil
	a.bounds.Clear()
	a.db.live.remove(a)
}

// end stops the heartbeats and leaves the gate. lost: the attempt was aborted by a conflict.
func (a *attempt) end(lost bool) {
	if a.ended {
		return
	}
	a.ended = true
	if len(a.parts) > 0 {
		a.db.live.remove(a)
	}
	if a.inGate {
		a.db.gate.Leave(lost)
	}
}

// quitGate takes a transaction that crosses regions out of the gate.
func (a *attempt) quitGate() {
	if a.inGate {
		a.inGate = false
		a.db.gate.Quit()
	}
}

// release ends the attempt and gives all its locks back, in the background where that takes a
// message. lost: it was aborted by a conflict; committed: it was not aborted at all. release
// returns how many moves of rows that has set off, as far as is known at once.
func (a *attempt) release(lost, committed bool) (moves int) {
	if a.ended {
		return 0
	}
	a.end(lost)
	for _, p := range a.parts {
		q := &wire.FinishRequest{Group: uint32(p.group), Txn: a.id[:], Done: committed}
		if r := a.db.set.Replica(p.group); r != nil {
			if _, ok := r.Serving(); ok {
				moves += int(r.Finish(context.Background(), q).Moves)
				continue
			}
		}
		a.db.tasks.Spawn(func(ctx context.Context) { a.db.router.Release(ctx, q) })
	}
	return moves
}

// releaseOthers gives back what may be locked in groups that took no part in the commit.
func (a *attempt) releaseOthers(groups []base.GroupID) {
	for _, p := range a.parts {
		if !slices.Contains(groups, p.group) {
			q := &wire.FinishRequest{Group: uint32(p.group), Txn: a.id[:]}
			a.db.tasks.Spawn(func(ctx context.Context) { a.db.router.Release(ctx, q) })
		}
	}
}
