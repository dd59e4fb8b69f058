package owner

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/evaluate"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// Patches are updates that a transaction with a slot leaves to the owner to evaluate at the slot
// (docs/protocol.md REL-9). The vote makes sure that the patch is defined over the row as it is,
// and logs the patch. Until the slot the region goes on reading and writing the row, and makes it
// nothing over which the patch would not be defined. Once the slot has come and the outcome is
// known, the owner applies the patch to the newest version below the slot, and logs the value with
// the decision.

// unlockPatched gives back the locks under which patches were found to be defined: from here on
// writers look for themselves (evaluate.Attempt.Spoiled). mu is held.
func (r *Replica) unlockPatched(x *txns.Txn, ws []*wire.Write) {
	for _, s := range evaluate.PatchedSpans(ws) {
		r.settle(r.LockTable.Unlock(x.ID, s))
	}
}

// values are what the patches of a vote make of their rows at its slot, once that has come.
func (r *Replica) values(ctx context.Context, id base.TxnID, term uint64, v *wire.Vote) ([][]byte, error) {
	slot := base.Timestamp(v.Slot)
	if err := r.untilSlot(ctx, slot); err != nil {
		return nil, err
	}
	keys := evaluate.PatchedSpans(v.Writes)
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
	for y := r.Writing(keys, slot, id); y != nil && !r.cfg.LateWriters; y = r.Writing(keys, slot, id) {
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
		value, defined, err := evaluate.ValueAt(rd, w, slot)
		if err != nil {
			return nil, err
		}
		if !defined {
			// Votes and writers see to it that this does not happen. The transaction has committed,
			// so it must come to an end here.
			r.stats.PatchesLost.Add(1)
			r.cfg.Logger.Error("an update is lost: at its slot it is not defined over its row", "group", r.id,
				"key", base.Key(w.Key), "slot", slot)
		}
		out = append(out, value)
	}
	r.stats.Patches.Add(int64(len(out)))
	return out, nil
}
