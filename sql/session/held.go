package session

import "github.com/godwitdb/godwit/kv"

// What a transaction holds in memory until it ends counts to the memory of the node's statements.
// What does not fit there goes to files.

// heldStep is by how much it grows before it is counted again, in bytes.
const heldStep = 64 << 10

// held is what is counted of a transaction.
type held struct {
	budget Budget // nil: nothing yet
	n      int64
}

// Account counts what the transaction holds. The caller calls it whenever it has written something.
func (t *Txn) Account() error {
	k, ok := t.KV.(kv.Holder)
	if !ok {
		return nil
	}
	now := k.Held() + t.inserted.held()
	if now < t.held.n+heldStep && now > t.held.n-heldStep {
		return nil
	}
	if t.held.budget == nil {
		t.held.budget = unbounded{}
		if t.Session.env != nil && t.Session.env.Memory != nil {
			t.held.budget = t.Session.env.Memory()
		}
	}
	if t.held.take(now) == nil {
		t.Session.Work.Kept(now)
		return nil
	}
	if err := k.Spill(); err != nil {
		return t.Fail(err)
	}
	return t.held.take(k.Held() + t.inserted.held())
}

// take makes what is counted so much.
func (h *held) take(now int64) error {
	if now <= h.n {
		h.budget.Shrink(h.n - now)
	} else if err := h.budget.Grow(now - h.n); err != nil {
		return err
	}
	h.n = now
	return nil
}

func (h *held) end() {
	if h.budget != nil {
		h.budget.Release()
	}
	*h = held{}
}
