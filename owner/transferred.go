package owner

import (
	"github.com/godwitdb/godwit/owner/lead"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// The transferred state: what a leader has only in memory, and sends to the target of a hand-over.
// What a table of transactions makes of it is in package txns.

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
	out := &wire.TransferredState{Index: t.Index, Committed: committed, Floor: uint64(r.heldTo()),
		Announced: uint64(l.Announced), Issued: uint64(l.Issued), Low: uint64(l.Low), Held: uint64(l.Held)}
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
	r.FailWaits(t.Err)
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

// takeTransferred registers the transactions of the predecessor, and brings to an end those that do
// not end by themselves. mu is held.
func (r *Replica) takeTransferred(h *wire.TransferredState) error {
	rest, err := r.Take(h, txns.Log{Group: &r.logged, Prepared: r.rep.Prepared, Applied: r.applied.Load(), Now: r.clock.Latest()})
	if err != nil {
		return err
	}
	for _, c := range rest.Committed {
		go r.settleLate(c.Txn, c.TS)
	}
	for _, id := range rest.Voted {
		go r.decideByVotes(id)
	}
	return nil
}
