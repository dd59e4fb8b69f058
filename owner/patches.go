package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv/patch"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
)

// Patches are updates that a transaction with a slot leaves to the owner to evaluate at the slot
// (docs/protocol.md REL-9). The vote makes sure that the patch is defined over the row as it is,
// and logs the patch. Until the slot the region goes on reading and writing the row, and makes it
// nothing over which the patch would not be defined. Once the slot has come and the outcome is
// known, the owner applies the patch to the newest version below the slot, and logs the value with
// the decision.

// patched is what is to be logged of a write with a patch: a vote for a slot has only to know that
// it is defined over the row.
func (e *evaluation) patched(w *wire.Write, p *view.Place, there bool) (*wire.Write, error) {
	if there {
		if value, ok := patch.Apply(w.Patch, p.V.Value); ok && e.q.Slot != 0 {
			return w, nil
		} else if ok {
			return &wire.Write{Kind: w.Kind, Key: w.Key, Value: value, Label: w.Label}, nil
		}
	}
	return nil, base.Errorf(base.CodeAborted, "transaction %v updates %v, which has been changed since: retry", e.q.Txn.Id, base.Key(w.Key))
}

// patchedSpans are the rows that a commit patches.
func patchedSpans(ws []*wire.Write) (out []base.Span) {
	for _, w := range ws {
		if w.Patch != nil {
			out = append(out, base.Span{Start: w.Key})
		}
	}
	return out
}

// unlockPatched gives back the locks under which patches were found to be defined: from here on
// writers look for themselves (spoiled). mu is held.
func (r *Replica) unlockPatched(x *txns.Txn, ws []*wire.Write) {
	for _, s := range patchedSpans(ws) {
		r.settle(r.LockTable.Unlock(x.ID, s))
	}
}

// spoiled finds a transaction with a slot whose patch would not be defined over what e writes, and
// moves e off slots with such patches: no two versions of a row have one timestamp, and an interval
// of timestamps does not contain a slot. mu is held.
func (r *Replica) spoiled(x *txns.Txn, e *evaluation) *txns.Txn {
	for again := true; again; {
		again = false
		for p := range r.Slots {
			if len(p.Patches) == 0 || p == x {
				continue
			}
			moved, spoils := r.spoils(e, p)
			if spoils {
				return p
			}
			again = again || moved
		}
	}
	return nil
}

// spoils reports whether e would leave a patch of p undefined. moved: e has been moved off the slot
// of p. mu is held.
func (r *Replica) spoils(e *evaluation, p *txns.Txn) (moved, spoils bool) {
	for _, w := range e.writes {
		pt := p.Patches[string(w.Key)]
		if pt == nil {
			continue
		}
		if e.ts == p.TS {
			e.ts, moved = e.ts.Next(), true
		}
		if e.ts < p.TS && (e.hi == 0 || e.hi > p.TS) && e.q.Prepare {
			e.hi = p.TS
		}
		switch {
		case w.Move != 0 || w.Kind == wire.WriteKind_MOVE || r.handsOver(w):
			return moved, true // it takes the row elsewhere, or logs the value that it has now
		case e.ts > p.TS:
		case w.Kind == wire.WriteKind_DELETE:
			return moved, true
		default:
			if _, ok := patch.Apply(pt, w.Value); !ok {
				return moved, true
			}
		}
	}
	return moved, false
}

// values are what the patches of a vote make of their rows at its slot, once that has come.
func (r *Replica) values(ctx context.Context, id base.TxnID, term uint64, v *wire.Vote) ([][]byte, error) {
	slot := base.Timestamp(v.Slot)
	if err := r.untilSlot(ctx, slot); err != nil {
		return nil, err
	}
	keys := patchedSpans(v.Writes)
	// From here on no commit gets a timestamp below the slot; those that have one are waited for.
	r.propMu.Lock()
	r.mu.Lock()
	if err := r.mayPropose(term); err != nil {
		r.mu.Unlock()
		r.propMu.Unlock()
		return nil, err
	}
	r.lead.Floor = max(r.lead.Floor, slot)
	r.propMu.Unlock()
	for y := r.Writing(keys, slot, id); y != nil; y = r.Writing(keys, slot, id) {
		if err := r.awaitEnd(ctx, y); err != nil {
			r.mu.Unlock()
			return nil, err
		}
	}
	err := r.mayPropose(term)
	r.mu.Unlock()
	if err != nil {
		return nil, err
	}
	rd := r.store.NewReader()
	defer rd.Close()
	var out [][]byte
	for _, w := range v.Writes {
		if w.Patch == nil {
			continue
		}
		value, err := r.valueAt(rd, w, slot)
		if err != nil {
			return nil, err
		}
		out = append(out, value)
	}
	r.stats.Patches.Add(int64(len(out)))
	return out, nil
}

// valueAt is what the patch makes of its row as of just below the slot.
func (r *Replica) valueAt(rd *store.Reader, w *wire.Write, slot base.Timestamp) ([]byte, error) {
	old, ok, err := rd.Get(w.Key, slot.Prev())
	if err != nil {
		return nil, err
	}
	if ok && !old.Tombstone {
		if value, ok := patch.Apply(w.Patch, old.Value); ok {
			return value, nil
		}
	}
	// Votes and writers see to it that this does not happen. The transaction has committed, so it
	// must come to an end here.
	r.stats.PatchesLost.Add(1)
	r.cfg.Logger.Error("an update is lost: at its slot it is not defined over its row", "group", r.id, "key", base.Key(w.Key), "slot", slot)
	return nil, nil
}
