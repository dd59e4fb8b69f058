package wan

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

const ms = time.Millisecond

// pass lets virtual time pass and everything due settle, so that what handlers
// wrote can be read.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// arrivals records when one-way messages arrive, since the start.
type arrivals struct {
	start time.Time
	mu    sync.Mutex
	at    []time.Duration
	n     []uint64
}

func record(t *testing.T, v Transport, kinds ...wire.Kind) *arrivals {
	a := &arrivals{start: time.Now()}
	for _, k := range kinds {
		v.HandleOrdered(k, func(_ base.NodeID, body []byte) {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.at = append(a.at, time.Since(a.start))
			a.n = append(a.n, number(t, body))
		})
	}
	return a
}

func (a *arrivals) want(t *testing.T, at ...time.Duration) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Equal(a.at, at) {
		t.Errorf("arrived at %v, want %v", a.at, at)
	}
}

func send(t *testing.T, from Transport, to base.NodeID, k wire.Kind, n uint64, size int) {
	t.Helper()
	if err := from.Send(to, k, kv(n, make([]byte, size))); err != nil {
		t.Fatal(err)
	}
}

// ask makes a call and returns how long it took.
func ask(t *testing.T, from Transport, to base.NodeID) (time.Duration, error) {
	begin := time.Now()
	err := from.Call(context.Background(), to, wire.KindRead, kv(0, nil), nil)
	return time.Since(begin), err
}

func TestNetDelaysAreExact(t *testing.T) {
	virtual(t, NetOptions{LAN: LinkSpec{Delay: 250 * time.Microsecond}}, func(t *testing.T, n *Network) {
		n.SetOneWay([][]time.Duration{{0, 40 * ms}, {60 * ms, 0}})
		a, b, c := n.Join(1, 1), n.Join(2, 2), n.Join(3, 1)
		for _, v := range []Transport{b, c} {
			v.Handle(wire.KindRead, echo)
		}
		got := record(t, b, wire.KindRaft)
		start(t, a, b, c)
		for range 3 {
			if d, err := ask(t, a, 2); d != 100*ms || err != nil {
				t.Error(d, err)
			}
			if d, err := ask(t, a, 3); d != ms/2 || err != nil {
				t.Error(d, err)
			}
		}
		got.start = time.Now()
		send(t, a, 2, wire.KindRaft, 1, 0)
		pass(10 * ms)
		n.SetPaths(1, 2, LinkSpec{Delay: 5 * ms}) // live, and shorter: still in order
		send(t, a, 2, wire.KindRaft, 2, 0)
		pass(50 * ms)
		send(t, a, 2, wire.KindRaft, 3, 0)
		pass(50 * ms)
		got.want(t, 40*ms, 40*ms, 65*ms)
		if p := n.Path(2, 1); p.Delay != 5*ms {
			t.Error(p)
		}
	})
}

func TestNetDeadlinesOnVirtualTime(t *testing.T) {
	virtual(t, NetOptions{WAN: LinkSpec{Delay: 50 * ms}}, func(t *testing.T, n *Network) {
		a, b := n.Join(1, 1), n.Join(2, 2)
		var ended time.Time
		b.Handle(wire.KindRead, func(ctx context.Context, _ base.NodeID, _ []byte) (Msg, error) {
			<-ctx.Done()
			ended = time.Now()
			return nil, ctx.Err()
		})
		start(t, a, b)
		begin := time.Now()
		ctx, cancel := context.WithTimeout(context.Background(), 300*ms)
		defer cancel()
		wantCode(t, a.Call(ctx, 2, wire.KindRead, kv(0, nil), nil), base.CodeCanceled)
		if d := time.Since(begin); d != 300*ms {
			t.Error(d)
		}
		pass(time.Second)
		// the deadline, counted from arrival; the cancellation comes as late
		if d := ended.Sub(begin); d != 350*ms {
			t.Error(d)
		}
	})
}

func TestNetBandwidth(t *testing.T) {
	// 8 Mbit/s is a byte per microsecond.
	virtual(t, NetOptions{WAN: LinkSpec{Delay: 10 * ms, Bandwidth: 8e6}}, func(t *testing.T, n *Network) {
		a, a2, b, b2 := n.Join(1, 1), n.Join(2, 1), n.Join(3, 2), n.Join(4, 2)
		got := record(t, b, wire.KindRaft)
		record(t, a, wire.KindRaft)
		start(t, a, a2, b, b2)
		over := headerLen + kv(1, make([]byte, 8000)).SizeVT() - 8000
		body := 8000 - over // a frame is 8000 bytes, hence 8 ms
		// Two senders of one region share the line, in order...
		send(t, a, 3, wire.KindRaft, 1, body)
		send(t, a2, 3, wire.KindRaft, 2, body)
		send(t, a, 3, wire.KindRaft, 3, body)
		// ... and the other direction is another line.
		send(t, b, 1, wire.KindRaft, 4, body)
		pass(time.Second)
		got.want(t, 18*ms, 26*ms, 34*ms)

		// 1 MB of snapshot on the way: a small message of another class waits for
		// a quantum, not for a second.
		got.start, got.at = time.Now(), nil
		for range 10 {
			send(t, a, 4, wire.KindSnapshot, 0, 100_000)
		}
		pass(100 * ms)
		send(t, a, 3, wire.KindRaft, 5, 1000)
		pass(2 * time.Second)
		if len(got.at) != 1 || got.at[0] > 100*ms+10*ms+2*ms+time.Duration(2*quantum)*time.Microsecond {
			t.Error("a heartbeat waited for a snapshot:", got.at)
		}
	})
}

func TestNetBandwidthIsShared(t *testing.T) {
	virtual(t, NetOptions{WAN: LinkSpec{Bandwidth: 8e6}}, func(t *testing.T, n *Network) {
		a, b := n.Join(1, 1), n.Join(2, 2)
		raft, bulk := record(t, b, wire.KindRaft), record(t, b, wire.KindSnapshot)
		start(t, a, b)
		total := 0
		for i := range uint64(20) {
			send(t, a, 2, wire.KindSnapshot, i, 50_000)
			send(t, a, 2, wire.KindRaft, i, 50_000)
			total += 2 * (headerLen + kv(i, make([]byte, 50_000)).SizeVT())
		}
		pass(10 * time.Second)
		end := max(raft.at[19], bulk.at[19])
		if want := time.Duration(total) * time.Microsecond; end != want {
			t.Errorf("all took %v, want %v", end, want)
		}
		if d := raft.at[19] - bulk.at[19]; d.Abs() > 100*ms {
			t.Errorf("classes ended %v apart", d)
		}
		for _, g := range []*arrivals{raft, bulk} {
			if !slices.IsSorted(g.n) {
				t.Error("order:", g.n)
			}
		}
	})
}

func TestNetJitterKeepsOrderAndSeed(t *testing.T) {
	run := func(seed uint64) (at []time.Duration) {
		virtual(t, NetOptions{Seed: seed, WAN: LinkSpec{Delay: 20 * ms, Jitter: 10 * ms}}, func(t *testing.T, n *Network) {
			a, b := n.Join(1, 1), n.Join(2, 2)
			got := record(t, b, wire.KindRaft)
			start(t, a, b)
			for i := range uint64(200) {
				send(t, a, 2, wire.KindRaft, i, 0)
				pass(ms)
			}
			pass(time.Second)
			if len(got.n) != 200 || !slices.IsSorted(got.n) {
				t.Error(got.n)
			}
			for i, d := range got.at {
				if late := d - time.Duration(i)*ms; late < 20*ms || late >= 30*ms {
					t.Errorf("message %d took %v", i, late)
				}
			}
			at = got.at
		})
		return at
	}
	first := run(1)
	if !slices.Equal(first, run(1)) {
		t.Error("the same seed gives the same jitter")
	}
	if slices.Equal(first, run(2)) {
		t.Error("another seed gives another")
	}
}

func TestNetLoss(t *testing.T) {
	for _, drop := range []bool{false, true} {
		virtual(t, NetOptions{Seed: 3, DropSends: drop, WAN: LinkSpec{Delay: 20 * ms, Loss: 0.1}},
			func(t *testing.T, n *Network) {
				a, b := n.Join(1, 1), n.Join(2, 2)
				got := record(t, b, wire.KindRaft)
				b.Handle(wire.KindRead, echo)
				start(t, a, b)
				for i := range uint64(1000) {
					send(t, a, 2, wire.KindRaft, i, 0)
					pass(time.Second)
				}
				late := 0
				for i, d := range got.at {
					switch d - time.Duration(got.n[i])*time.Second {
					case 20 * ms:
					case 260 * ms: // one timeout: a round trip + 200 ms
						late++
					default:
						t.Fatalf("message %d at %v", got.n[i], d)
					}
				}
				lost := 1000 - len(got.n)
				if drop && (late != 0 || lost < 60 || lost > 140) || !drop && (lost != 0 || late < 60 || late > 140) {
					t.Errorf("drop %v: %d lost, %d late", drop, lost, late)
				}
				if s := a.Stats()[0]; int(s.Dropped) != lost || s.QueuedMsgs != 0 || s.QueuedBytes != 0 {
					t.Errorf("%+v", s)
				}
				for range 300 { // a call is late, not lost
					if d, err := ask(t, a, 2); err != nil || d != 40*ms && d != 280*ms && d != 520*ms {
						t.Fatal(d, err)
					}
				}
			})
	}
}

func TestNetCuts(t *testing.T) {
	for name, c := range map[string]struct{ cut, heal func(n *Network) }{
		"regions":  {func(n *Network) { n.Cut(1, 2) }, func(n *Network) { n.Heal(2, 1) }},
		"one way":  {func(n *Network) { n.CutOneWay(1, 2) }, func(n *Network) { n.HealAll() }},
		"back":     {func(n *Network) { n.CutOneWay(2, 1) }, func(n *Network) { n.HealAll() }},
		"nodes":    {func(n *Network) { n.CutNodes(1, 2) }, func(n *Network) { n.HealNodes(1, 2) }},
		"isolated": {func(n *Network) { n.Isolate(2) }, func(n *Network) { n.Rejoin(2) }},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, NetOptions{WAN: LinkSpec{Delay: 50 * ms}}, func(t *testing.T, n *Network) {
				a, b, other := n.Join(1, 1), n.Join(2, 2), n.Join(3, 3)
				got := record(t, b, wire.KindRaft)
				b.Handle(wire.KindRead, echo)
				other.Handle(wire.KindRead, echo)
				start(t, a, b, other)
				send(t, a, 2, wire.KindRaft, 1, 0)
				pass(25 * ms)
				c.cut(n) // the message is under way
				send(t, a, 2, wire.KindRaft, 2, 0)
				res := make(chan time.Duration, 1)
				go func() {
					d, err := ask(t, a, 2)
					if err != nil {
						t.Error(err)
					}
					res <- d
				}()
				if d, err := ask(t, a, 3); d != 100*ms || err != nil {
					t.Error("others are not concerned:", d, err)
				}
				pass(2 * time.Second)
				if name == "back" {
					got.want(t, 50*ms, 75*ms)
				} else {
					got.want(t)
				}
				healed := time.Now()
				c.heal(n)
				<-res
				// Retransmitted one timeout (round trip + 200 ms) after the heal; the
				// answer alone if only the way back was cut.
				want := 400 * ms
				if name == "back" {
					want = 350 * ms
				}
				if d := time.Since(healed); d != want {
					t.Errorf("answered %v after the heal", d)
				}
				if d, err := ask(t, a, 2); d != 100*ms || err != nil {
					t.Error(d, err)
				}

				// A cut that lasts breaks the call, which may have run.
				c.cut(n)
				d, err := ask(t, a, 2)
				wantCode(t, err, base.CodeUnavailable)
				stall := 10 * time.Second
				if name == "back" {
					stall += 50 * ms
				}
				if !NoAnswer(err) || d != stall {
					t.Error(d, err)
				}
				if s := a.Stats()[0]; s.QueuedMsgs != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestNetBacklog: what was sent into a cut arrives once it is healed, in order and before what is
// sent later, when TCP sends again. What has waited for as long as a connection may is lost.
func TestNetBacklog(t *testing.T) {
	virtual(t, NetOptions{WAN: LinkSpec{Delay: 50 * ms}, Backlog: true}, func(t *testing.T, n *Network) {
		a, b := n.Join(1, 1), n.Join(2, 2)
		got := record(t, b, wire.KindRaft)
		start(t, a, b)
		n.Cut(1, 2)
		send(t, a, 2, wire.KindRaft, 1, 0)
		pass(time.Second)
		send(t, a, 2, wire.KindRaft, 2, 0)
		pass(time.Second)
		n.Heal(1, 2)
		send(t, a, 2, wire.KindRaft, 3, 0)
		pass(time.Second)
		// The timeout is 300 ms at first: it is sent again after 0.3, 0.9 and 2.1 s.
		got.want(t, 2150*ms, 2150*ms, 2150*ms)
		if !slices.Equal(got.n, []uint64{1, 2, 3}) {
			t.Errorf("arrived in the order %v", got.n)
		}
		n.Cut(1, 2)
		send(t, a, 2, wire.KindRaft, 4, 0)
		pass(11 * time.Second)
		n.Heal(1, 2)
		send(t, a, 2, wire.KindRaft, 5, 0)
		pass(time.Second)
		if !slices.Equal(got.n, []uint64{1, 2, 3, 5}) {
			t.Errorf("arrived: %v", got.n)
		}
		if s := a.Stats()[0]; s.QueuedMsgs != 0 {
			t.Errorf("%+v", s)
		}
	})
}

func TestNetCrashAndJoinAgain(t *testing.T) {
	virtual(t, NetOptions{WAN: LinkSpec{Delay: 50 * ms}}, func(t *testing.T, n *Network) {
		a, b := n.Join(1, 1), n.Join(2, 2)
		record(t, b, wire.KindRaft)
		record(t, a, wire.KindRaft)
		var handled atomic.Int32
		hang := func(ctx context.Context, _ base.NodeID, _ []byte) (Msg, error) {
			handled.Add(1)
			<-ctx.Done()
			return nil, ctx.Err()
		}
		b.Handle(wire.KindRead, hang)
		a.Handle(wire.KindRead, hang)
		start(t, a, b)
		type result struct {
			d   time.Duration
			err error
		}
		toB, fromB := make(chan result, 1), make(chan result, 1)
		go func() { d, err := ask(t, a, 2); toB <- result{d, err} }()
		go func() { d, err := ask(t, b, 1); fromB <- result{d, err} }()
		pass(80 * ms)
		if handled.Load() != 2 {
			t.Fatal(handled.Load())
		}
		send(t, a, 2, wire.KindRaft, 1, 0) // in flight to it
		send(t, b, 1, wire.KindRaft, 2, 0) // and from it
		n.Crash(2)
		if r := <-fromB; r.d != 80*ms || base.CodeOf(r.err) != base.CodeUnavailable {
			t.Error(r)
		}
		if r := <-toB; r.d != 130*ms || !NoAnswer(r.err) || base.CodeOf(r.err) != base.CodeUnavailable {
			t.Error("the reset travels for 50 ms:", r)
		}
		wantCode(t, b.Send(1, wire.KindRaft, kv(0, nil)), base.CodeUnavailable)
		b.Close()

		// Nobody is there: refused after a round trip, and certainly never run.
		d, err := ask(t, a, 2)
		wantCode(t, err, base.CodeUnavailable)
		if d != 100*ms || !NeverRan(err) {
			t.Error(d, err)
		}
		if s := a.Stats()[0]; s.Connected {
			t.Error("connected to the dead")
		}

		// A new life hears nothing of what was meant for the old one.
		send(t, a, 2, wire.KindRaft, 3, 0)
		b = n.Join(2, 2)
		got := record(t, b, wire.KindRaft)
		b.Handle(wire.KindRead, echo)
		start(t, b)
		pass(200 * ms)
		got.want(t)
		if d, err := ask(t, a, 2); d != 100*ms || err != nil {
			t.Error(d, err)
		}
		send(t, a, 2, wire.KindRaft, 4, 0)
		pass(100 * ms)
		if !slices.Equal(got.n, []uint64{4}) {
			t.Error(got.n)
		}
		if err := n.Join(2, 2).Start(); err == nil {
			t.Error("two lives at once")
		}
	})
}

// TestNetCloseAfterCrash: the store of a crashed node is closed right after its transport, so Close
// must wait for the node's handlers.
func TestNetCloseAfterCrash(t *testing.T) {
	virtual(t, NetOptions{WAN: LinkSpec{Delay: 50 * ms}}, func(t *testing.T, n *Network) {
		a, b := n.Join(1, 1), n.Join(2, 2)
		var through atomic.Bool
		b.Handle(wire.KindRead, func(ctx context.Context, from base.NodeID, body []byte) (Msg, error) {
			time.Sleep(time.Second)
			through.Store(true)
			return echo(ctx, from, body)
		})
		start(t, a, b)
		go ask(t, a, 2)
		pass(80 * ms)
		n.Crash(2)
		b.Close()
		if !through.Load() {
			t.Error("a handler still runs")
		}
	})
}

func TestNetBackPressure(t *testing.T) {
	virtual(t, NetOptions{WAN: LinkSpec{Delay: 50 * ms}, Limits: Limits{QueueMsgs: 10, QueueBytes: 100_000}},
		func(t *testing.T, n *Network) {
			a, b := n.Join(1, 1), n.Join(2, 2)
			entered, open := make(chan struct{}), make(chan struct{})
			handled := 0
			b.HandleOrdered(wire.KindRaft, func(base.NodeID, []byte) {
				if handled++; handled == 1 {
					close(entered)
					<-open
				}
			})
			b.HandleOrdered(wire.KindSnapshot, func(base.NodeID, []byte) {})
			b.Handle(wire.KindRead, echo)
			start(t, a, b)
			full := func(k wire.Kind, size int) (sent int) {
				for {
					if err := a.Send(2, k, kv(0, make([]byte, size))); err != nil {
						wantCode(t, err, base.CodeOverloaded)
						return sent
					}
					sent++
				}
			}
			// The bound counts what is in flight...
			if n := full(wire.KindRaft, 0); n != 10 {
				t.Error(n)
			}
			if n := full(wire.KindSnapshot, 30_000); n != 3 {
				t.Error(n)
			}
			// ... and what the handler has not taken.
			<-entered
			pass(time.Second)
			if n := full(wire.KindRaft, 0); n != 0 {
				t.Error(n)
			}
			if n := full(wire.KindSnapshot, 200_000); n != 1 {
				t.Error("one message of any size enters an empty queue:", n)
			}
			if _, err := ask(t, a, 2); err != nil {
				t.Error("another class:", err)
			}
			close(open)
			pass(time.Second)
			if n := full(wire.KindRaft, 0); n != 10 {
				t.Error(n)
			}
			pass(time.Second)
			s := a.Stats()[0]
			if handled != 20 || s.QueuedMsgs != 0 || s.QueuedBytes != 0 || s.Overloaded != 5 {
				t.Errorf("%d handled, %+v", handled, s)
			}
		})
}

// Answers beyond the bound hold their handlers, and all arrive in the end.
func TestNetAnswersWaitForRoom(t *testing.T) {
	virtual(t, NetOptions{WAN: LinkSpec{Delay: 50 * ms, Bandwidth: 8e6},
		Limits: Limits{QueueBytes: 100_000, Handlers: 4}}, func(t *testing.T, n *Network) {
		a, b := n.Join(1, 1), n.Join(2, 2)
		b.Handle(wire.KindRead, func(context.Context, base.NodeID, []byte) (Msg, error) {
			return kv(0, make([]byte, 60_000)), nil
		})
		start(t, a, b)
		var wg sync.WaitGroup
		begin := time.Now()
		for range 20 {
			wg.Go(func() {
				if _, err := ask(t, a, 2); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		// One answer at a time is in the stream: 60 ms on the line and 50 ms delay each.
		if d := time.Since(begin); d < 20*110*ms || d > 20*111*ms+100*ms {
			t.Error(d)
		}
		// Crash while handlers wait for room: they must get free.
		for range 20 {
			wg.Go(func() { ask(t, a, 2) })
		}
		pass(150 * ms)
		n.Crash(2)
		wg.Wait()
	})
}

// A storm of everything, to be run with the race detector: afterwards no queue
// holds anything, and every stream was in order.
func TestNetStorm(t *testing.T) {
	for seed := range uint64(4) {
		virtual(t, NetOptions{
			Seed: seed, DropSends: seed%2 == 0, LAN: LinkSpec{Delay: 250 * time.Microsecond},
			WAN:    LinkSpec{Delay: 20 * ms, Jitter: 5 * ms, Loss: 0.02, Bandwidth: 20e6},
			Limits: Limits{QueueMsgs: 200, Handlers: 8, Waiting: 8},
		}, func(t *testing.T, n *Network) {
			const nodes = 6
			r := rand.New(rand.NewPCG(seed, 1))
			var mu sync.Mutex
			var live [nodes + 1]Transport
			join := func(id base.NodeID) {
				v := n.Join(id, base.RegionID(1+id%3))
				last := map[base.NodeID]uint64{}
				v.HandleOrdered(wire.KindRaft, func(from base.NodeID, body []byte) {
					mu.Lock()
					defer mu.Unlock()
					k := number(t, body)
					if k <= last[from] {
						t.Errorf("node %d got %d after %d from %d", id, k, last[from], from)
					}
					last[from] = k
				})
				v.Handle(wire.KindRead, func(ctx context.Context, from base.NodeID, body []byte) (Msg, error) {
					time.Sleep(time.Duration(number(t, body)) * time.Microsecond)
					return echo(ctx, from, body)
				})
				start(t, v)
				mu.Lock()
				live[id] = v
				mu.Unlock()
			}
			for id := range base.NodeID(nodes) {
				join(id + 1)
			}
			stop := make(chan struct{})
			var wg sync.WaitGroup
			answered := 0
			for id := range base.NodeID(nodes) {
				rr := rand.New(rand.NewPCG(seed, uint64(id)))
				wg.Go(func() {
					for k := uint64(1); ; k++ {
						select {
						case <-stop:
							return
						default:
						}
						to := base.NodeID(1 + rr.IntN(nodes))
						size := rr.IntN(3000)
						nap := time.Duration(rr.IntN(4 * int(ms)))
						mu.Lock()
						v := live[id+1]
						mu.Unlock()
						if to != id+1 {
							v.Send(to, wire.KindRaft, kv(k, make([]byte, size)))
							wg.Go(func() {
								ctx, cancel := context.WithTimeout(context.Background(), 500*ms)
								defer cancel()
								var resp wire.KV
								switch err := v.Call(ctx, to, wire.KindRead, kv(k, nil), &resp); {
								case err == nil && resp.Ts == k+1:
									mu.Lock()
									answered++
									mu.Unlock()
								case err == nil:
									t.Errorf("asked %d, got %d", k, resp.Ts)
								case base.CodeOf(err) != base.CodeOverloaded &&
									base.CodeOf(err) != base.CodeUnavailable && base.CodeOf(err) != base.CodeCanceled:
									t.Error(err)
								}
							})
						}
						time.Sleep(nap)
					}
				})
			}
			for range 40 {
				pass(50 * ms)
				x, y := base.NodeID(1+r.IntN(nodes)), base.NodeID(1+r.IntN(nodes))
				switch r.IntN(6) {
				case 0:
					n.CutNodes(x, y)
				case 1:
					n.Cut(base.RegionID(1+x%3), base.RegionID(1+y%3))
				case 2:
					n.Isolate(x)
				case 3:
					n.Crash(x)
					join(x)
				default:
					n.HealAll()
				}
			}
			n.HealAll()
			close(stop)
			wg.Wait()
			pass(20 * time.Second)
			for _, v := range live[1:] {
				for _, s := range v.Stats() {
					if s.QueuedMsgs != 0 || s.QueuedBytes != 0 {
						t.Errorf("left over: %+v", s)
					}
				}
			}
			if answered < 100 {
				t.Errorf("only %d answers", answered)
			}
		})
	}
}

func TestNetCloseFailsWhatIsPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetOptions{WAN: LinkSpec{Delay: time.Hour}})
		a, b := n.Join(1, 1), n.Join(2, 2)
		b.Handle(wire.KindRead, echo)
		start(t, a, b)
		n.Join(3, 3) // known, but not there
		res := make(chan error)
		for _, to := range []base.NodeID{2, 3} {
			go func() { _, err := ask(t, a, to); res <- err }()
		}
		pass(time.Minute)
		n.Close()
		for range 2 {
			wantCode(t, <-res, base.CodeUnavailable)
		}
		if n.Close() != nil || a.Send(2, wire.KindRaft, kv(0, nil)) == nil {
			t.Error("closed")
		}
	})
}

// TestDrainsLosses: a request that was lost while the path was slow arrives a timeout of then
// later, and all that follows on its connection arrives behind it: so long the path drains.
func TestDrainsLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetOptions{WAN: LinkSpec{Delay: time.Second, Loss: 1}})
		defer n.Close()
		for id := range base.NodeID(2) {
			if err := n.Join(id+1, base.RegionID(id+1)).Start(); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		var a wire.AskResponse
		n.mu.Lock()
		from := n.nodes[1]
		n.mu.Unlock()
		_ = from.Call(ctx, 2, wire.KindAsk, &wire.AskRequest{}, &a) // nobody waits for the answer
		n.SetPaths(1, 2, LinkSpec{Delay: 50 * time.Millisecond})
		if time.Sleep(3 * time.Second); !n.Drains(1, 2) {
			t.Error("the path does not drain, and the request has not arrived")
		}
		if time.Sleep(time.Second); n.Drains(1, 2) {
			t.Error("the path drains, and the request has arrived")
		}
	})
}

// TestDrains: a path that has become faster drains for as long as what was sent before takes.
func TestDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := NewNetwork(NetOptions{WAN: LinkSpec{Delay: 50 * time.Millisecond}})
		defer n.Close()
		if n.Drains(1, 2) {
			t.Error("a path drains that has always been as it is")
		}
		n.SetPath(1, 2, LinkSpec{Delay: time.Second})
		if n.Drains(1, 2) {
			t.Error("a path drains that has become slower")
		}
		time.Sleep(5 * time.Second)
		n.SetPath(1, 2, LinkSpec{Delay: 50 * time.Millisecond})
		if !n.Drains(1, 2) || n.Drains(2, 1) {
			t.Error("the path does not drain, or the other one does")
		}
		time.Sleep(time.Second)
		if n.Drains(1, 2) {
			t.Error("the path drains for longer than its messages took")
		}
	})
}
