package owner

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/view"
)

// told is what other regions hold of asynchronous groups, by the test's word.
type told struct {
	mu    sync.Mutex
	index uint64
	cut   base.Timestamp
	set   *Set
}

func (h *told) Async(base.ShardID) bool  { return true }
func (h *told) Confirmed() bool          { return true }
func (h *told) Away(g base.GroupID) bool { return g != two[0] }
func (h *told) say(i uint64, cut int64) {
	h.mu.Lock()
	h.index, h.cut = i, base.Timestamp(cut)
	h.mu.Unlock()
	h.set.HeldChanged()
	synctest.Wait()
}

func (h *told) HeldOf(base.GroupID) (uint64, base.Timestamp) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.index, h.cut
}

// AskHeld implements Held: what is asked for is said when the test says it.
func (h *told) AskHeld(base.GroupID, uint64, base.Timestamp) {}

// running runs f and says how it ended, or that it has not: nil.
func running(f func() error) func() *error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return func() *error {
		synctest.Wait()
		select {
		case err := <-done:
			return &err
		default:
			return nil
		}
	}
}

// REPL-1, REPL-1a, REPL-1c: what may be lost with a region is relied on elsewhere only when the
// region's cut has reached it, and not if the region has been promoted over meanwhile.
func TestAsynchronousRowsWaitForTheCut(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := &told{}
		h.set = newTwo(t, func(c *Config) { c.Held = h })
		a, _ := h.set.mustAdd(t, two[0])
		b, _ := h.set.mustAdd(t, two[1])
		// a row that a region has handed over at 100
		over := func(region base.RegionID) func() *error {
			return running(func() error {
				var c view.Arrivals
				a.beginArrivals(&c)
				c.Note(a.region, base.GroupIndex{Region: region, Index: 7}, 100)
				return a.awaitArrivals(t.Context(), &c)
			})
		}
		if end := over(1)(); end == nil || *end != nil {
			t.Errorf("a row that was never elsewhere: %v", end)
		}
		end := over(2)
		h.say(9, 99)
		if end() != nil {
			t.Error("a row that came above the cut is not waited for")
		}
		h.say(9, 100)
		if err := end(); err == nil || *err != nil {
			t.Errorf("the cut has reached the hand-over: %v", err)
		}
		h.say(9, 99)
		end = over(2)
		if end() != nil {
			t.Error("a row that came above the cut is not waited for")
		}
		h.set.Remove(two[1])
		again, _ := h.set.mustAdd(t, two[1])
		again.incarnation = b.incarnation + 1
		h.say(9, 1000)
		if err := end(); err == nil || base.CodeOf(*err) != base.CodeUnavailable {
			t.Errorf("the region that handed the row over was promoted over meanwhile: %v", err)
		}

		// A vote that binds others, of a transaction that has read up to 2000.
		vote := func(with base.GroupID) func() *error {
			return running(func() error { return a.voteHeld(t.Context(), []uint32{uint32(a.id), uint32(with)}, 20, 2000) })
		}
		if err := vote(base.DataGroup(3, 1))(); err == nil || *err != nil {
			t.Errorf("a vote within the asynchronous groups of a region: %v", err)
		}
		end = vote(two[1])
		for _, less := range [][2]int64{{19, 2000}, {20, 1999}} {
			h.say(uint64(less[0]), less[1])
			if end() != nil {
				t.Errorf("a vote at index 20 that rests on 2000 is told with %v held", less)
			}
		}
		h.say(20, 2000)
		if err := end(); err == nil || *err != nil {
			t.Errorf("the vote and what it rests on are held: %v", err)
		}

		// Replicas elsewhere say nothing above the cut.
		for _, r := range []*Replica{a, again} {
			r.closed.Store(3000)
		}
		if a.Closed() != 3000 || again.Closed() != 2000 {
			t.Errorf("closed at home up to %d, elsewhere up to %d, with a cut of 2000", a.Closed(), again.Closed())
		}
	})
}
