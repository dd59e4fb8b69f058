package txns

import (
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// What a new leader knows of transactions that are under way comes from two places: the transferred
// state, which its predecessor sends, and the votes in its log, whose write locks it takes again.

// ByLocks are the transactions in the order in which they are handed over: those that have been
// proposed first, then those with few locks. If not all fit, those with many locks stay behind.
func (t *Table) ByLocks() []*Txn {
	xs := make([]*Txn, 0, len(t.ByID))
	for _, x := range t.ByID {
		if !x.Stands { // the log gives back those
			xs = append(xs, x)
		}
	}
	slices.SortFunc(xs, func(a, b *Txn) int {
		if a.Phase != Active && b.Phase == Active {
			return -1
		} else if a.Phase == Active && b.Phase != Active {
			return 1
		}
		return t.LockTable.Count(a.ID) - t.LockTable.Count(b.ID)
	})
	return xs
}

// HeldBy is a transaction with its locks, as the target is told of it.
func (t *Table) HeldBy(x *Txn) *wire.HeldTxn {
	h := &wire.HeldTxn{Id: x.ID[:], Age: uint64(x.Age), Policy: uint32(x.Policy), TimeoutNs: uint64(x.Timeout), Born: x.Born,
		Phase: uint32(x.Phase), Ts: uint64(x.TS), Hi: uint64(x.Hi), Crt: x.CRT, Staged: x.Staged.Pieces, StagedSince: uint64(x.Staged.Since),
		StagedSpans: view.Wired(x.Staged.Spans), Handover: view.Wired(x.Handover)}
	if x.Phase == Prepared {
		h.VotedNs = uint64(time.Since(x.Since))
	}
	_, h.Slot = t.Slots[x]
	if !x.Under.IsZero() {
		h.Under = x.Under[:]
	}
	if !x.Prepares.IsZero() {
		h.Prepares = x.Prepares[:]
	}
	for _, k := range x.Keys {
		h.Keys = append(h.Keys, k)
	}
	t.LockTable.Each(x.ID, func(s base.Span, m lock.Mode) bool {
		w := &wire.Span{Start: s.Start, End: s.End}
		if m == lock.Exclusive {
			h.Exclusive = append(h.Exclusive, w)
		} else {
			h.Shared = append(h.Shared, w)
		}
		return true
	})
	for _, p := range x.Bound.Votes {
		h.BoundBy = append(h.BoundBy, p.ID[:])
	}
	if n := t.Notices[x.ID]; n != nil {
		for _, g := range n.From {
			h.Votes = append(h.Votes, uint32(g))
		}
	}
	return h
}

// VotedTo is the timestamp up to which votes cast here may still commit that rest on locks which
// the log does not give back to a successor: those of what was only read (TXN-3). Below it a
// successor writes nothing (TIME-1b). It is 0 if there are none.
func (t *Table) VotedTo() (ts base.Timestamp) {
	for _, x := range t.ByID {
		if x.Phase != Preparing && x.Phase != Prepared || x.Hi == 0 {
			continue
		}
		if _, slot := t.Slots[x]; slot || x.Ordered || t.hasRead(x) {
			ts = max(ts, x.Hi.Prev())
		}
	}
	return ts
}

// hasRead reports whether a transaction holds locks beside those of its writes.
func (t *Table) hasRead(x *Txn) (read bool) {
	t.LockTable.Each(x.ID, func(s base.Span, m lock.Mode) bool {
		read = m != lock.Exclusive || !x.writesAll(s)
		return !read
	})
	return read
}

// writesAll reports whether a span is the key of a write, or a gap that its commit gives away.
func (x *Txn) writesAll(s base.Span) bool {
	if !s.IsPoint() {
		return slices.ContainsFunc(x.Handover, func(h base.Span) bool {
			return h.Start.Compare(s.Start) == 0 && h.End.Compare(s.End) == 0
		})
	}
	_, found := slices.BinarySearchFunc(x.Keys, s.Start, func(a, b base.Key) int { return a.Compare(b) })
	return found
}

// takeSpans takes locks that were all held at the same time, so that none can conflict.
func (t *Table) takeSpans(x *Txn, spans []*wire.Span, mode lock.Mode) error {
	for _, s := range spans {
		out, _, _, err := t.LockTable.Acquire(lock.Request{Txn: x.ID, Age: x.Age, Span: view.SpanOf(s), Mode: mode})
		if err != nil || out != lock.Granted {
			return base.Errorf(base.CodeCorrupt, "transaction %v cannot lock %v: %v", x.ID, view.SpanOf(s), err)
		}
	}
	return nil
}

// Log is what a new leader's log says of transactions.
type Log struct {
	Group    *state.Group
	Prepared map[base.TxnID]*wire.Vote
	Applied  uint64         // the newest entry that is visible
	Now      base.Timestamp // by the node's clock
}

// Taken are transactions of a predecessor that do not end by themselves.
type Taken struct {
	Committed []Commit
	Voted     []base.TxnID // for slots; the votes of all participants may be known
}

// Commit is a transaction that ends when its commit timestamp is settled.
type Commit struct {
	Txn *Txn
	TS  base.Timestamp
}

// Take registers the transactions of the predecessor with the locks that they held.
func (t *Table) Take(h *wire.TransferredState, log Log) (rest Taken, err error) {
	for _, held := range h.Txns {
		if err := t.take(held, log, &rest); err != nil {
			return rest, err
		}
	}
	for _, held := range h.Txns { // now that all are here which may bound others
		if x := t.ByID[base.TxnID(held.Id)]; x != nil && len(held.BoundBy) > 0 {
			if err := t.takeBound(x, held.BoundBy, log); err != nil {
				return rest, err
			}
		}
	}
	for _, id := range h.Finished {
		if id, ok := state.TxnID(id); ok {
			t.Finished[id] = log.Now
		}
	}
	return rest, nil
}

// take registers one transaction of the predecessor, unless it is over.
func (t *Table) take(h *wire.HeldTxn, log Log, rest *Taken) error {
	id, ok := state.TxnID(h.Id)
	if !ok {
		return base.Errorf(base.CodeCorrupt, "malformed transaction id %x", h.Id)
	}
	x := &Txn{ID: id, Born: h.Born, Age: base.Timestamp(h.Age), Policy: lock.Policy(h.Policy),
		Timeout: time.Duration(h.TimeoutNs), Activity: Activity{Last: time.Now()}, CRT: h.Crt,
		Staged: Staged{Pieces: h.Staged, Since: base.Timestamp(h.StagedSince), Spans: view.SpansOf(h.StagedSpans)}}
	x.Under, _ = state.TxnID(h.Under)
	x.Prepares, _ = state.TxnID(h.Prepares)
	if h.Phase != uint32(Active) {
		if over, err := t.takeProposed(x, h, log, rest); err != nil || over {
			return err
		}
	}
	t.ByID[id] = x
	if err := t.takeSpans(x, h.Shared, lock.Shared); err != nil {
		return err
	}
	if err := t.takeSpans(x, h.Exclusive, lock.Exclusive); err != nil {
		return err
	}
	if x.Phase != Active {
		t.LockTable.Ending(id, true)
	}
	return nil
}

// takeProposed restores a transaction that has been proposed. The log, which ends behind it, says
// what became of it.
func (t *Table) takeProposed(x *Txn, h *wire.HeldTxn, log Log, rest *Taken) (over bool, err error) {
	v := log.Prepared[x.ID]
	var out state.Outcome
	if v == nil {
		if out, err = state.Recorded(log.Group, x.ID); err != nil {
			return false, err
		}
		switch out.State {
		case wire.TxnState_ABORTED:
			return true, nil
		case wire.TxnState_UNKNOWN:
			return false, nil // it was not proposed after all: still active
		}
	}
	t.restore(x, h)
	if v == nil {
		x.Index = log.Applied
		rest.Committed = append(rest.Committed, Commit{x, out.TS})
		return false, nil
	}
	x.Phase, x.Ordered, x.Patches = Prepared, v.Ordered, state.Patches(v.Writes)
	if len(h.Votes) > 0 {
		n := &Notices{At: x.Last}
		for _, g := range h.Votes {
			n.From = append(n.From, base.GroupID(g))
		}
		t.Notices[x.ID] = n
	}
	if v.Slot != 0 { // the predecessor may have known all votes, and its log not have taken the outcome
		rest.Voted = append(rest.Voted, x.ID)
	}
	return false, nil
}

// restore shows the writes of a transaction as being under way, as they were at the predecessor.
func (t *Table) restore(x *Txn, h *wire.HeldTxn) {
	x.Phase, x.TS, x.Hi, x.Since = Phase(h.Phase), base.Timestamp(h.Ts), base.Timestamp(h.Hi), x.Last.Add(-time.Duration(h.VotedNs))
	for _, k := range h.Keys {
		x.Keys = append(x.Keys, k)
	}
	for _, s := range h.Handover {
		x.Handover = append(x.Handover, view.SpanOf(s))
	}
	if x.Writes() {
		t.Pending[x] = struct{}{}
	}
	if h.Slot {
		t.Slots[x] = struct{}{}
	}
}

// takeBound restores the slots below which a transaction has to commit.
func (t *Table) takeBound(x *Txn, by [][]byte, log Log) error {
	for _, b := range by {
		id, _ := state.TxnID(b)
		p := t.ByID[id]
		if p == nil {
			out, err := state.Recorded(log.Group, id)
			if err != nil {
				return err
			}
			if out.State != wire.TxnState_COMMITTED {
				continue
			}
			p = &Txn{ID: id, Intent: Intent{TS: out.TS}, Ending: Ending{Ended: true}}
		}
		x.Bound.Add(p)
	}
	return nil
}

// LockPrepared takes the write locks of all prepared transactions that have none here: those of
// earlier terms, which ended before began. Their read locks are gone, which is what the upper bound
// of a vote is for.
func (t *Table) LockPrepared(g *view.Group, prepared map[base.TxnID]*wire.Vote, standing map[base.TxnID][]byte,
	began time.Time) error {
	rd := g.Store.NewReader()
	defer rd.Close()
	for id, v := range prepared {
		if t.ByID[id] != nil {
			continue
		}
		now := time.Now()
		x := &Txn{ID: id, Age: id.Start(), Activity: Activity{Last: now},
			Intent: Intent{Phase: Prepared, Ordered: v.Ordered, TS: base.Timestamp(v.Lo), Since: began, Inherited: true}}
		for _, w := range v.Writes {
			span, err := g.WriteSpan(rd, w)
			if err != nil {
				return err
			}
			x.Keys = append(x.Keys, w.Key)
			if !span.IsPoint() {
				x.Handover = append(x.Handover, span)
			}
			if err := t.relock(g.ID, x, v, w, span); err != nil {
				return err
			}
		}
		if err := t.takeSpans(x, v.Spans, lock.Exclusive); err != nil {
			return err
		}
		for _, s := range v.Spans {
			x.Handover = append(x.Handover, view.SpanOf(s))
		}
		if err := t.takeVote(g, x, v, standing); err != nil {
			return err
		}
		x.SortKeys()
		t.LockTable.Ending(id, true)
		t.ByID[id] = x
		if x.Writes() {
			t.Pending[x] = struct{}{}
		}
	}
	return nil
}

// relock takes the locks of one write of a vote. They cannot conflict: votes were cast under them.
func (t *Table) relock(g base.GroupID, x *Txn, v *wire.Vote, w *wire.Write, span base.Span) error {
	if v.Slot != 0 {
		if w.Patch != nil {
			t.Slots[x], x.Patches = struct{}{}, state.Patches(v.Writes)
		}
		mode := lock.Exclusive
		if w.Patch != nil && patch.Stacks(w.Patch) {
			mode = lock.Shared
		}
		out, _, _, err := t.LockTable.Acquire(lock.Request{Txn: x.ID, Age: x.Age, Span: InCRTTier(span), Mode: mode})
		if err != nil || out != lock.Granted {
			return base.Errorf(base.CodeCorrupt, "prepared cross-region transactions of group %v write %v both (%v)",
				g, span, err)
		}
	}
	if w.Patch != nil {
		return nil // others may have voted for other versions of the row
	}
	out, _, _, err := t.LockTable.Acquire(lock.Request{Txn: x.ID, Age: x.Age, Span: span, Mode: lock.Exclusive})
	if err != nil {
		return err
	}
	if out != lock.Granted {
		return base.Errorf(base.CodeCorrupt, "prepared transactions of group %v write %v both", g, span)
	}
	return nil
}
