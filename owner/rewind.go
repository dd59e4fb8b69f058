package owner

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/group"
	"github.com/godwitdb/godwit/store"
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
	// Unsure: it was logged here, but only a majority could tell whether it committed.
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
	// Source: this node's copy is what the incarnation begins with. Others discard their state and are sent its.
	Source bool
}

// stands reports whether a vote of the old incarnation is part of the new one: it bound other regions, and
// nothing that it may depend on has been discarded (I13). No other undecided vote was told to anybody.
func (r *Rewinding) stands(s *Set, v *wire.Vote) bool {
	probe := Replica{id: r.Group, shard: r.Group.Shard(), region: r.Group.Region(), cfg: &s.cfg, isAsync: true}
	return probe.mixed(v.Participants) && base.Timestamp(v.Depends) <= r.Cut
}

// Rewind makes this node's copy of a group, which must not be open, part of a new incarnation, and says what it held beyond
// the cut. report is called with that before anything is changed.
func (s *Set) Rewind(r Rewinding, report func(Lost) error) error {
	st := s.cfg.Store
	lost := map[base.TxnID]*LostTxn{}
	votes := map[base.TxnID]*wire.Vote{}
	aborted := map[base.TxnID]bool{}
	kept := map[base.Timestamp]bool{}
	keep := map[base.TxnID][]byte{}
	lose := func(id base.TxnID, ts base.Timestamp, unsure bool) {
		if ts > r.Cut {
			lost[id] = &LostTxn{ID: id, TS: ts, Unsure: unsure}
		}
	}
	err := st.ScanTxns(r.Group, base.TxnID{}, base.TxnID{}, func(id base.TxnID, rec []byte) error {
		state, ts, v, err := parseRecord(r.Group, id, rec)
		if err != nil {
			return err
		}
		rec = slices.Clone(rec)
		switch {
		case state == wire.TxnState_PREPARED:
			if votes[id] = v; !r.stands(s, v) {
				rec = abortedRecord
			}
		case state == wire.TxnState_ABORTED:
			aborted[id] = true
		case ts > r.Cut && len(rec) == 10:
			kept[ts] = true
		case ts > r.Cut:
			lose(id, ts, false)
			return nil
		}
		keep[id] = rec
		return nil
	})
	if err != nil {
		return err
	}
	var state []byte
	if r.Source {
		if state, _, err = st.GetState(r.Group, stateName); err != nil {
			return err
		}
	} else if err := s.loseTail(r, votes, aborted, lose, lost); err != nil {
		return err
	}
	byTS := map[base.Timestamp][]*LostTxn{}
	for _, x := range lost {
		byTS[x.TS] = append(byTS[x.TS], x)
	}
	// Timestamps of a group grow along its log, so one belongs to one transaction; only those that bound other groups may share one.
	beyond := func(v *store.Version) bool { return v.TS > r.Cut && !(r.Source && kept[v.TS]) }
	if err := st.EachVersion(r.Group.Shard(), func(v *store.Version) error {
		if v.Writer.Region == r.Group.Region() && v.TS > r.Cut && !kept[v.TS] {
			for _, x := range byTS[v.TS] {
				if !slices.ContainsFunc(x.Keys, func(k base.Key) bool { return k.Compare(v.Key) == 0 }) {
					x.Keys = append(x.Keys, v.Key.Clone())
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	out := Lost{Group: r.Group, Node: s.cfg.Self, Txns: len(lost)}
	for _, x := range lost {
		out.Rows += x.Rows()
		out.List = append(out.List, *x)
	}
	slices.SortFunc(out.List, func(a, b LostTxn) int { return cmp.Compare(a.TS, b.TS) })
	out.List = out.List[:min(len(out.List), maxLost)]
	if err := report(out); err != nil {
		return err
	}
	return st.Rewind(r.Group, r.Incarnation, beyond, func(b *store.Batch) error {
		if !r.Source {
			return nil
		}
		for id, rec := range keep {
			b.SetTxn(r.Group, id, rec)
		}
		if state != nil {
			b.SetState(r.Group, stateName, state)
		}
		return group.Begin(st, b, r.Group, s.cfg.Self, r.Incarnation)
	})
}

// loseTail finds what was logged but had not been applied when this node went away.
func (s *Set) loseTail(r Rewinding, votes map[base.TxnID]*wire.Vote, aborted map[base.TxnID]bool, lose func(base.TxnID, base.Timestamp, bool), lost map[base.TxnID]*LostTxn) error {
	ents, committed, err := group.Tail(s.cfg.Store, r.Group, s.cfg.Self)
	if err != nil {
		return fmt.Errorf("what group %v logged last: %w", r.Group, err)
	}
	note := func(id base.TxnID, ts base.Timestamp, index uint64, ws []*wire.Write) {
		lose(id, ts, index > committed)
		if x := lost[id]; x != nil {
			for _, w := range ws {
				x.Keys = append(x.Keys, w.Key)
			}
		}
	}
	probe := Replica{id: r.Group, shard: r.Group.Shard(), region: r.Group.Region(), cfg: &s.cfg, isAsync: true}
	for _, e := range ents {
		c := e.Cmd
		switch {
		case c.Commit != nil:
			if id, ok := txnID(c.Commit.Txn); ok && !aborted[id] {
				note(id, base.Timestamp(c.Ts), e.Index, c.Commit.Writes)
			}
		case c.Prepare != nil:
			if id, ok := txnID(c.Prepare.Txn); ok && !aborted[id] && votes[id] == nil {
				votes[id] = c.Prepare
			}
		case c.Decide != nil:
			id, ok := txnID(c.Decide.Txn)
			if v := votes[id]; ok && v != nil && c.Decide.Commit && !probe.mixed(v.Participants) {
				note(id, base.Timestamp(c.Decide.Ts), e.Index, v.Writes)
			}
		case len(c.Refuse) > 0:
			if id, ok := txnID(c.Refuse); ok && votes[id] == nil {
				aborted[id] = true
			}
		}
	}
	return nil
}
