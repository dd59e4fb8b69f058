package txn

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/owner/homing"
)

// pairing is a policy that knows which row is used with which, and takes both home at once if moves
// is set.
type pairing struct {
	with  map[string]base.Key
	moves bool
	told  chan homing.Access
}

func (p *pairing) Accessed(a homing.Access) (v homing.Verdict) {
	if a.Write && a.Txn != (base.TxnID{}) {
		select {
		case p.told <- a:
		default:
		}
	}
	if k := p.with[string(a.Key)]; k != nil && a.From != a.Home {
		v.Along = []base.Key{k}
		if p.moves {
			v.To, v.With, v.Reason = a.From, []base.Key{k}, []byte("why")
		}
	}
	return v
}

func (p *pairing) Moved(homing.Move) {}

// TestAlong: the row that is mostly used next comes with the one that was asked for, under the
// transaction's lock: its own use costs no trip, is told to the policy, and takes it home with the
// first one's move.
func TestAlong(t *testing.T) {
	for _, moves := range []bool{false, true} {
		a, b := key(1, 1, 1, "a"), key(1, 1, 1, "b")
		p := &pairing{with: map[string]base.Key{string(a): b}, moves: moves, told: make(chan homing.Access, 100)}
		bubble(t, 3, 1, func(t *testing.T, c *cluster) {
			put(t, c.db(1), a, "a1", b, "b1")
			time.Sleep(time.Second)
			for len(p.told) > 0 {
				<-p.told
			}
			update := func(x kv.Txn, k base.Key, old, new string) {
				t.Helper()
				rows, err := x.Get(ctx(t), []base.Key{k}, kv.LockExclusive)
				must(t, err)
				if string(rows[0].Value) != old {
					t.Errorf("%v reads %q, want %s", k, rows[0].Value, old)
				}
				x.Put(k, []byte(new), 0)
				if rows[0].Advice != 0 {
					x.Move(k, rows[0].Advice, kv.MoveOptions{Soft: true})
				}
			}
			if n := hopsOf(t, c.db(2), kv.Options{}, func(x kv.Txn) error {
				update(x, a, "a1", "a2")
				update(x, b, "b1", "b2")
				return nil
			}); n != 6 {
				t.Errorf("updates of two rows of another region took %d hops, want 6: one trip, the commit's, its quorum", n)
			}
			var heard []base.Key
			for len(p.told) > 0 {
				heard = append(heard, (<-p.told).Key.Clone())
			}
			if !slices.ContainsFunc(heard, func(k base.Key) bool { return bytes.Equal(k, b) }) {
				t.Errorf("the policy heard of %v only", heard)
			}
			time.Sleep(time.Second)
			want := base.RegionID(1)
			if moves {
				want = 2
			}
			if x, y := homeOf(t, c.db(1), a), homeOf(t, c.db(1), b); x != want || y != want {
				t.Errorf("the rows are at home in %d and %d, want %d", x, y, want)
			}
			// Whoever has it locked keeps it, and nobody waits for it who did not ask.
			x := c.db(1).Begin(kv.Options{})
			defer x.Rollback(ctx(t))
			_, err := x.Get(ctx(t), []base.Key{b}, kv.LockExclusive)
			must(t, err)
			begin := time.Now()
			y := c.db(3).Begin(kv.Options{})
			_, err = y.Get(ctx(t), []base.Key{a}, kv.LockExclusive)
			must(t, err)
			if d := time.Since(begin); d > 3*2*oneWay {
				t.Errorf("a read of the other row waited %v", d)
			}
			y.Rollback(ctx(t))
			must(t, justErr(x.Commit(ctx(t))))
			// A transaction that never asks for the row leaves it as it is.
			if n := hopsOf(t, c.db(3), kv.Options{}, func(x kv.Txn) error { update(x, a, "a2", "a3"); return nil }); n > 8 {
				t.Errorf("the update of one row took %d hops", n)
			}
			time.Sleep(time.Second)
			if v := get(t, c.db(2), a) + get(t, c.db(2), b); v != "a3b2" {
				t.Errorf("read %s", v)
			}
		}, func(c *cluster) { c.oc = func(o *owner.Config) { o.Homes = p } })
	}
}

func justErr[T any](_ T, err error) error { return err }
