package owner

import (
	"sync"
	"testing"
	"testing/synctest"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/owner/view"
	"github.com/godwitdb/godwit/wire"
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

func (h *told) Sees(g base.GroupID) bool { return h.Away(g) }

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

// REL-10: a vote counts where its entry is held, with all that it depends on, unless a promotion
// may have asked about the copy before. Told by message alone, it is committed here; the voter's
// region is lost, nobody has the vote, and the promoted group refuses it.
func TestVotesCountWhereTheyAreHeld(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := &told{}
		h.set = newTwo(t, func(c *Config) {
			c.Held, c.Groups = h, func() []base.GroupID { return []base.GroupID{two[0], two[1], base.DataGroup(2, two[1].Region())} }
		})
		h.set.mustAdd(t, two[0])
		b, _ := h.set.mustAdd(t, two[1])
		at := &wire.VoteAt{Index: 20, Incarnation: b.incarnation, Depends: 2000}
		wait := func(g base.GroupID, v *wire.VoteAt) func() *error {
			return running(func() error { return h.set.AwaitVote(t.Context(), g, v) })
		}
		refused := func(name string, end func() *error) {
			t.Helper()
			if err := end(); err == nil || base.CodeOf(*err) != base.CodeUnavailable {
				t.Errorf("%s: %v", name, err)
			}
		}
		refused("a group that votes here", wait(two[0], at))
		refused("a sibling without a copy", wait(two[1], at))
		h.set.cfg.Groups = func() []base.GroupID { return two[:] }
		refused("another incarnation", wait(two[1], &wire.VoteAt{Index: 20, Incarnation: b.incarnation + 1}))

		set := func(index, closed uint64) {
			b.applied.Store(index)
			b.closed.Store(closed)
			h.set.HeldChanged()
		}
		end := wait(two[1], at)
		for _, less := range [][2]uint64{{19, 2000}, {20, 1999}} {
			if set(less[0], less[1]); end() != nil {
				t.Errorf("a vote at entry 20 that depends on 2000 counts with %v here", less)
			}
		}
		if set(20, 2000); *end() != nil {
			t.Error("the copy has the vote and what it depends on")
		}
		h.set.Freeze(two[1], true)
		refused("a promotion has asked", wait(two[1], at))
		h.set.Freeze(two[1], false)
		if err := wait(two[1], at)(); err == nil || *err != nil {
			t.Errorf("the promotion was called off: %v", err)
		}
		b.applied.Store(0)
		h.set.cfg.VotesUnheld = true
		if err := wait(two[1], at)(); err == nil || *err != nil {
			t.Errorf("without the rule a vote counts that nobody holds: %v", err)
		}
	})
}
