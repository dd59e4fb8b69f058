package owner

import (
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/state"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// What a new leader knows of transactions that are under way comes from two places: the transferred
// state, which its predecessor sends, and the votes in its log, whose write locks it takes again.

const (
	// maxTransferred bounds the bytes of the locks that are handed over. Beyond it the transactions
	// with the most locks abort.
	maxTransferred = 4 << 20
	// maxLate are the finished transactions of which the target keeps out late requests, too.
	maxLate = 4096
)

// transferredState is what the target of a hand-over has to know; committed says that the lease
// transfer entry is. No request waits here for a lock or an outcome afterwards. mu is held.
func (r *Replica) transferredState(t *lead.Transfer, committed bool) *wire.TransferredState {
	l := &r.lead
	floor := max(l.Floor, l.Announced, l.Issued)
	// the marks of reads are not sent: all that the target writes lies above them
	if r.order != nil {
		floor = max(floor, r.order.High, l.Ends.Newest())
	}
	out := &wire.TransferredState{Index: t.Index, Committed: committed, Floor: uint64(floor), Announced: uint64(l.Announced), Issued: uint64(l.Issued), Low: uint64(l.Low)}
	r.sendWaitsTo(t)
	bytes := 0
	for _, x := range r.ByLocks() {
		h := r.HeldBy(x)
		if bytes += h.SizeVT(); bytes > maxTransferred && x.Phase == txns.Active {
			break
		}
		out.Txns = append(out.Txns, h)
	}
	recent := r.clock.Latest().Add(-handoverPatience)
	for id, at := range r.Finished {
		if at > recent && len(out.Finished) < maxLate {
			out.Finished = append(out.Finished, id[:])
		}
	}
	return out
}

// sendWaitsTo has those that wait here for a lock, or for an outcome, ask the target. mu is held.
func (r *Replica) sendWaitsTo(t *lead.Transfer) {
	var waits []*txns.LockWait
	for _, x := range r.ByID {
		waits = append(waits, x.Waits...)
	}
	r.failWaits(t.Err)
	for _, w := range waits {
		r.settle(r.LockTable.Cancel(w.In))
	}
	for _, x := range r.ByID {
		if x.Gone != nil && !x.Ended {
			close(x.Gone)
			x.Gone = nil
		}
	}
}

// takeTransferred registers the transactions of the predecessor with the locks that they held. mu
// is held.
func (r *Replica) takeTransferred(h *wire.TransferredState) error {
	for _, t := range h.Txns {
		if err := r.takeTxn(t); err != nil {
			return err
		}
	}
	for _, t := range h.Txns { // now that all are here which may bound others
		if x := r.ByID[base.TxnID(t.Id)]; x != nil && len(t.BoundBy) > 0 {
			if err := r.takeBound(x, t.BoundBy); err != nil {
				return err
			}
		}
	}
	for _, id := range h.Finished {
		if id, ok := state.TxnID(id); ok {
			r.Finished[id] = r.clock.Latest()
		}
	}
	return nil
}

// takeTxn registers one transaction of the predecessor, unless it is over. mu is held.
func (r *Replica) takeTxn(t *wire.HeldTxn) error {
	id, ok := state.TxnID(t.Id)
	if !ok {
		return base.Errorf(base.CodeCorrupt, "malformed transaction id %x", t.Id)
	}
	x := &txns.Txn{ID: id, Born: t.Born, Age: base.Timestamp(t.Age), Policy: lock.Policy(t.Policy), Timeout: time.Duration(t.TimeoutNs), Activity: txns.Activity{Last: time.Now()}, CRT: t.Crt}
	if t.Phase != uint32(txns.Active) {
		if over, err := r.takeProposed(x, t); err != nil || over {
			return err
		}
	}
	r.ByID[id] = x
	if err := r.TakeSpans(x, t.Shared, lock.Shared); err != nil {
		return err
	}
	if err := r.TakeSpans(x, t.Exclusive, lock.Exclusive); err != nil {
		return err
	}
	if x.Phase != txns.Active {
		r.LockTable.Ending(id, true)
	}
	return nil
}

// takeProposed restores a transaction that has been proposed. The log, which ends behind it, says
// what became of it. mu is held.
func (r *Replica) takeProposed(x *txns.Txn, t *wire.HeldTxn) (over bool, err error) {
	v := r.rep.Prepared[x.ID]
	var out state.Outcome
	if v == nil {
		if out, err = state.Recorded(&r.logged, x.ID); err != nil {
			return false, err
		}
		switch out.State {
		case wire.TxnState_ABORTED:
			return true, nil
		case wire.TxnState_UNKNOWN:
			return false, nil // it was not proposed after all: still active
		}
	}
	x.Phase, x.TS, x.Hi, x.Since = txns.Phase(t.Phase), base.Timestamp(t.Ts), base.Timestamp(t.Hi), x.Last
	for _, k := range t.Keys {
		x.Keys = append(x.Keys, k)
	}
	for _, s := range t.Handover {
		x.Handover = append(x.Handover, view.SpanOf(s))
	}
	if len(x.Keys) > 0 {
		r.Pending[x] = struct{}{}
	}
	if t.Slot {
		r.Slots[x] = struct{}{}
	}
	if v == nil {
		x.Index = r.applied.Load()
		go r.settleLate(x, out.TS)
		return false, nil
	}
	x.Phase, x.Ordered, x.Patches = txns.Prepared, v.Ordered, state.Patches(v.Writes)
	if len(t.Votes) > 0 {
		r.Notices[x.ID] = &txns.Notices{From: groupsOf(t.Votes), At: x.Last}
		go r.decideByVotes(x.ID)
	}
	return false, nil
}

// takeBound restores the slots below which a transaction has to commit. mu is held.
func (r *Replica) takeBound(x *txns.Txn, by [][]byte) error {
	for _, b := range by {
		id, _ := state.TxnID(b)
		p := r.ByID[id]
		if p == nil {
			out, err := state.Recorded(&r.logged, id)
			if err != nil {
				return err
			}
			if out.State != wire.TxnState_COMMITTED {
				continue
			}
			p = &txns.Txn{ID: id, Intent: txns.Intent{TS: out.TS}, Ending: txns.Ending{Ended: true}}
		}
		x.Bound.Add(p)
	}
	return nil
}

// lockPrepared takes the write locks of all prepared transactions that have none here: those of
// earlier terms. Their read locks are gone, which is what the upper bound of a vote is for. mu is
// held.
func (r *Replica) lockPrepared() error {
	rd := r.store.NewReader()
	defer rd.Close()
	for id, v := range r.rep.Prepared {
		if r.ByID[id] != nil {
			continue
		}
		now := time.Now()
		x := &txns.Txn{ID: id, Age: id.Start(), Activity: txns.Activity{Last: now},
			Intent: txns.Intent{Phase: txns.Prepared, Ordered: v.Ordered, TS: base.Timestamp(v.Lo), Since: now}}
		for _, w := range v.Writes {
			span, err := r.writeSpans(rd, w)
			if err != nil {
				return err
			}
			x.Keys = append(x.Keys, w.Key)
			if !span.IsPoint() {
				x.Handover = append(x.Handover, span)
			}
			if err := r.relock(x, v, w, span); err != nil {
				return err
			}
		}
		x.SortKeys()
		r.LockTable.Ending(id, true)
		r.ByID[id] = x
		if len(x.Keys) > 0 {
			r.Pending[x] = struct{}{}
		}
	}
	return nil
}

// relock takes the locks of one write of a vote. They cannot conflict: votes were cast under them.
// mu is held.
func (r *Replica) relock(x *txns.Txn, v *wire.Vote, w *wire.Write, span base.Span) error {
	if v.Slot != 0 {
		if w.Patch != nil {
			r.Slots[x], x.Patches = struct{}{}, state.Patches(v.Writes)
		}
		out, _, _, err := r.LockTable.Acquire(lock.Request{Txn: x.ID, Age: x.Age, Span: txns.InCRTTier(span), Mode: lock.Exclusive})
		if err != nil || out != lock.Granted {
			return base.Errorf(base.CodeCorrupt, "prepared cross-region transactions of group %v write %v both (%v)", r.id, span, err)
		}
	}
	if w.Patch != nil {
		return nil // others may have voted for other versions of the row
	}
	out, _, _, err := r.LockTable.Acquire(lock.Request{Txn: x.ID, Age: x.Age, Span: span, Mode: lock.Exclusive})
	if err != nil {
		return err
	}
	if out != lock.Granted {
		return base.Errorf(base.CodeCorrupt, "prepared transactions of group %v write %v both", r.id, span)
	}
	return nil
}
