package wan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
	"github.com/prometheus/client_golang/prometheus"
)

// What both transports promise; every test here runs on both.

func TestCallAnswers(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{})
		b.Handle(wire.KindRead, echo)
		a.Handle(wire.KindRead, echo)
		start(t, a, b)
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				for i := range 100 {
					n := uint64(g*1000 + i)
					payload := bytes.Repeat([]byte{byte(i)}, i*i)
					from, to := a, base.NodeID(2)
					if g%4 == 3 {
						from, to = b, 1
					}
					var resp wire.KV
					if err := from.Call(context.Background(), to, wire.KindRead, kv(n, payload), &resp); err != nil {
						t.Error(err)
					}
					if resp.Ts != n+1 || !bytes.Equal(resp.Value, payload) {
						t.Errorf("asked %d, got %d with %d bytes", n, resp.Ts, len(resp.Value))
					}
				}
			})
		}
		wg.Wait()
	})
}

func TestLargeMessages(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{MaxFrame: 8 << 20})
		b.Handle(wire.KindRead, echo)
		b.Handle(wire.KindCommit, func(context.Context, base.NodeID, []byte) (Msg, error) {
			return kv(0, make([]byte, 9<<20)), nil
		})
		start(t, a, b)
		var resp wire.KV
		if err := a.Call(context.Background(), 2, wire.KindRead, kv(1, make([]byte, 7<<20)), &resp); err != nil ||
			len(resp.Value) != 7<<20 {
			t.Fatal(err, len(resp.Value))
		}
		err := a.Call(context.Background(), 2, wire.KindRead, kv(1, make([]byte, 9<<20)), nil)
		wantCode(t, err, base.CodeInvalid)
		if !NeverRan(err) || !strings.Contains(err.Error(), "split it") {
			t.Error(err)
		}
		err = a.Call(context.Background(), 2, wire.KindCommit, kv(1, nil), nil)
		wantCode(t, err, base.CodeInvalid)
		if NeverRan(err) {
			t.Error("the handler ran:", err)
		}
	})
}

func TestErrorsTravel(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{})
		h := func(_ context.Context, _ base.NodeID, body []byte) (Msg, error) {
			switch number(t, body) {
			case 0:
				return nil, nil
			case 1:
				return nil, &base.Error{Code: base.CodeNotLeader, Msg: "ask another", Node: 7}
			case 2:
				return nil, &base.Error{Code: base.CodeExists, Msg: "dup", Key: base.Key("k\x00")}
			case 3:
				return nil, errors.New("plain")
			case 4:
				return nil, fmt.Errorf("while reading: %w", base.Errorf(base.CodeAborted, "lost"))
			}
			return nil, context.DeadlineExceeded
		}
		a.Handle(wire.KindRead, h)
		b.Handle(wire.KindRead, h)
		start(t, a, b)
		for _, to := range []base.NodeID{1, 2} { // to itself as to another
			call := func(n uint64) *base.Error {
				err := a.Call(context.Background(), to, wire.KindRead, kv(n, nil), new(wire.KV))
				if NeverRan(err) || NoAnswer(err) {
					t.Errorf("the handler's own error is none of the transport: %v", err)
				}
				var e *base.Error
				errors.As(err, &e)
				return e
			}
			if e := call(0); e != nil {
				t.Error(e)
			}
			if e := call(1); e.Code != base.CodeNotLeader || e.Node != 7 || e.Msg != "ask another" || e.Key != nil {
				t.Error(e)
			}
			if e := call(2); e.Code != base.CodeExists || string(e.Key) != "k\x00" {
				t.Error(e)
			}
			if e := call(3); e.Code != base.CodeOther || e.Msg != "plain" {
				t.Error(e)
			}
			if e := call(4); e.Code != base.CodeAborted || !strings.HasPrefix(e.Msg, "while reading: ") {
				t.Error(e)
			}
			if e := call(5); e.Code != base.CodeCanceled {
				t.Error(e)
			}
			err := a.Call(context.Background(), to, wire.KindCommit, kv(0, nil), nil)
			wantCode(t, err, base.CodeInvalid)
			if !NeverRan(err) {
				t.Error("no handler, so it cannot have run")
			}
		}
		wantCode(t, a.Call(context.Background(), 9, wire.KindRead, kv(0, nil), nil), base.CodeUnavailable)
		wantCode(t, a.Send(9, wire.KindRaft, kv(0, nil)), base.CodeUnavailable)
		wantCode(t, a.Send(1, wire.KindRaft, kv(0, nil)), base.CodeInvalid)
	})
}

func TestSendsArriveInOrder(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{})
		const n = 5000
		done := make(chan struct{})
		next := uint64(0)
		b.HandleOrdered(wire.KindRaft, func(from base.NodeID, body []byte) {
			if got := number(t, body); got != next || from != 1 {
				t.Errorf("got %d from %d, want %d", got, from, next)
			}
			if next++; next == n {
				close(done)
			}
		})
		start(t, a, b)
		for i := range uint64(n) {
			if err := a.Send(2, wire.KindRaft, kv(i, make([]byte, i%500))); err != nil {
				t.Fatal(err)
			}
		}
		<-done
		s := a.Stats()[0]
		if s.Peer != 2 || s.Region != 2 || !s.Connected || s.SentMsgs != n || len(s.Kinds) != 1 ||
			s.Kinds[0].Kind != wire.KindRaft {
			t.Errorf("%+v", s)
		}
		if r := b.Stats()[0]; r.RecvMsgs != n || r.RecvBytes != s.SentBytes {
			t.Errorf("%+v against %+v", r, s)
		}
	})
}

func TestDeadlineAndCancelReachTheHandler(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{})
		handle := func(k wire.Kind, running chan<- bool, ended chan<- error) {
			b.Handle(k, func(ctx context.Context, _ base.NodeID, _ []byte) (Msg, error) {
				_, has := ctx.Deadline()
				running <- has
				<-ctx.Done()
				ended <- ctx.Err()
				return nil, ctx.Err()
			})
		}
		early, gone := make(chan bool, 100), make(chan error, 100)
		handle(wire.KindFinish, early, gone)
		running, ended := make(chan bool, 1), make(chan error)
		handle(wire.KindRead, running, ended)
		start(t, a, b)

		// A request may miss its deadline before it runs: the next one has more time.
		sent := false
		for after := 20 * time.Millisecond; len(early) == 0; after *= 2 {
			ctx, cancel := context.WithTimeout(context.Background(), after)
			err := a.Call(ctx, 2, wire.KindFinish, kv(0, nil), nil)
			cancel()
			wantCode(t, err, base.CodeCanceled)
			sent = sent || !NeverRan(err)
		}
		if !sent {
			t.Error("every request that ran is said to have never run")
		}
		if !<-early {
			t.Error("the deadline did not travel")
		}
		<-gone

		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		res := make(chan error)
		go func() { res <- a.Call(ctx, 2, wire.KindRead, kv(0, nil), nil) }()
		if <-running {
			t.Error("a deadline from nowhere")
		}
		cancel()
		err := <-res
		wantCode(t, err, base.CodeCanceled)
		if !NoAnswer(err) || !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := <-ended; err != context.Canceled {
			t.Error(err)
		}
		err = a.Call(ctx, 2, wire.KindRead, kv(0, nil), nil)
		wantCode(t, err, base.CodeCanceled)
		if !NeverRan(err) {
			t.Error(err)
		}
	})
}

func TestHandlersAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		const run, wait = 3, 5
		a, b := mk(t, Limits{Handlers: run, Waiting: wait})
		var mu sync.Mutex
		now, most := 0, 0
		entered := make(chan struct{}, run+wait)
		open := make(chan struct{})
		b.Handle(wire.KindRead, func(context.Context, base.NodeID, []byte) (Msg, error) {
			mu.Lock()
			now++
			most = max(most, now)
			mu.Unlock()
			entered <- struct{}{}
			<-open
			mu.Lock()
			now--
			mu.Unlock()
			return nil, nil
		})
		b.Handle(wire.KindFinish, echo)
		start(t, a, b)
		res := make(chan error, run+wait)
		for range run {
			go func() { res <- a.Call(context.Background(), 2, wire.KindRead, kv(0, nil), nil) }()
		}
		for range run {
			<-entered
		}
		for range wait {
			go func() { res <- a.Call(context.Background(), 2, wire.KindRead, kv(0, nil), nil) }()
		}
		// Once one is refused, exactly wait of them wait.
		refused := 0
		for refused == 0 {
			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			err := a.Call(ctx, 2, wire.KindRead, kv(0, nil), nil)
			cancel()
			if base.CodeOf(err) == base.CodeOverloaded {
				if !NeverRan(err) || !base.Retryable(err) ||
					!strings.Contains(err.Error(), "node 2 is busy: 3 read requests running, 5 waiting") {
					t.Fatal(err)
				}
				refused++
			}
		}
		// A kind of its own has room of its own.
		if err := a.Call(context.Background(), 2, wire.KindFinish, kv(0, nil), nil); err != nil {
			t.Error(err)
		}
		close(open)
		for range run + wait {
			if err := <-res; err != nil && base.CodeOf(err) != base.CodeOverloaded {
				t.Error(err)
			}
		}
		if most != run {
			t.Errorf("%d ran at a time", most)
		}
		if s := b.Stats()[0]; s.Overloaded == 0 {
			t.Error("not counted")
		}
	})
}

func TestInboundBytesAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{InboundBytes: 1 << 20})
		entered, open := make(chan struct{}, 1), make(chan struct{})
		b.Handle(wire.KindRead, func(context.Context, base.NodeID, []byte) (Msg, error) {
			entered <- struct{}{}
			<-open
			return nil, nil
		})
		start(t, a, b)
		res := make(chan error)
		go func() { res <- a.Call(context.Background(), 2, wire.KindRead, kv(0, make([]byte, 900<<10)), nil) }()
		<-entered
		err := a.Call(context.Background(), 2, wire.KindRead, kv(0, make([]byte, 200<<10)), nil)
		wantCode(t, err, base.CodeOverloaded)
		if !NeverRan(err) {
			t.Error(err)
		}
		close(open)
		if err := <-res; err != nil {
			t.Fatal(err)
		}
		// What alone exceeds the bound passes when nothing else is there.
		if err := a.Call(context.Background(), 2, wire.KindRead, kv(0, make([]byte, 2<<20)), nil); err != nil {
			t.Error(err)
		}
	})
}

func TestPendingCallsAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{Pending: 2})
		entered, open := make(chan struct{}), make(chan struct{})
		b.Handle(wire.KindRead, func(context.Context, base.NodeID, []byte) (Msg, error) {
			entered <- struct{}{}
			<-open
			return nil, nil
		})
		start(t, a, b)
		res := make(chan error)
		for range 2 {
			go func() { res <- a.Call(context.Background(), 2, wire.KindRead, kv(0, nil), nil) }()
			<-entered
		}
		err := a.Call(context.Background(), 2, wire.KindRead, kv(0, nil), nil)
		wantCode(t, err, base.CodeOverloaded)
		if !NeverRan(err) {
			t.Error(err)
		}
		close(open)
		for range 2 {
			if err := <-res; err != nil {
				t.Error(err)
			}
		}
	})
}

func TestTraceCountsTheWAN(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{})
		a.Handle(wire.KindRead, echo)
		b.Handle(wire.KindRead, func(ctx context.Context, from base.NodeID, body []byte) (Msg, error) {
			if obs.TraceOf(ctx) != nil {
				t.Error("the trace stays at home")
			}
			return echo(ctx, from, body)
		})
		b.Handle(wire.KindCommit, func(context.Context, base.NodeID, []byte) (Msg, error) { return nil, errors.New("no") })
		start(t, a, b)
		tr := new(obs.Trace)
		ctx := obs.WithTrace(context.Background(), tr)
		if err := a.Call(ctx, 2, wire.KindRead, kv(1, make([]byte, 100)), nil); err != nil {
			t.Fatal(err)
		}
		want := 2 * int64(headerLen+kv(1, make([]byte, 100)).SizeVT())
		if tr.Hops() != 2 || tr.Bytes() != want || tr.Messages() != 2 {
			t.Errorf("%d hops, %d bytes (want %d), %d messages", tr.Hops(), tr.Bytes(), want, tr.Messages())
		}
		a.Call(ctx, 2, wire.KindCommit, kv(1, nil), nil)
		if tr.Hops() != 4 {
			t.Error("an error is an answer")
		}
		tr.Reset()
		a.Call(ctx, 1, wire.KindRead, kv(1, nil), nil)
		a.SetPeer(3, "127.0.0.1:1", 1)
		a.Call(ctx, 3, wire.KindRead, kv(1, nil), nil)
		if tr.Hops() != 0 || tr.Bytes() != 0 {
			t.Error("nothing crossed a region")
		}
		if a.Region(1) != 1 || a.Region(2) != 2 || a.Region(3) != 1 || a.Region(9) != 0 {
			t.Error("regions")
		}
	})
}

func TestCloseEndsWhatRuns(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{})
		entered := make(chan struct{}, 2)
		hang := func(ctx context.Context, _ base.NodeID, _ []byte) (Msg, error) {
			entered <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		}
		a.Handle(wire.KindRead, hang)
		b.Handle(wire.KindRead, hang)
		start(t, a, b)
		fromA, fromB := make(chan error, 1), make(chan error, 1)
		go func() { fromA <- a.Call(context.Background(), 2, wire.KindRead, kv(0, nil), nil) }()
		go func() { fromB <- b.Call(context.Background(), 1, wire.KindRead, kv(0, nil), nil) }()
		<-entered
		<-entered
		b.Close()
		for _, c := range []chan error{fromA, fromB} {
			err := <-c
			wantCode(t, err, base.CodeUnavailable)
			if NeverRan(err) {
				t.Error("it ran:", err)
			}
		}
		wantCode(t, b.Call(context.Background(), 1, wire.KindRead, kv(0, nil), nil), base.CodeUnavailable)
		// The one that is left finds nobody, and says that nothing ran.
		for {
			err := a.Call(context.Background(), 2, wire.KindRead, kv(0, nil), nil)
			wantCode(t, err, base.CodeUnavailable)
			if NeverRan(err) {
				break
			}
		}
		if b.Close() != nil || b.Start() == nil {
			t.Error("Close twice is fine, Start after Close is not")
		}
	})
}

func TestCollector(t *testing.T) {
	onBoth(t, func(t *testing.T, mk pairMaker) {
		a, b := mk(t, Limits{})
		b.Handle(wire.KindRead, echo)
		start(t, a, b)
		if err := a.Call(context.Background(), 2, wire.KindRead, kv(1, nil), nil); err != nil {
			t.Fatal(err)
		}
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(Collector(a, prometheus.Labels{"node": "1"}), Collector(b, prometheus.Labels{"node": "2"}))
		fams, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, f := range fams {
			for _, m := range f.Metric {
				s := f.GetName()
				for _, l := range m.Label {
					s += " " + l.GetName() + "=" + l.GetValue()
				}
				if m.GetCounter().GetValue() == 1 || m.Gauge != nil {
					found[s] = true
				}
			}
		}
		for _, want := range []string{
			"godwit_wan_messages_total direction=sent kind=read node=1 peer=2 region=2",
			"godwit_wan_messages_total direction=received kind=read node=1 peer=2 region=2",
			"godwit_wan_messages_total direction=received kind=read node=2 peer=1 region=1",
			"godwit_wan_requests kind=read node=2 state=waiting",
			"godwit_wan_requests_limit node=2 state=running",
		} {
			if !found[want] {
				t.Errorf("no %s in %v", want, found)
			}
		}
	})
}
