package owner

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/wire"
)

// bubble runs a test in virtual time. Pebble keeps channels in pools: two collections empty them,
// so that none goes into the bubble, nor out of it to the tests that follow.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	clear := func() { runtime.GC(); runtime.GC() }
	clear()
	defer clear()
	synctest.Test(t, f)
}

// two are the groups of a shard in a cluster of two regions.
var two = []base.GroupID{base.DataGroup(1, 1), base.DataGroup(1, 2)}

func newTwo(t *testing.T, tune ...func(*Config)) *Set {
	st, err := store.Open(store.Options{Dir: "db", FS: vfs.NewMem(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Self: 1, Store: st, Clock: clock.New(clock.NewWall(0)), Transport: nowhere{}, Directory: nowhere{},
		Facts: Facts{Groups: func() []base.GroupID { return two }}}
	for _, f := range tune {
		f(&cfg)
	}
	s := NewSet(cfg)
	t.Cleanup(func() { s.Close(); _ = st.Close() })
	return s
}

func (s *Set) mustAdd(t *testing.T, g base.GroupID) (*Replica, *quiet) {
	r, err := s.Add(g)
	if err != nil {
		t.Fatal(err)
	}
	q := &quiet{r: r}
	r.Attach(q)
	return r, q
}

// While a shard comes or goes, a node has replicas of some of its groups. It does not see what the
// others commit, so it has no consistency point: it reads and collects nothing there. (Simulation,
// seed 2136.)
func TestNoConsistencyPointWithoutAllGroups(t *testing.T) {
	s := newTwo(t)
	a, _ := s.mustAdd(t, two[0])
	at := a.clock.Latest()
	row := base.AppendInt64(base.IndexPrefix(1, base.MakeTableID(3000, 1), 0, 0), 1)
	incomplete := func(when string) {
		t.Helper()
		a.closed.Store(uint64(at))
		if s.Holds(1) || s.Closed(1) != 0 {
			t.Errorf("%s: holds %v, closed %s", when, s.Holds(1), s.Closed(1))
		}
		if err := s.EnsureClosed(t.Context(), 1, at); base.CodeOf(err) != base.CodeUnavailable {
			t.Errorf("%s: closed up to %s: %v", when, at, err)
		}
		if _, err := a.ReadLocal(t.Context(), &wire.ReadRequest{ReadTs: uint64(at),
			Spans: []*wire.Span{{Start: row}}}); base.CodeOf(err) != base.CodeTooLate {
			t.Errorf("%s: a local read says %v", when, err)
		}
		if _, ok := s.Locate(row); ok {
			t.Errorf("%s: a key's owner is taken from the local replica", when)
		}
	}
	incomplete("before the second group came")
	b, _ := s.mustAdd(t, two[1])
	if s.Closed(1) != 0 {
		t.Errorf("the second group has closed nothing yet, the shard %s", s.Closed(1))
	}
	b.closed.Store(uint64(at.Prev()))
	if !s.Holds(1) || s.Closed(1) != at.Prev() {
		t.Errorf("with both: holds %v, closed %s", s.Holds(1), s.Closed(1))
	}
	if _, err := a.ReadLocal(t.Context(), &wire.ReadRequest{ReadTs: uint64(at.Prev()),
		Spans: []*wire.Span{{Start: row}}}); err != nil {
		t.Error(err)
	}
	s.Remove(two[1])
	incomplete("after the second group left")
}

// A leader that cannot come into service, because its node lacks another group that its log relies
// on, can be relieved: it holds no lease. If that fails it tries again, once. (Simulation, seed
// 2033.)
func TestLeaderThatCannotServeIsRelieved(t *testing.T) {
	bubble(t, func(t *testing.T) {
		s := newTwo(t)
		a, q := s.mustAdd(t, two[0])
		a.rep.Join[2] = 5
		a.Leading(1, 1)
		time.Sleep(10 * time.Second)
		relieve := func() {
			t.Helper()
			done := make(chan error, 1)
			a.Revoking(1, 2, func(_ bool, err error) { done <- err })
			if err := <-done; err != nil {
				t.Fatalf("it cannot be relieved: %v", err)
			}
		}
		for range 5 { // each time the target does not take over
			relieve()
			time.Sleep(time.Second)
			a.Leading(1, 0)
		}
		relieve()
		b, _ := s.mustAdd(t, two[1])
		b.applied.Store(5)
		time.Sleep(10 * time.Second)
		if q.waiting() != 0 {
			t.Fatal("a leader that is being relieved asks for a lease")
		}
		a.Leading(1, 0)
		time.Sleep(time.Second)
		synctest.Wait()
		if n := q.waiting(); n != 1 {
			t.Fatalf("%d leases are asked for", n)
		}
		// From now on a successor would have to wait for that lease: it is to come into service
		// first.
		done := make(chan error, 1)
		a.Revoking(1, 2, func(_ bool, err error) { done <- err })
		if err := <-done; base.CodeOf(err) != base.CodeNotLeader {
			t.Errorf("relieved with a lease in flight: %v", err)
		}
		q.apply()
		synctest.Wait()
		if _, ok := a.Serving(); !ok {
			t.Error("it does not serve with all groups here")
		}
	})
}
