package session

import (
	"errors"
	"testing"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
)

// holding is a transaction that holds what it is told, or files of it.
type holding struct {
	kv.Txn
	held, least int64
}

func (h *holding) Held() int64 { return h.held }

func (h *holding) Spill() error {
	h.held = min(h.held, h.least)
	return nil
}

// sparse is a budget of limit bytes.
type sparse struct{ used, limit int64 }

func (s *sparse) Grow(n int64) error {
	if s.used+n > s.limit {
		return errors.New("no memory")
	}
	s.used += n
	return nil
}

func (s *sparse) Shrink(n int64) { s.used -= n }
func (s *sparse) Release()       { s.used = 0 }

// TestHeldIsCounted: what a transaction holds is counted until it ends; what does not fit goes to
// files, and what cannot go there is an error.
func TestHeldIsCounted(t *testing.T) {
	budget := &sparse{limit: 1 << 20}
	s := &Session{env: &Env{Memory: func() Budget { return budget }}}
	k := &holding{Txn: memkv.New(1, "eu").Gateway(1).Begin(kv.Options{}), least: 100_000}
	tx := NewTxnOver(s, k)
	step := func(held, counted int64) {
		t.Helper()
		k.held = held
		if err := tx.Account(); err != nil || budget.used != counted {
			t.Fatalf("%d bytes are counted of %d, want %d: %v", budget.used, held, counted, err)
		}
	}
	step(1000, 0) // little is not worth it
	step(500_000, 500_000)
	step(500_500, 500_000)
	step(2_000_000, 100_000)
	step(900_000, 900_000)
	step(200_000, 200_000)
	if s.Work.Memory != 900_000 {
		t.Errorf("the statement held %d bytes at most", s.Work.Memory)
	}
	k.held, k.least = 3_000_000, 3_000_000
	if err := tx.Account(); err == nil || budget.used != 200_000 {
		t.Errorf("%d bytes are counted, %v", budget.used, err)
	}
	tx.Rollback()
	if budget.used != 0 {
		t.Errorf("%d bytes are left", budget.used)
	}
}
