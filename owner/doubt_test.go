package owner

import (
	"context"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/mechanism/lock"
	"github.com/godwitdb/godwit/owner/txns"
	"github.com/godwitdb/godwit/wire"
)

// TestUnknownOutcome: whoever meets a transaction whose outcome cannot be found out is told so four
// seconds after the vote, whether it waits for a lock or for the outcome; and nearly at once if it
// comes later. A lock of a transaction that is at work is waited for as long as the user wants.
func TestUnknownOutcome(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := leader(t)
		span := base.PointSpan(base.AppendUint64(base.IndexPrefix(1, base.MakeTableID(9, 1), 0, 0), 1))
		begin := func(n uint32) *txns.Txn {
			id := base.MakeTxnID(base.Timestamp(time.Now().UnixNano()), 1, n)
			r.mu.Lock()
			defer r.mu.Unlock()
			return r.Register(id, &wire.TxnMeta{Id: id[:]}, r.lead.Term, r.cfg.LockTimeout)
		}
		waits := func(f func() error) (time.Duration, base.Code) {
			began := time.Now()
			err := f()
			return time.Since(began), base.CodeOf(err)
		}
		locks := func(n uint32) (time.Duration, base.Code) {
			return waits(func() error {
				x := begin(n)
				x.Policy = lock.Detect
				x.Age = 1 // the oldest: nothing but time ends its wait
				_, err := r.lock(context.Background(), x, r.lead.Term, lock.Exclusive, span)
				r.mu.Lock()
				defer r.mu.Unlock()
				r.release(x, false)
				return err
			})
		}
		holder := begin(1)
		if _, err := r.lock(context.Background(), holder, r.lead.Term, lock.Exclusive, span); err != nil {
			t.Fatal(err)
		}
		if d, code := locks(2); code != base.CodeLockTimeout || d != r.cfg.LockTimeout {
			t.Errorf("a lock of a transaction at work: %v after %v", code, d)
		}
		r.mu.Lock()
		holder.Phase, holder.Since = txns.Prepared, time.Now()
		r.mu.Unlock()
		if d, code := locks(3); code != base.CodeUnavailable || d < r.cfg.EnterTimeout || d > r.cfg.EnterTimeout+detectLast {
			t.Errorf("a lock of a transaction in doubt: %v after %v", code, d)
		}
		if d, code := locks(4); code != base.CodeUnavailable || d > detectFirst {
			t.Errorf("a lock of a transaction that has been in doubt for long: %v after %v", code, d)
		}
		var patience *kv.Patience
		outcome := func() error {
			r.mu.Lock()
			defer r.mu.Unlock()
			patience = kv.NewPatience()
			return r.awaitEnd(kv.WithPatience(context.Background(), patience), holder)
		}
		if d, code := waits(outcome); code != base.CodeUnavailable || d != resolveAgain {
			t.Errorf("an outcome that has been unknown for long: %v after %v", code, d)
		}
		r.mu.Lock()
		holder.Since = time.Now()
		r.mu.Unlock()
		if d, code := waits(outcome); code != base.CodeUnavailable || d != r.cfg.EnterTimeout {
			t.Errorf("an outcome that is unknown: %v after %v", code, d)
		}
		if want := max(kv.ReachIn-r.cfg.EnterTimeout, 0); patience.Left() != want {
			t.Errorf("a statement that has waited %v in vain goes on for %v, not %v", r.cfg.EnterTimeout, patience.Left(), want)
		}
	})
}
