package txn

import (
	"context"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/wire"
)

// ofOneMoment makes sure that what was read fits together (REL-17): nothing of it is older than a
// slot that changes it, and something else as new as that. Only the groups that have named such a
// slot are asked whether its transaction has committed; then this one is aborted.
func (t *Txn) ofOneMoment(ctx context.Context) error {
	if t.db.cfg.TornReads {
		return nil
	}
	for _, g := range t.bounds.Passed(t.maxTS) {
		resp, err := t.read(ctx, &wire.ReadRequest{Group: uint32(g), Txn: &t.meta, LockTerm: t.lockTerm(g),
			Lock: uint32(kv.LockShared), Vouch: true, MinTs: uint64(max(t.maxTS, t.opened()))})
		if base.CodeOf(err) == base.CodeCanceled {
			return err
		} else if err != nil {
			return base.Errorf(base.CodeAborted, "what was read of group %v may have changed since: retry (%v)", g, err)
		}
		t.bounds.Add(g, base.Timestamp(resp.Below))
	}
	return nil
}
