package owner

import (
	"testing"
	"testing/synctest"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/txns"
)

// REL-4: while a transaction waits for the outcome of a slot that bounds it, another slot may come
// to bound it, too. (Simulation, TestShippedUpdates, seed 7033: an update was lost.)
func TestBoundDuringTheWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		r, _ := newTwo(t).mustAdd(t, two[0])
		end := func(p *txns.Txn, aborted bool) {
			r.mu.Lock()
			p.Ended, p.Aborted = true, aborted
			close(p.Gone)
			r.mu.Unlock()
			synctest.Wait()
		}
		for _, aborts := range []bool{false, true} {
			x, p, q := &txns.Txn{}, &txns.Txn{Intent: txns.Intent{TS: 10}}, &txns.Txn{Intent: txns.Intent{TS: 20}}
			x.Bound.Add(p)
			over := running(func() error {
				r.mu.Lock()
				defer r.mu.Unlock()
				return r.keepBound(t.Context(), x, 30)
			})
			if err := over(); err != nil {
				t.Fatalf("the slot's outcome is not waited for: %v", *err)
			}
			r.mu.Lock()
			x.Bound.Add(q)
			r.mu.Unlock()
			end(p, true)
			if err := over(); err != nil {
				t.Fatalf("the outcome of the second slot is not waited for: %v", *err)
			}
			end(q, aborts)
			switch err := over(); {
			case err == nil:
				t.Fatal("it waits although both outcomes are known")
			case aborts && (*err != nil || x.Bound.Below != 0):
				t.Errorf("bound by nothing: %v, %v", *err, x.Bound)
			case !aborts && base.CodeOf(*err) != base.CodeAborted:
				t.Errorf("what it has read has been changed: %v", *err)
			}
		}
	})
}
