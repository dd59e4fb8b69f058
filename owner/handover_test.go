package owner

import (
	"bytes"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/lock"
	"github.com/godwitdb/godwit/wire"
)

// TestHeritageIsBounded: what is handed over has a bound. Below it every open transaction goes on with its locks; beyond it those with the
// most locks abort, and what has voted is handed over all the same.
func TestHeritageIsBounded(t *testing.T) {
	wide := bytes.Repeat([]byte("w"), 4000)
	for name, c := range map[string]struct {
		txns, locks int
		goOn        int // of the active ones
	}{
		"below":  {9, 100, 9},  // 4,000,000 bytes of keys with those of the voter, and a little more
		"beyond": {10, 100, 9}, // 4,400,000
		"far":    {10, 900, 1},
		"huge":   {10, 2000, 0}, // each is too large
		"none":   {0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			r, _ := leader(t)
			var active []base.TxnID
			add := func(seq, locks int) *txnState {
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
				active = append(active, add(i, c.locks).id)
			}
			small := add(100, 1).id
			voter := add(101, 100)
			voter.phase = prepared
			h := &handing{to: 2, term: 1, index: 7, err: base.Errorf(base.CodeNotLeader, "gone")}
			r.mu.Lock()
			r.handed = h
			out := r.stopFor(h)
			r.mu.Unlock()
			if out.Index != 7 {
				t.Errorf("index %d", out.Index)
			}

			heir, _ := leader(t)
			heir.lead.term = 2
			heir.mu.Lock()
			defer heir.mu.Unlock()
			heir.rep.prepared[voter.id] = &wire.Vote{}
			if err := heir.takeLocks(out); err != nil {
				t.Fatal(err)
			}
			if x := heir.txns[voter.id]; x == nil || x.phase != prepared || heir.locks.Count(voter.id) != 100 {
				t.Error("what has voted was not handed over")
			}
			goOn := 0
			for _, id := range active {
				x, err := heir.admit(&wire.TxnMeta{Id: id[:]}, 1)
				switch {
				case err == nil && heir.locks.Count(x.id) == c.locks:
					goOn++
				case err == nil:
					t.Errorf("%v goes on with %d of %d locks", id, heir.locks.Count(x.id), c.locks)
				case base.CodeOf(err) != base.CodeAborted:
					t.Errorf("%v: %v", id, err)
				}
			}
			if goOn != c.goOn {
				t.Errorf("%d of %d transactions go on, want %d", goOn, c.txns, c.goOn)
			}
			if _, err := heir.admit(&wire.TxnMeta{Id: small[:]}, 1); err != nil {
				t.Errorf("the one with a single lock does not go on: %v", err)
			}
		})
	}
}
