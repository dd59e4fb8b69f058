package owner

import (
	"bytes"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// TestTransferredStateIsBounded: what is handed over has a bound. Below it every open transaction
// goes on with its locks; beyond it those with the most locks abort, and what has voted is handed
// over all the same.
func TestTransferredStateIsBounded(t *testing.T) {
	wide := bytes.Repeat([]byte("w"), 4000)
	for name, c := range map[string]struct {
		txns, locks int
		goOn        int // of the active ones
	}{
		// 4,000,000 bytes of keys with those of the voter, and a little more
		"below":  {9, 100, 9},
		"beyond": {10, 100, 9}, // 4,400,000
		"far":    {10, 900, 1},
		"huge":   {10, 2000, 0}, // each is too large
		"none":   {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := leader(t)
			var active []base.TxnID
			add := func(seq, locks int) *txns.Txn {
				id := base.MakeTxnID(r.clock.Now(), 1, uint32(seq))
				r.mu.Lock()
				x, err := r.admit(&wire.TxnMeta{Id: id[:]}, 0)
				r.mu.Unlock()
				if err != nil {
					t.Fatal(err)
				}
				for i := range locks {
					key := append(bytes.Clone(metaRow), byte(seq), byte(i>>8), byte(i))
					if _, err := r.lock(t.Context(), x, 1, lock.Exclusive, base.Span{Start: append(key, wide...)}); err != nil {
						t.Fatal(err)
					}
				}
				return x
			}
			for i := range c.txns {
				active = append(active, add(i, c.locks).ID)
			}
			small := add(100, 1).ID
			voter := add(101, 100)
			voter.Phase = txns.Prepared
			h := r.newTransfer(2, 1)
			h.Index = 7
			r.mu.Lock()
			out := r.transferredState(h, true)
			r.mu.Unlock()
			if out.Index != 7 {
				t.Errorf("index %d", out.Index)
			}

			target, _ := leader(t)
			target.lead.Term = 2
			target.mu.Lock()
			defer target.mu.Unlock()
			target.rep.Prepared[voter.ID] = &wire.Vote{}
			if err := target.takeTransferred(out); err != nil {
				t.Fatal(err)
			}
			if x := target.ByID[voter.ID]; x == nil || x.Phase != txns.Prepared || target.LockTable.Count(voter.ID) != 100 {
				t.Error("what has voted was not handed over")
			}
			goOn := 0
			for _, id := range active {
				x, err := target.admit(&wire.TxnMeta{Id: id[:]}, 1)
				switch {
				case err == nil && target.LockTable.Count(x.ID) == c.locks:
					goOn++
				case err == nil:
					t.Errorf("%v goes on with %d of %d locks", id, target.LockTable.Count(x.ID), c.locks)
				case base.CodeOf(err) != base.CodeAborted:
					t.Errorf("%v: %v", id, err)
				}
			}
			if goOn != c.goOn {
				t.Errorf("%d of %d transactions go on, want %d", goOn, c.txns, c.goOn)
			}
			if _, err := target.admit(&wire.TxnMeta{Id: small[:]}, 1); err != nil {
				t.Errorf("the one with a single lock does not go on: %v", err)
			}
		})
	}
}
