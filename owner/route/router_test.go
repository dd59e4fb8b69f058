package route

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// world is other nodes, and what is believed of their leads.
type world struct {
	mu      sync.Mutex
	leaders map[base.GroupID]base.NodeID
	// answers of a node; nil, or a node that is not there, never answers.
	answers map[base.NodeID]func(g base.GroupID) *wire.ResolveResponse
	asked   map[base.NodeID]int
}

func (w *world) Leader(g base.GroupID) base.NodeID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.leaders[g]
}

func (w *world) Replicas(base.GroupID) []base.NodeID { return nil }

func (w *world) lead(g base.GroupID, n base.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.leaders[g] = n
}

func (w *world) Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp wan.Msg) error {
	w.mu.Lock()
	w.asked[to]++
	answer := w.answers[to]
	w.mu.Unlock()
	time.Sleep(50 * time.Millisecond)
	if answer == nil {
		<-ctx.Done()
		return &wan.CallError{Base: base.Errorf(base.CodeCanceled, "%v", ctx.Err()), Ran: true}
	}
	if kind == wire.KindResolve {
		*resp.(*wire.ResolveResponse) = *answer(base.GroupID(req.(*wire.ResolveRequest).Group))
	}
	return nil
}

// play runs f beside a router of node 9, whose Watch runs as in a node.
func play(t *testing.T, f func(t *testing.T, w *world, rt *Router)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{leaders: map[base.GroupID]base.NodeID{}, asked: map[base.NodeID]int{},
			answers: map[base.NodeID]func(base.GroupID) *wire.ResolveResponse{}}
		rt := &Router{Self: 9, Caller: w, Directory: w, Local: func(base.GroupID) Server { return nil }}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			for ctx.Err() == nil {
				time.Sleep(100 * time.Millisecond)
				rt.Watch(time.Now())
			}
		}()
		f(t, w, rt)
		cancel()
		<-done
	})
}

func says(s wire.TxnState, ts base.Timestamp) func(base.GroupID) *wire.ResolveResponse {
	return func(base.GroupID) *wire.ResolveResponse {
		return &wire.ResolveResponse{State: s, Ts: uint64(ts), Hi: uint64(ts) + 100}
	}
}

var (
	one = base.DataGroup(1, 1)
	two = base.DataGroup(2, 1)
)

// TestOutcomeDecides: one group that knows the outcome is enough, and one that does not answer
// holds nobody up; where no answer decides, all are waited for.
func TestOutcomeDecides(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  func(base.GroupID) *wire.ResolveResponse // the second is silent
		commit bool
		ts     base.Timestamp
		fails  bool
	}{
		{name: "committed, silent", first: says(wire.TxnState_COMMITTED, 70), commit: true, ts: 70},
		{name: "aborted, silent", first: says(wire.TxnState_ABORTED, 0)},
		{name: "prepared, silent", first: says(wire.TxnState_PREPARED, 70), fails: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world, rt *Router) {
				w.leaders[one], w.leaders[two] = 1, 2
				w.answers[1] = c.first
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				ts, commit, err := rt.Outcome(ctx, base.TxnID{1}, []base.GroupID{one, two})
				if commit != c.commit || ts != c.ts || (err != nil) != c.fails {
					t.Errorf("outcome %d %v %v", ts, commit, err)
				}
				if took := time.Since(began); !c.fails && took != 50*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				synctest.Wait()
			})
		})
	}
}

// TestSilentLeaderIsLeft: what was asked of a leader that is silent is asked of its successor, at
// once if it may be repeated; a commit is left to the old leader for as long as that one would take
// to answer, and its outcome is unknown then.
func TestSilentLeaderIsLeft(t *testing.T) {
	for _, grace := range []time.Duration{0, 300 * time.Millisecond, 1400 * time.Millisecond} {
		play(t, func(t *testing.T, w *world, rt *Router) {
			leaveSilent(t, w, rt, grace)
		})
	}
}

func leaveSilent(t *testing.T, w *world, rt *Router, grace time.Duration) {
	rt.Grace = func(_ base.NodeID, again bool) time.Duration {
		if again {
			return 200 * time.Millisecond
		}
		return grace
	}
	if grace == 0 { // nothing is known of the paths
		rt.Grace, grace = nil, time.Second
	}
	w.leaders[one] = 1
	w.answers[2] = says(wire.TxnState_COMMITTED, 70)
	began := time.Now()
	time.AfterFunc(time.Second, func() { w.lead(one, 2) })
	resp, err := rt.Resolve(t.Context(), &wire.ResolveRequest{Group: uint32(one)})
	if err != nil || resp.State != wire.TxnState_COMMITTED {
		t.Fatalf("resolve: %v, %v", resp, err)
	}
	if took := time.Since(began); took > 1500*time.Millisecond {
		t.Errorf("it took %v, the new leader was known after 1 s", took)
	}

	w.lead(one, 1)
	began = time.Now()
	time.AfterFunc(time.Second, func() { w.lead(one, 2) })
	if _, err := rt.Commit(t.Context(), &wire.CommitRequest{Group: uint32(one)}); err == nil || NeverRan(err) {
		t.Errorf("commit: %v", err)
	}
	if took := time.Since(began) - time.Second; took < grace || took > grace+500*time.Millisecond {
		t.Errorf("a commit was given up %v after the new leader was known, want %v", took, grace)
	}
	if w.asked[2] != 1 {
		t.Errorf("the new leader was asked %d times, a commit of unknown outcome among them", w.asked[2])
	}
}

// TestReturningLeader: a leader that leads again before a request to it is given up may answer it.
func TestReturningLeader(t *testing.T) {
	play(t, func(t *testing.T, w *world, rt *Router) {
		w.leaders[one] = 1
		for i := range 5 {
			at := time.Duration(i) * 500 * time.Millisecond
			time.AfterFunc(at, func() { w.lead(one, 2) })
			time.AfterFunc(at+150*time.Millisecond, func() { w.lead(one, 1) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := rt.Resolve(ctx, &wire.ResolveRequest{Group: uint32(one)})
		if err == nil || w.asked[1] != 1 || w.asked[2] != 0 {
			t.Errorf("err %v, asked %v", err, w.asked)
		}
	})
}
