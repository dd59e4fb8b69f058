package txns

import (
	"bytes"
	"slices"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Table is the transactions of a group at its owner, with their locks. It lives as long as the node
// serves in a term, and is made anew for the next one.
type Table struct {
	LockTable *lock.Table
	ByID      map[base.TxnID]*Txn
	Pending   map[*Txn]struct{} // with writes, proposed or prepared, not yet released
	Slots     map[*Txn]struct{} // those of pending that are votes for a slot
	Notices   map[base.TxnID]*Notices
	Finished  map[base.TxnID]base.Timestamp // when they ended, to keep late requests of them out
	// PatchesEnded counts the transactions with patches that have ended here.
	PatchesEnded uint64
	// Patient: outcomes are not asked for soon. The group is asynchronous, and its leader may not
	// have heard yet that it was promoted over: what it asks then, it asks the wrong one.
	Patient bool
	// Brief leaves out XA-2, for tests that show what breaks then.
	Brief bool
}

// NewTable is a table without transactions, whose lock table has these limits.
func NewTable(limits lock.Limits) Table {
	return Table{
		LockTable: lock.New(limits),
		ByID:      map[base.TxnID]*Txn{},
		Pending:   map[*Txn]struct{}{},
		Slots:     map[*Txn]struct{}{},
		Notices:   map[base.TxnID]*Notices{},
		Finished:  map[base.TxnID]base.Timestamp{},
	}
}

// Txn is a transaction at its owner.
type Txn struct {
	ID      base.TxnID
	Born    uint64 // the term of its first request here: its locks were held from then on
	Age     base.Timestamp
	Policy  lock.Policy
	Timeout time.Duration // longest wait for one lock
	CRT     bool          // it locks across regions

	Activity
	Intent
	Ending
	Homing
	Voting bool        // a Prepare is being evaluated
	Waits  []*LockWait // for locks
	Seen   []view.Seen // keys read under its exclusive locks; only appended to
	Bound  Bound       // slots below which it must commit
	Staged Staged
	Standing
}

// Staged is what a large transaction has logged before its vote (docs/protocol.md, STAGE).
type Staged struct {
	Pieces uint32
	Spans  []base.Span    // all keys written, and the gaps given to other groups; locked exclusively
	Since  base.Timestamp // the newest version that made the group the owner of one of the keys
}

// Add notes the next piece.
func (s *Staged) Add(spans []base.Span, since base.Timestamp) {
	s.Pieces++
	s.Since = max(s.Since, since)
	for _, n := range spans {
		if k := len(s.Spans) - 1; k >= 0 && s.Spans[k].End.Compare(n.Start) <= 0 && n.Start.Compare(s.Spans[k].End) <= 0 {
			s.Spans[k].End = n.End
			continue
		}
		s.Spans = append(s.Spans, n)
	}
}

// Activity says whether a transaction is still used.
type Activity struct {
	Last  time.Time // last sign of life
	Calls int       // requests being served
}

// Intent is what a transaction is about to commit here.
type Intent struct {
	Phase   Phase
	Ordered bool           // by timestamps: it holds locks only of writes under way
	Early   bool           // it has a timestamp and is pending, but was not proposed yet
	TS      base.Timestamp // assigned commit timestamp, or lower bound of the vote
	Hi      base.Timestamp // upper bound of the vote
	Index   uint64         // log entry of the commit, once it is known
	Since   time.Time      // when prepared; Inherited: when this leader's term began
	// Inherited: the vote is of a leader that has not handed over what it knew.
	Inherited bool
	AskAfter  time.Time              // when its outcome may be asked for again
	Keys      []base.Key             // of its writes, sorted; set with phase
	Handover  []base.Span            // gaps that its commit gives to other groups
	Patches   map[string]*wire.Patch // by key, with a slot
	Deciding  bool                   // its outcome is being found out or logged
	Settling  bool                   // it has committed, and its pieces become rows one by one
}

// Ending is the end of a transaction here.
type Ending struct {
	Gone    chan struct{} // closed when it has ended here; made on demand
	Ended   bool
	Aborted bool // set before ended, if it certainly did not commit
}

// Homing is what the policy of homes has to do with a transaction.
type Homing struct {
	Advice map[string][]byte // reasons of the moves advised to it, by key
	Asker  base.RegionID     // the region that those rows should move to
	Along  map[string]bool   // keys shown to it unasked, of whose use the policy does not know
}

// Phase is how far a transaction has come here.
type Phase uint8

// The phases, in this order; a transaction of one round goes from Active to Committing.
const (
	Active     Phase = iota
	Committing       // one-round commit proposed
	Preparing        // vote proposed
	Prepared         // vote applied
)

// String is the name of the phase, as traces show it.
func (p Phase) String() string {
	return [...]string{"active", "committing", "preparing", "prepared"}[p]
}

// LockWait is one request waiting in the lock table.
type LockWait struct {
	Done chan error // capacity 1
	In   *lock.Waiter
	Sent bool
}

// Finish ends the wait, once.
func (w *LockWait) Finish(err error) bool {
	if w.Sent {
		return false
	}
	w.Sent = true
	w.Done <- err
	return true
}

// DoubtLeft is how long others may still wait for the outcome, if they may for a while after the
// vote, and for a moment in any case.
func (x *Txn) DoubtLeft(now time.Time, while, moment time.Duration) time.Duration {
	if x.Phase != Prepared || x.Settling {
		return while
	}
	return max(while-now.Sub(x.Since), moment)
}

// Due reports whether it is time to ask for the outcome of a prepared transaction: a while after
// its vote, or after this leader came; soon, if its coordinator is dead, or has lost the answer of
// a leader before this one.
func (t *Table) Due(x *Txn, now time.Time, while, soon time.Duration, gone func(base.NodeID, time.Time) bool) bool {
	if !t.Patient && (x.Inherited || gone(x.ID.Gateway(), x.Since)) {
		while = soon
	}
	return !x.Deciding && now.Sub(x.Since) > while && now.After(x.AskAfter)
}

// InDoubt is a prepared transaction that requests of x wait for and whose outcome has not been
// known for a while; nil: there is none.
func (t *Table) InDoubt(x *Txn, now time.Time, while time.Duration) (doubt *Txn) {
	t.LockTable.Awaited(x.ID, func(id base.TxnID, _ base.Timestamp) bool {
		if y := t.ByID[id]; y != nil && y.Phase == Prepared && !y.Settling && now.Sub(y.Since) >= while {
			doubt = y
		}
		return doubt == nil
	})
	return doubt
}

// older reports whether x has the higher priority.
func (x *Txn) older(y *Txn) bool { return Ranked{x.ID, x.Age}.Older(Ranked{y.ID, y.Age}) }

// SortKeys puts the keys in order, as WritesIn needs them.
func (x *Txn) SortKeys() {
	slices.SortFunc(x.Keys, func(a, b base.Key) int { return a.Compare(b) })
}

// Writes reports whether x writes anything, as far as it has said.
func (x *Txn) Writes() bool { return len(x.Keys) > 0 || len(x.Handover) > 0 }

// WritesIn reports whether x writes a key in the span or hands over a gap that overlaps it.
func (x *Txn) WritesIn(s base.Span) bool {
	i, found := slices.BinarySearchFunc(x.Keys, s.Start, func(a, b base.Key) int { return a.Compare(b) })
	if found || !s.IsPoint() && i < len(x.Keys) && x.Keys[i].Compare(s.End) < 0 {
		return true
	}
	for _, h := range x.Handover {
		if h.Overlaps(s) {
			return true
		}
	}
	return false
}

// End wakes the requests that wait for x to end here.
func (t *Table) End(x *Txn) {
	if !x.Ended {
		x.Ended = true
		if len(x.Patches) > 0 {
			t.PatchesEnded++
		}
		if x.Gone != nil {
			close(x.Gone)
		}
	}
}

// Ranked is a transaction with its priority.
type Ranked struct {
	ID  base.TxnID
	Age base.Timestamp
}

// Older reports whether a has the higher priority under WAIT_DIE: the smaller age, or at equal ages
// the smaller id.
func (a Ranked) Older(b Ranked) bool {
	return a.Age < b.Age || a.Age == b.Age && bytes.Compare(a.ID[:], b.ID[:]) < 0
}

// crtTier is put before keys to lock them in the tier of CRTs: those locks order CRTs among
// themselves, and no other lock conflicts with them. No shard has this number, so that one table
// serves both tiers.
var crtTier = []byte{0xff, 0xff}

// InCRTTier is the span to lock for a cross-region transaction that orders itself among others of
// its kind.
func InCRTTier(s base.Span) base.Span {
	out := base.Span{Start: append(slices.Clone(crtTier), s.Start...)}
	if s.End != nil {
		out.End = append(slices.Clone(crtTier), s.End...)
	}
	return out
}

// Bound is a slot below which a transaction has to commit, because it has read what the slot's
// transaction writes.
type Bound struct {
	Below base.Timestamp
	Votes []*Txn
}

// Add lowers the bound to the slot of x, whose vote the transaction has to wait for.
func (b *Bound) Add(x *Txn) {
	if x.TS == 0 {
		return // its vote was not proposed after all
	}
	if b.Below == 0 || x.TS < b.Below {
		b.Below = x.TS
	}
	if !slices.Contains(b.Votes, x) {
		b.Votes = append(b.Votes, x)
	}
}

// Past drops what bounds no more. lost: one of the votes has committed; due is one that has to end
// before the transaction commits at a timestamp.
func (b *Bound) Past(at base.Timestamp) (due *Txn, lost bool) {
	var left Bound
	for _, p := range b.Votes {
		switch {
		case p.Ended && !p.Aborted:
			return nil, true
		case p.Ended || p.TS == 0:
			continue
		case p.TS <= at:
			due = p
		}
		left.Add(p)
	}
	*b = left
	return due, false
}

// SlotOver is the last of the slots until which other transactions lock something of a span: then
// those locks end, or nearly so. It is 0 if there are none.
func (t *Table) SlotOver(x *Txn, s base.Span) (slot base.Timestamp) {
	if len(t.Slots) == 0 {
		return 0
	}
	t.LockTable.Holders(s, func(id base.TxnID, _ lock.Mode) bool {
		if y := t.ByID[id]; y != nil && y != x {
			if _, voted := t.Slots[y]; voted {
				slot = max(slot, y.TS)
			}
		}
		return true
	})
	return slot
}

// BoundOthers is called as a vote for a slot is proposed: transactions that have read what x writes
// must commit before the slot, if they are to be bound. It returns their names, or one that has
// voted already and may still commit after the slot; the vote has to wait for that one.
func (t *Table) BoundOthers(x *Txn, writes []*wire.Write, handover []base.Span, slot base.Timestamp,
	bind bool) (bound []base.TxnID, busy *Txn) {
	var readers []*Txn
	look := func(s base.Span) {
		t.LockTable.Holders(s, func(id base.TxnID, _ lock.Mode) bool {
			y := t.ByID[id]
			switch {
			case y == nil || y == x:
			case y.lasts() && !t.Brief, y.outlasts(x, slot):
				busy = y
			case y.Phase == Active && !slices.Contains(readers, y):
				readers = append(readers, y)
			}
			return busy == nil
		})
	}
	for _, w := range writes {
		look(base.Span{Start: w.Key})
	}
	for _, s := range handover {
		look(s)
	}
	if busy != nil {
		return nil, busy
	}
	x.TS = slot
	if !bind {
		return nil, nil
	}
	for _, y := range readers {
		y.Bound.Add(x)
		bound = append(bound, y.ID)
	}
	return bound, nil
}

// outlasts reports whether y, which has locks that the vote of x for a slot meets, may commit after
// the slot, or so that the vote has to wait for it.
func (y *Txn) outlasts(x *Txn, slot base.Timestamp) bool {
	switch y.Phase {
	case Active:
		return y.CRT && y.older(x) // it thinks across the ocean, and would hardly be in time
	case Preparing, Prepared:
		return y.TS >= slot || y.Hi > slot
	}
	return y.TS >= slot
}

// TierOf takes the tier off a locked span, for people to read.
func TierOf(s base.Span) (_ base.Span, crt bool) {
	if !bytes.HasPrefix(s.Start, crtTier) {
		return s, false
	}
	s.Start = s.Start[len(crtTier):]
	if s.End != nil {
		s.End = s.End[len(crtTier):]
	}
	return s, true
}

const maxNotices = 10_000

// Hear notes the vote of another participant. It reports false if too much is noted: then the
// coordinator has to send the outcome.
func (t *Table) Hear(id base.TxnID, from base.GroupID) bool {
	n := t.Notices[id]
	if n == nil {
		if len(t.Notices) >= maxNotices {
			return false
		}
		n = &Notices{At: time.Now()}
		t.Notices[id] = n
	}
	if !slices.Contains(n.From, from) {
		n.From = append(n.From, from)
	}
	return true
}

// Notices are votes of other participants that were heard of, by transaction.
type Notices struct {
	From []base.GroupID
	At   time.Time
}

// leaves reports whether what x writes within the spans are patches only, so that others may
// lock the rows exclusively.
func (x *Txn) leaves(spans []base.Span) bool {
	if len(x.Patches) == 0 {
		return false
	}
	for _, s := range spans {
		for _, h := range x.Handover {
			if h.Overlaps(s) {
				return false
			}
		}
		i, _ := slices.BinarySearchFunc(x.Keys, s.Start, func(a, b base.Key) int { return a.Compare(b) })
		for ; i < len(x.Keys) && s.Contains(x.Keys[i]); i++ {
			if x.Patches[string(x.Keys[i])] == nil {
				return false
			}
		}
	}
	return true
}

// Writing finds another transaction that was proposed and may write one of the keys below ts; mu is
// held.
func (t *Table) Writing(keys []base.Span, ts base.Timestamp, not base.TxnID) *Txn {
	for y := range t.Pending {
		if y.ID != not && y.TS < ts && slices.ContainsFunc(keys, y.WritesIn) {
			return y
		}
	}
	return nil
}

// Uncertain finds a transaction that has voted for a timestamp in (ts, limit] and writes within
// spans: it may have committed, and its client may know. One that commits in this group alone has
// not been acknowledged yet.
func (t *Table) Uncertain(spans []base.Span, ts, limit base.Timestamp) *Txn {
	for x := range t.Pending {
		if x.TS <= ts || x.TS > limit || x.Phase < Preparing {
			continue
		}
		if slices.ContainsFunc(spans, x.WritesIn) {
			return x
		}
	}
	return nil
}

// SlotsOn is the timestamp below all slots ahead that write within the spans, which x may read; due
// is a transaction that x has to wait for instead, because its slot comes soon, or x must not read
// below it.
func (t *Table) SlotsOn(x *Txn, mode lock.Mode, spans []base.Span, soon base.Timestamp) (at base.Timestamp, due *Txn) {
	at = base.MaxTimestamp
	for p := range t.Slots {
		if p == x || !slices.ContainsFunc(spans, p.WritesIn) {
			continue
		}
		if mode != lock.Shared && !p.leaves(spans) || x.CRT || p.TS <= soon {
			return at, p
		}
		at = min(at, p.TS.Prev())
	}
	return at, nil
}

// SlotIn finds a transaction with a slot that writes within the spans.
func (t *Table) SlotIn(x *Txn, spans []base.Span) *Txn {
	for p := range t.Slots {
		if p != x && slices.ContainsFunc(spans, p.WritesIn) {
			return p
		}
	}
	return nil
}

// LowerSlot finds a transaction that has voted for a slot below slot, and writes within the spans,
// which x has read; or one that has voted for the same slot, whatever it writes.
func (t *Table) LowerSlot(x *Txn, spans []base.Span, slot base.Timestamp) *Txn {
	for p := range t.Slots {
		if p != x && (p.TS == slot || p.TS < slot && slices.ContainsFunc(spans, p.WritesIn)) {
			return p
		}
	}
	return nil
}

// BoundBySlots has x commit before all slots that write within the spans.
func (t *Table) BoundBySlots(x *Txn, spans []base.Span) {
	for p := range t.Slots {
		if p != x && slices.ContainsFunc(spans, p.WritesIn) {
			x.Bound.Add(p)
		}
	}
}

// AtOrBelow finds a transaction other than x that may commit at or below ts within the spans, and
// was proposed or prepared already; nil if there is none. x may be nil.
func (t *Table) AtOrBelow(x *Txn, spans []base.Span, ts base.Timestamp) *Txn {
	for y := range t.Pending {
		if y == x || y.TS > ts {
			continue
		}
		if slices.ContainsFunc(spans, y.WritesIn) {
			return y
		}
	}
	return nil
}
