// Package rewind makes a node's copy of a group part of a new incarnation that goes on from a cut,
// and says what the copy held beyond it.
//
// Groups of asynchronous shards have all their voters in one region. If that region is lost,
// another one is promoted and goes on from a cut (REPL-2). A node that comes back still has what
// its group committed above the cut; it discards that, and lists the transactions and rows for an
// operator.
package rewind

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/group"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/wire"
)

// maxLost bounds the transactions and rows that a report lists; the counts are exact.
const maxLost = 10_000

// Lost is what a replica held of an earlier incarnation of its group and has discarded.
type Lost struct {
	Group base.GroupID `json:"group"`
	Node  base.NodeID  `json:"node"`
	Txns  int          `json:"txns"`
	Rows  int          `json:"rows"`           // without entries of indexes
	List  []LostTxn    `json:"list,omitempty"` // by commit timestamp, at most maxLost
}

// LostTxn is a transaction that committed, or may have, above the cut.
type LostTxn struct {
	ID base.TxnID     `json:"id"`
	TS base.Timestamp `json:"ts"`
	// Unsure: it was logged or voted for here, but only a majority, or the other groups, could tell
	// whether it committed.
	Unsure bool       `json:"unsure,omitempty"`
	Keys   []base.Key `json:"keys,omitempty"` // written in this group: rows and entries of indexes
}

// Rows is the number of rows written.
func (x *LostTxn) Rows() (n int) {
	for _, k := range x.Keys {
		if k.Index() == 0 {
			n++
		}
	}
	return n
}

// Rewinding says how a group begins anew from what lies at or below a cut.
type Rewinding struct {
	Group       base.GroupID
	Incarnation uint32
	Cut         base.Timestamp
	// Source: this node's copy is what the incarnation begins with. Others discard their state and
	// are sent its.
	Source bool
}

// Node is the node whose copy is rewound.
type Node struct {
	Self  base.NodeID
	Store *store.Store
	// Mixed reports whether a vote of the group for these participants bound groups that were not
	// lost together with it.
	Mixed func(participants []uint32) bool
}

// work is one rewinding under way.
type work struct {
	Rewinding
	Node
	lost    map[base.TxnID]*LostTxn
	votes   map[base.TxnID]*wire.Vote
	aborted map[base.TxnID]bool
	// kept are the timestamps above the cut of commits that bound other groups; they stay.
	kept map[base.Timestamp]bool
	keep map[base.TxnID][]byte // records of the new incarnation
}

// Run makes the node's copy of a group, which must not be open, part of a new incarnation, and says
// what it held beyond the cut. report is called with that before anything is changed.
func Run(n Node, r Rewinding, report func(Lost) error) error {
	w := &work{Rewinding: r, Node: n, lost: map[base.TxnID]*LostTxn{}, votes: map[base.TxnID]*wire.Vote{},
		aborted: map[base.TxnID]bool{}, kept: map[base.Timestamp]bool{}, keep: map[base.TxnID][]byte{}}
	if err := w.readRecords(); err != nil {
		return err
	}
	var replicated []byte
	if r.Source {
		var err error
		if replicated, _, err = n.Store.GetState(r.Group, state.Name); err != nil {
			return err
		}
	} else if err := w.readTail(); err != nil {
		return err
	}
	w.loseVotes()
	if err := w.findKeys(); err != nil {
		return err
	}
	if err := report(w.report()); err != nil {
		return err
	}
	return n.Store.Rewind(r.Group, r.Incarnation, w.beyond, func(b *store.Batch) error {
		if !r.Source {
			return nil
		}
		for id, rec := range w.keep {
			b.SetTxn(r.Group, id, rec)
		}
		if replicated != nil {
			b.SetState(r.Group, state.Name, replicated)
		}
		return group.Begin(n.Store, b, r.Group, n.Self, r.Incarnation)
	})
}

// stands reports whether a vote of the old incarnation is part of the new one: it bound other
// regions, and nothing that it may depend on has been discarded (OWN-13). No other undecided vote
// was sent to any other group. A vote with pieces binds none (STAGE-6).
func (w *work) stands(v *wire.Vote) bool {
	return v.Pieces == 0 && w.Mixed(v.Participants) && base.Timestamp(v.Depends) <= w.Cut
}

// lose notes a transaction that committed above the cut, or may have.
func (w *work) lose(id base.TxnID, ts base.Timestamp, unsure bool, writes []*wire.Write) {
	if ts <= w.Cut {
		return
	}
	x := &LostTxn{ID: id, TS: ts, Unsure: unsure}
	for _, o := range writes {
		x.Keys = append(x.Keys, o.Key)
	}
	w.lost[id] = x
}

// readRecords sorts the records of the old incarnation.
func (w *work) readRecords() error {
	return w.Store.ScanTxns(w.Group, base.TxnID{}, base.TxnID{}, func(id base.TxnID, rec []byte) error {
		out, err := state.ParseRecord(w.Group, id, rec)
		if err != nil {
			return err
		}
		rec = slices.Clone(rec)
		switch {
		case out.State == wire.TxnState_PREPARED:
			if w.votes[id] = out.Vote; !w.stands(out.Vote) {
				rec = state.AbortedRecord
			}
		case out.State == wire.TxnState_ABORTED:
			w.aborted[id] = true
		case out.State == wire.TxnState_UNKNOWN:
			rec = state.AbortedRecord // its pieces go with the other records
		case out.TS > w.Cut && out.Bound:
			w.kept[out.TS] = true
		case out.TS > w.Cut && out.Statement:
			return nil // it is lost with its transaction
		case out.TS > w.Cut:
			w.lose(id, out.TS, false, nil)
			return nil
		}
		w.keep[id] = rec
		return nil
	})
}

// readTail finds what was logged but had not been applied when this node went away.
func (w *work) readTail() error {
	ents, committed, err := group.Tail(w.Store, w.Group, w.Self)
	if err != nil {
		return fmt.Errorf("what group %v logged last: %w", w.Group, err)
	}
	for _, e := range ents {
		w.readEntry(e, e.Index > committed)
	}
	return nil
}

func (w *work) readEntry(e group.Entry, unsure bool) {
	switch c := e.Cmd; {
	case c.Commit != nil:
		if id, ok := state.TxnID(c.Commit.Txn); ok && !w.aborted[id] {
			w.lose(id, base.Timestamp(c.Ts), unsure, c.Commit.Writes)
		}
	case c.Prepare != nil:
		if id, ok := state.TxnID(c.Prepare.Txn); ok && !w.aborted[id] && w.votes[id] == nil {
			w.votes[id] = c.Prepare
		}
	case c.Decide != nil:
		if id, ok := state.TxnID(c.Decide.Txn); ok {
			w.readDecision(id, c.Decide, unsure)
		}
	case c.Settle != nil:
		if id, ok := state.TxnID(c.Settle.Txn); ok {
			w.readDecision(id, &wire.Decide{Commit: true, Ts: c.Settle.Ts}, unsure)
		}
	case len(c.Refuse) > 0:
		if id, ok := state.TxnID(c.Refuse); ok && w.votes[id] == nil {
			w.aborted[id] = true
		}
	}
}

func (w *work) readDecision(id base.TxnID, d *wire.Decide, unsure bool) {
	if !d.Commit {
		w.aborted[id] = true
	} else if v := w.votes[id]; v != nil && !w.Mixed(v.Participants) {
		w.lose(id, base.Timestamp(d.Ts), unsure, v.Writes)
	}
}

// loseVotes loses transactions without a decision. One has committed once all its votes are logged,
// and a client may have been told so before a decision was. (Votes that bind other groups were told
// only if they stand.)
func (w *work) loseVotes() {
	for id, v := range w.votes {
		if w.lost[id] == nil && !w.aborted[id] && !w.Mixed(v.Participants) {
			w.lose(id, base.Timestamp(v.Lo), true, v.Writes)
		}
	}
	for id, x := range w.lost {
		w.findPieces(id, x)
	}
}

// findPieces lists the keys of the pieces that have not become rows yet. Some may have been in
// entries that were not applied, of which the report says nothing.
func (w *work) findPieces(id base.TxnID, x *LostTxn) {
	v := w.votes[id]
	if v == nil {
		return
	}
	of := state.Group{ID: w.Group, Store: w.Store}
	for n := v.Applied + 1; n <= v.Pieces; n++ {
		if ws, err := state.Piece(&of, id, n); err == nil {
			for _, o := range ws {
				x.Keys = append(x.Keys, o.Key)
			}
		}
	}
}

// findKeys lists the keys that lost transactions wrote. Timestamps of a group grow along its log,
// so one belongs to one transaction; only those that bound other groups may share one.
func (w *work) findKeys() error {
	byTS := map[base.Timestamp][]*LostTxn{}
	for _, x := range w.lost {
		byTS[x.TS] = append(byTS[x.TS], x)
	}
	return w.Store.EachVersion(w.Group.Shard(), func(v *store.Version) error {
		if v.Writer.Region != w.Group.Region() || v.TS <= w.Cut || w.kept[v.TS] {
			return nil
		}
		for _, x := range byTS[v.TS] {
			if !slices.ContainsFunc(x.Keys, func(k base.Key) bool { return k.Compare(v.Key) == 0 }) {
				x.Keys = append(x.Keys, v.Key.Clone())
			}
		}
		return nil
	})
}

// beyond reports whether a version is discarded.
func (w *work) beyond(v *store.Version) bool { return v.TS > w.Cut && !(w.Source && w.kept[v.TS]) }

func (w *work) report() Lost {
	out := Lost{Group: w.Group, Node: w.Self, Txns: len(w.lost)}
	for _, x := range w.lost {
		out.Rows += x.Rows()
		out.List = append(out.List, *x)
	}
	slices.SortFunc(out.List, func(a, b LostTxn) int { return cmp.Compare(a.TS, b.TS) })
	out.List = out.List[:min(len(out.List), maxLost)]
	return out
}
