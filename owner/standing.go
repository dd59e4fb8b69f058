package owner

import (
	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/prepared"
	"github.com/godwitdb/godwit/owner/state"
)

// standing are the locks of prepared transactions, by the names under which they stand. mu is held.
func (r *Replica) standing() map[base.TxnID][]byte {
	if r.cfg.NoStanding {
		return nil
	}
	return r.rep.Standing
}

// stand has a transaction that is to stand once it has committed log records, in place of the
// writes that were evaluated under its locks (docs/protocol.md, XA). Slots that may commit over
// these locks are waited for, and later ones wait. propMu and mu are held.
func (e *evaluation) stand() error {
	id, ok := state.TxnID(e.q.Txn.GetPrepares())
	if !ok {
		return nil
	}
	e.x.Prepares = id
	locks, spans, err := e.r.LocksOf(e.x)
	if err != nil {
		return err
	}
	if e.blocker = e.r.SlotIn(e.x, spans); e.blocker != nil && !e.r.cfg.NoLasting {
		return errSpoils
	}
	if e.x.Bound.Below != 0 && !e.r.cfg.NoLasting {
		e.ts = base.MaxTimestamp
		return errBound
	}
	e.Writes, err = prepared.Records(e.r.id, id, locks, e.q.Writes)
	e.Handover = nil
	return err
}
