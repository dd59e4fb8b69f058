package owner_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/clock"
	"github.com/godwitdb/godwit/mechanism/store"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/owner"
	"github.com/godwitdb/godwit/wire"
)

// phone is a network in which each node has one answer, and that notes who was asked.
type phone struct {
	mu     sync.Mutex
	asked  []base.NodeID
	answer map[base.NodeID]func(ctx context.Context, resp *wire.CommitResponse) error
}

func (p *phone) Handle(wire.Kind, wan.Handler) {}

func (p *phone) Send(base.NodeID, wire.Kind, wan.Msg) error { return nil }

func (p *phone) Call(ctx context.Context, to base.NodeID, _ wire.Kind, _, resp wan.Msg) error {
	p.mu.Lock()
	p.asked = append(p.asked, to)
	f := p.answer[to]
	p.mu.Unlock()
	out := &wire.CommitResponse{}
	if err := f(ctx, out); err != nil {
		return err
	}
	body, err := out.MarshalVT()
	if err != nil {
		return err
	}
	return resp.UnmarshalVT(body)
}

// book says who leads and who has replicas.
type book struct {
	leader   base.NodeID
	replicas []base.NodeID
	moved    atomic.Uint32 // another leader since
}

func (b *book) Leader(base.GroupID) base.NodeID {
	if n := b.moved.Load(); n != 0 {
		return base.NodeID(n)
	}
	return b.leader
}

func (b *book) Replicas(base.GroupID) []base.NodeID { return b.replicas }

// The answers of nodes. A commit must not be sent again unless it certainly had no effect.
func answers(code base.Code, hint base.NodeID) func(context.Context, *wire.CommitResponse) error {
	return func(_ context.Context, resp *wire.CommitResponse) error {
		if code != base.CodeOther {
			resp.Status = &wire.Status{Code: uint32(code), Msg: "scripted", Node: uint32(hint)}
		}
		return nil
	}
}

func fails(ran bool) func(context.Context, *wire.CommitResponse) error {
	return func(context.Context, *wire.CommitResponse) error {
		return &wan.CallError{Base: base.Errorf(base.CodeUnavailable, "the line is dead"), Ran: ran}
	}
}

func silent(ctx context.Context, _ *wire.CommitResponse) error {
	<-ctx.Done()
	return &wan.CallError{Base: base.Errorf(base.CodeCanceled, "no answer"), Ran: true, Cause: ctx.Err()}
}

func newRouter(t *testing.T, p *phone, b *book) *owner.Set {
	st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
	if err != nil {
		t.Fatal(err)
	}
	s := owner.NewSet(owner.Config{Self: 1, Store: st, Clock: clock.New(clock.NewWall(0)), Transport: p, Directory: b})
	t.Cleanup(func() {
		s.Close()
		_ = st.Close()
	})
	return s
}

// TestRouter: a request goes to the leader that is known, follows hints, tries the replicas in
// turn, and is repeated only where that does no harm.
func TestRouter(t *testing.T) {
	ok, notLeader := answers(base.CodeOther, 0), answers(base.CodeNotLeader, 0)
	type nodes map[base.NodeID]func(context.Context, *wire.CommitResponse) error
	for name, c := range map[string]struct {
		book  *book
		nodes nodes
		reads bool // the same as a read, which may run twice
		asked []base.NodeID
		code  base.Code // of the error, or of the answer's status
		err   bool      // the request did not get there
		ran   bool      // with err: it may have had an effect
	}{
		"leader known": {book: &book{leader: 2}, nodes: nodes{2: ok}, asked: []base.NodeID{2}},
		"hint": {book: &book{leader: 2}, nodes: nodes{2: answers(base.CodeNotLeader, 3), 3: ok},
			asked: []base.NodeID{2, 3}},
		"hints in circles": {book: &book{leader: 2}, nodes: nodes{2: answers(base.CodeNotLeader, 3),
			3: answers(base.CodeNotLeader, 2)}, code: base.CodeUnavailable, err: true},
		"replicas in turn": {book: &book{replicas: []base.NodeID{2, 3, 4}},
			nodes: nodes{2: notLeader, 3: notLeader, 4: ok}, asked: []base.NodeID{2, 3, 4}},
		"not ready": {book: &book{leader: 2, replicas: []base.NodeID{2, 3}},
			nodes: nodes{2: answers(base.CodeUnavailable, 0), 3: ok}, asked: []base.NodeID{2, 2, 2, 2, 2, 3}},
		"nobody known": {book: &book{}, code: base.CodeUnavailable, err: true},
		"refused by owner": {book: &book{leader: 2}, nodes: nodes{2: answers(base.CodeAborted, 0)},
			asked: []base.NodeID{2}, code: base.CodeAborted},
		"ambiguous": {book: &book{leader: 2}, nodes: nodes{2: answers(base.CodeAmbiguous, 0)},
			asked: []base.NodeID{2}, code: base.CodeAmbiguous},
		"overloaded": {book: &book{leader: 2}, nodes: nodes{2: answers(base.CodeOverloaded, 0)},
			asked: []base.NodeID{2}, code: base.CodeOverloaded},
		"never sent": {book: &book{leader: 2, replicas: []base.NodeID{2, 3}},
			nodes: nodes{2: fails(false), 3: ok}, asked: []base.NodeID{2, 2, 2, 2, 2, 3}},
		"answer lost": {book: &book{leader: 2}, nodes: nodes{2: fails(true)}, asked: []base.NodeID{2},
			code: base.CodeUnavailable, err: true, ran: true},
		"read, answer lost": {book: &book{leader: 2, replicas: []base.NodeID{2, 3}},
			nodes: nodes{2: fails(true), 3: ok}, reads: true,
			asked: []base.NodeID{2, 2, 2, 2, 2, 3}},
		"no answer": {book: &book{leader: 2}, nodes: nodes{2: silent}, asked: []base.NodeID{2},
			code: base.CodeCanceled, err: true, ran: true},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				p := &phone{answer: c.nodes}
				rt := newRouter(t, p, c.book).Router()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				g := base.DataGroup(1, 1)
				var err error
				if c.reads {
					_, err = rt.Resolve(ctx, &wire.ResolveRequest{Group: uint32(g)})
				} else {
					var resp *wire.CommitResponse
					if resp, err = rt.Commit(ctx, &wire.CommitRequest{Group: uint32(g)}); err == nil {
						if got := base.CodeOf(owner.ErrorOf(resp.Status)); got != c.code {
							t.Errorf("answered %v, want %v", got, c.code)
						}
					}
				}
				if (err != nil) != c.err {
					t.Fatalf("%v after %v", err, p.asked)
				}
				if c.err && base.CodeOf(err) != c.code {
					t.Errorf("%v, want %v", err, c.code)
				}
				var call *wan.CallError
				if c.err && (!errors.As(err, &call) || call.Ran != c.ran) {
					t.Errorf("it may have run: want %v: %#v", c.ran, err)
				}
				if c.asked != nil && fmt.Sprint(p.asked) != fmt.Sprint(c.asked) {
					t.Errorf("asked %v, want %v", p.asked, c.asked)
				}
			})
		})
	}
}

// TestRouterGivesUpOnLostLeaders: a request that waits for a node which no longer leads is given up
// soon, long before the transport takes that node for dead; one to a node that still leads goes on.
// (What must not be repeated is given up later: TestSilentLeaderIsLeft.)
func TestRouterGivesUpOnLostLeaders(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		p, b := &phone{answer: map[base.NodeID]func(context.Context, *wire.CommitResponse) error{2: silent,
			3: answers(base.CodeOther, 0)}}, &book{leader: 2}
		s := newRouter(t, p, b)
		s.Start()
		done := make(chan time.Duration, 1)
		start := time.Now()
		go func() {
			if _, err := s.Router().Resolve(t.Context(), &wire.ResolveRequest{Group: uint32(base.DataGroup(1, 1))}); err != nil {
				t.Error(err)
			}
			done <- time.Since(start)
		}()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		select {
		case d := <-done:
			t.Fatalf("given up after %v although the node leads", d)
		default:
		}
		b.moved.Store(3)
		lost := time.Since(start)
		switch d := <-done - lost; {
		case d < 200*time.Millisecond || d > time.Second:
			t.Errorf("given up %v after another node began to lead", d)
		}
		if fmt.Sprint(p.asked) != "[2 3]" {
			t.Errorf("asked %v", p.asked)
		}
	})
}

// TestOutcome: what the answers of all participants mean together (OWN-8).
func TestOutcome(t *testing.T) {
	type answer struct {
		state  wire.TxnState
		lo, hi base.Timestamp
		err    bool
	}
	prepared := func(lo, hi base.Timestamp) answer { return answer{state: wire.TxnState_PREPARED, lo: lo, hi: hi} }
	committed, aborted, unknown := answer{state: wire.TxnState_COMMITTED, lo: 7}, answer{state: wire.TxnState_ABORTED}, answer{}
	for name, c := range map[string]struct {
		answers []answer
		ts      base.Timestamp // 0: aborted
		code    base.Code
	}{
		"all prepared":             {answers: []answer{prepared(3, 20), prepared(5, 30)}, ts: 5},
		"bounds meet nowhere":      {answers: []answer{prepared(3, 5), prepared(5, 30)}},
		"one refused":              {answers: []answer{prepared(3, 20), aborted}},
		"one has committed":        {answers: []answer{prepared(3, 20), committed}, ts: 7},
		"commit and silence":       {answers: []answer{{err: true}, committed}, ts: 7},
		"refusal and silence":      {answers: []answer{{err: true}, aborted}},
		"prepared and silence":     {answers: []answer{{err: true}, prepared(3, 20)}, code: base.CodeUnavailable},
		"prepared and forgotten":   {answers: []answer{unknown, prepared(3, 20)}},
		"forgotten by all":         {answers: []answer{unknown, unknown}, code: base.CodeAmbiguous},
		"forgotten and refused":    {answers: []answer{unknown, aborted}},
		"one participant":          {answers: []answer{prepared(4, 5)}, ts: 4},
		"one participant, refused": {answers: []answer{aborted}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				w := resolver{answer: func(g base.GroupID) (*wire.ResolveResponse, error) {
					a := c.answers[g.Region()-1]
					if a.err {
						return &wire.ResolveResponse{Status: &wire.Status{Code: uint32(base.CodeCorrupt), Msg: "damaged"}}, nil
					}
					return &wire.ResolveResponse{State: a.state, Ts: uint64(a.lo), Hi: uint64(a.hi)}, nil
				}}
				st, err := store.Open(store.Options{Dir: "db", FS: store.Memory(), Simulation: true})
				if err != nil {
					t.Fatal(err)
				}
				s := owner.NewSet(owner.Config{Self: 1, Store: st, Clock: clock.New(clock.NewWall(0)), Transport: w,
					Directory: &book{leader: 2}})
				defer func() {
					s.Close()
					_ = st.Close()
				}()
				var gs []base.GroupID
				for i := range c.answers {
					gs = append(gs, base.DataGroup(1, base.RegionID(i+1)))
				}
				ts, commit, err := s.Router().Outcome(t.Context(), base.TxnID{1}, gs)
				want := c.code
				if want == base.CodeUnavailable {
					want = base.CodeCorrupt // the error of the group that could not be asked
				}
				if base.CodeOf(err) != want || (err != nil) != (want != base.CodeOther) || commit != (c.ts != 0) || ts != c.ts {
					t.Errorf("%d, %v, %v; want %d, %v", ts, commit, err, c.ts, want)
				}
			})
		})
	}
}

// resolver answers questions for outcomes.
type resolver struct {
	answer func(base.GroupID) (*wire.ResolveResponse, error)
}

func (resolver) Handle(wire.Kind, wan.Handler) {}

func (resolver) Send(base.NodeID, wire.Kind, wan.Msg) error { return nil }

func (w resolver) Call(_ context.Context, _ base.NodeID, _ wire.Kind, q, resp wan.Msg) error {
	out, err := w.answer(base.GroupID(q.(*wire.ResolveRequest).Group))
	if err != nil {
		return err
	}
	body, err := out.MarshalVT()
	if err != nil {
		return err
	}
	return resp.UnmarshalVT(body)
}
