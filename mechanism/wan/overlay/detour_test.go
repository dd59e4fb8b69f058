package overlay

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// roundWorld is n regions of one node, 25 ms apart, that send each other heartbeats.
func roundWorld(t *testing.T, n int, p Params) *world {
	regions, delays := make([]base.RegionID, n), make([][]time.Duration, n)
	for i := range regions {
		regions[i], delays[i] = base.RegionID(i+1), make([]time.Duration, n)
		for j := range delays[i] {
			delays[i][j] = 25 * ms
		}
	}
	w := &world{t: t, net: wan.NewNetwork(wan.NetOptions{}), begin: time.Now(), nodes: map[base.NodeID]*testNode{}, beats: true,
		seen: map[[2]base.NodeID][]arrival{}, sent: map[[2]base.NodeID]uint64{}, on: p}
	w.net.SetOneWay(delays)
	for i, r := range regions {
		w.join(base.NodeID(i+1), r)
	}
	return w
}

// beat sends heartbeats from a node until the world is closed.
func (w *world) beat(n *testNode) {
	for n.ctx.Err() == nil {
		for _, id := range w.ids() {
			if id != n.Self() {
				_ = n.Send(id, wire.KindHeartbeat, &wire.Heartbeat{Node: uint32(n.Self())})
			}
		}
		time.Sleep(100 * ms)
	}
}

// gap is the longest time between two arrivals from one node at another.
func (w *world) gap(from, to base.NodeID, since time.Duration) (most time.Duration, after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := since
	for _, a := range w.seen[[2]base.NodeID{from, to}] {
		if a.at < since {
			continue
		}
		most, last = max(most, a.at-last), a.at
	}
	return max(most, time.Since(w.begin)-last), last
}

// talk has all nodes send each other numbered messages, and ask each other, for a while.
func (w *world) talk(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(20 * ms) {
		for _, a := range w.ids() {
			for _, b := range w.ids() {
				if a != b {
					w.send(a, b)
				}
			}
		}
	}
}

func (w *world) ask(from, to base.NodeID, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var r wire.AskResponse
	err := w.nodes[from].Call(ctx, to, wire.KindAsk, &wire.AskRequest{Body: []byte("hello")}, &r)
	if err == nil && string(r.Body) != "hello" {
		w.t.Errorf("node %d answers %q", to, r.Body)
	}
	return err
}

// askWait asks what is not answered.
func (w *world) askWait(from, to base.NodeID) error {
	var r wire.AskResponse
	return w.nodes[from].Call(w.nodes[from].ctx, to, wire.KindAsk, &wire.AskRequest{Name: "wait"}, &r)
}

// TestDetour cuts links in several ways. Messages and requests find their way within 1.5 s as long
// as there is one, in order, and take the direct path again when it is whole.
func TestDetour(t *testing.T) {
	for _, c := range []struct {
		name    string
		regions int
		cut     func(n *wan.Network)
		over    []base.NodeID // from node 1 to the last one
	}{
		{"one link", 3, func(n *wan.Network) { n.Cut(1, 3) }, []base.NodeID{2, 3}},
		{"one way there", 3, func(n *wan.Network) { n.CutOneWay(1, 3) }, []base.NodeID{2, 3}},
		{"one way back", 3, func(n *wan.Network) { n.CutOneWay(3, 1) }, []base.NodeID{2, 3}},
		{"chain of four", 4, func(n *wan.Network) { n.Cut(1, 3); n.Cut(1, 4); n.Cut(2, 4) }, []base.NodeID{2, 3, 4}},
		{"chain of five", 5, func(n *wan.Network) {
			for _, x := range [][2]base.RegionID{{1, 3}, {1, 4}, {1, 5}, {2, 4}, {2, 5}, {3, 5}} {
				n.Cut(x[0], x[1])
			}
		}, []base.NodeID{2, 3, 4, 5}},
		{"star", 5, func(n *wan.Network) {
			for _, x := range [][2]base.RegionID{{1, 2}, {1, 4}, {1, 5}, {2, 4}, {2, 5}, {4, 5}} {
				n.Cut(x[0], x[1])
			}
		}, []base.NodeID{3, 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := roundWorld(t, c.regions, Params{})
				defer w.close()
				last := base.NodeID(c.regions)
				w.talk(2 * time.Second)
				since := time.Since(w.begin)
				c.cut(w.net)
				w.talk(4 * time.Second)
				for _, a := range w.ids() {
					for _, b := range w.ids() {
						if gap, _ := w.gap(a, b, since); a != b && gap > 1500*ms {
							t.Errorf("nothing came from node %d to node %d for %v", a, b, gap)
						}
					}
				}
				for _, a := range w.ids() {
					for _, b := range w.ids() {
						if err := w.ask(a, b, time.Second); err != nil {
							t.Errorf("node %d asks node %d: %v", a, b, err)
						}
					}
				}
				if s := w.stats(1, last); !slices.Equal(s.Detour, c.over) {
					t.Errorf("the detour leads over %v, not %v", s.Detour, c.over)
				}
				w.net.HealAll()
				w.talk(3 * time.Second)
				for _, a := range w.ids() {
					if cut := w.nodes[a].Cut(); len(cut) != 0 {
						t.Errorf("3 s after all was whole node %d says that paths are cut: %v", a, cut)
					}
					for _, b := range w.ids() {
						if s := w.stats(a, b); s.Detour != nil {
							t.Errorf("node %d still reaches node %d over %v", a, b, s.Detour)
						}
					}
				}
				before := w.stats(1, last).DetourMsgs
				w.talk(time.Second)
				if n := w.stats(1, last).DetourMsgs; n != before {
					t.Errorf("%d messages made a detour after it was over", n-before)
				}
			})
		})
	}
}

// TestDetourInOrder: the direct path from node 1 to node 3 stalls, as TCP does behind lost packets,
// and what it holds arrives while others make a detour, and again behind it. None of that is
// delivered (OVL-5). Without numbers it is.
func TestDetourInOrder(t *testing.T) {
	for _, broken := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := roundWorld(t, 3, Params{Unnumbered: broken})
			defer w.close()
			w.tolerant = broken
			w.talk(time.Second)
			for range 3 {
				w.stall(1, 3)
				w.talk(2 * time.Second)
				if s := w.stats(1, 3); s.Detour == nil {
					t.Fatal("no detour was made")
				}
				w.release()
				w.talk(4 * time.Second)
			}
			if late := w.late(); late > 0 != broken {
				t.Errorf("numbered: %v: %d messages arrive behind later ones", !broken, late)
			}
			if s := w.stats(3, 1); !broken && s.Dropped == 0 {
				t.Error("nothing was held up")
			}
		})
	}
}

// TestDetourOverHealingLinks: while node 3 is down the path from it to node 1 is cut, and that from
// node 1 to it is not. When it is started anew it is heard over node 2 soon, though node 2 hears it
// again only since then (OVL-8).
func TestDetourOverHealingLinks(t *testing.T) {
	for _, patient := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := roundWorld(t, 3, Params{PatientDetours: patient})
			defer w.close()
			w.talk(time.Second)
			w.net.Crash(3)
			w.leave(3)
			w.talk(2 * time.Second)
			w.net.CutOneWay(3, 1)
			w.talk(time.Second)
			w.join(3, 3)
			since := time.Since(w.begin)
			w.talk(4 * time.Second)
			if gap, _ := w.gap(3, 1, since); patient != (gap > 1500*ms) {
				t.Errorf("patient %v: nothing comes from node 3 to node 1 for %v", patient, gap)
			}
		})
	}
}

// TestDetourOverADetour: nodes 2 and 4 do not hear each other, and make detours over node 3. Then
// node 2 is cut off for three seconds. Node 1, meanwhile started anew, reaches nobody but it. Of
// the path from node 1 over node 2 to node 4, the second link has just healed, and both its ends
// make a detour around it still. What they pass on takes it all the same (OVL-10).
func TestDetourOverADetour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roundWorld(t, 4, Params{})
		defer w.close()
		w.talk(time.Second)
		w.net.Cut(2, 4)
		w.talk(2 * time.Second)
		w.net.Isolate(2)
		w.net.Crash(1)
		w.leave(1)
		w.talk(time.Second)
		w.net.Cut(1, 3)
		w.net.Cut(1, 4)
		w.join(1, 1)
		w.talk(2 * time.Second)
		w.net.Rejoin(2)
		w.net.Heal(2, 4)
		since := time.Since(w.begin)
		w.talk(4 * time.Second)
		for _, x := range [][2]base.NodeID{{1, 4}, {4, 1}, {1, 3}, {3, 1}, {2, 4}, {4, 2}} {
			if gap, _ := w.gap(x[0], x[1], since); gap > 1500*ms {
				t.Errorf("nothing comes from node %d to node %d for %v", x[0], x[1], gap)
			}
		}
	})
}

// TestDetourStays: the detour of nodes 1 and 4 leads over node 2, which is back after a while. The
// links of node 3, which is slower, are whole again sooner. The detour stays (OVL-10). Now and then
// the wish for a detour comes while node 2 is not heard yet. Then it leads over node 3, and stays,
// too.
func TestDetourStays(t *testing.T) {
	over := map[base.NodeID]int{}
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			w := roundWorld(t, 4, Params{})
			defer w.close()
			for _, id := range []base.RegionID{1, 4} {
				w.net.SetPaths(2, id, wan.LinkSpec{Delay: 10 * ms})
			}
			w.talk(time.Second)
			w.net.Cut(1, 4)
			w.net.Isolate(2)
			w.net.Isolate(3)
			w.talk(3 * time.Second)
			w.net.Rejoin(3)
			w.talk(200 * ms)
			w.net.Rejoin(2)
			w.talk(4 * time.Second)
			s := w.stats(1, 4)
			if s.Detours != 1 || len(s.Detour) != 2 || s.Detour[1] != 4 {
				t.Fatalf("node 1 has opened %d detours, the last one over %v", s.Detours, s.Detour)
			}
			over[s.Detour[0]]++
		})
	}
	if over[2] == 0 || over[2]+over[3] != 5 {
		t.Errorf("detours over nodes: %v; of five, one at least is due over node 2", over)
	}
}

// TestSlowOpening: requests on a detour wait for 0.4 s at each node, as behind a lost packet.
// The detour is opened all the same, though such an attempt takes longer than a round trip on its
// path (OVL-9).
func TestSlowOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roundWorld(t, 3, Params{})
		defer w.close()
		w.slow = 400 * ms
		w.talk(time.Second)
		w.net.Cut(1, 3)
		since := time.Since(w.begin)
		w.talk(5 * time.Second)
		for _, x := range [][2]base.NodeID{{1, 3}, {3, 1}} {
			if gap, _ := w.gap(x[0], x[1], since); gap > 2500*ms {
				t.Errorf("nothing comes from node %d to node %d for %v", x[0], x[1], gap)
			}
			if n := w.stats(x[0], x[1]).Detours; n != 1 {
				t.Errorf("node %d has opened %d detours to node %d", x[0], n, x[1])
			}
		}
	})
}

// TestLateOpening: the direct path is whole again before the wish for a detour is answered. No
// request suffers from that (OVL-9).
func TestLateOpening(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roundWorld(t, 3, Params{})
		defer w.close()
		w.talk(time.Second)
		failed := make(chan error, 1)
		go func() { failed <- w.askWait(1, 3) }()
		time.Sleep(100 * ms)
		p := w.nodes[1].peer(3)
		w.nodes[1].open(p, p.out.opening, []base.NodeID{2, 3}, time.Second)
		w.talk(time.Second)
		if n := w.waiting.Load(); n != 1 {
			t.Errorf("%d requests wait, after %v", n, <-failed)
		}
		if gap, _ := w.gap(1, 3, 0); gap > 400*ms {
			t.Errorf("nothing comes from node 1 to node 3 for %v", gap)
		}
	})
}

// TestLateOpeningWhileHealing: the direct path is heard again when the wish is answered, since a
// moment ago. There was no detour, and there is none now (OVL-9).
func TestLateOpeningWhileHealing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roundWorld(t, 3, Params{})
		defer w.close()
		w.talk(time.Second)
		w.net.Cut(1, 3)
		w.net.Isolate(2)
		w.talk(2 * time.Second)
		w.net.HealAll()
		w.net.Rejoin(2)
		w.talk(500 * ms)
		p := w.nodes[1].peer(3)
		if len(w.nodes[1].Cut()) == 0 || p.out.now.Load() != nil {
			t.Fatal("the path does not heal, or messages make a detour")
		}
		w.nodes[1].open(p, p.out.opening, []base.NodeID{2, 3}, time.Second)
		if p.out.now.Load() != nil {
			t.Error("messages make a detour around a path that is heard again")
		}
		since := time.Since(w.begin)
		w.talk(time.Second)
		if gap, _ := w.gap(1, 3, since); gap > 400*ms {
			t.Errorf("nothing comes from node 1 to node 3 for %v", gap)
		}
	})
}

// TestWishes: a wish for a detour that comes again changes nothing, nor does one from before a
// newer one, but that of another process (OVL-9).
func TestWishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roundWorld(t, 2, Params{})
		defer w.close()
		s := w.nodes[2].sender(1)
		first := s.opened(5, 1).Seq
		second := s.opened(5, 2).Seq
		if first == 0 || second <= first {
			t.Fatalf("two wishes have the numbers %d and %d", first, second)
		}
		s.straightened(second)
		if n := s.opened(5, 2).Seq; n != second || s.in.number.Load() != 0 {
			t.Errorf("a wish that comes again has the number %d, not %d; number %d counts", n, second, s.in.number.Load())
		}
		if n := s.opened(5, 1).Seq; n != 0 || s.in.number.Load() != 0 {
			t.Errorf("a wish from before a newer one has the number %d; number %d counts", n, s.in.number.Load())
		}
		if n := s.opened(6, 1).Seq; n <= second || s.in.number.Load() != n {
			t.Errorf("a wish of a new process has the number %d; number %d counts", n, s.in.number.Load())
		}
		if a, b := s.opened(6, 0).Seq, s.opened(6, 0).Seq; a == 0 || b <= a {
			t.Errorf("two wishes of a build without names for them have the numbers %d and %d", a, b)
		}
	})
}

// TestDetourThroughRestarts: whoever of the two ends is started anew during a detour, or just after
// it, the other one is heard again.
func TestDetourThroughRestarts(t *testing.T) {
	for who := base.NodeID(1); who <= 3; who++ {
		synctest.Test(t, func(t *testing.T) {
			w := roundWorld(t, 3, Params{})
			defer w.close()
			for _, whole := range []bool{false, true} {
				w.net.Cut(1, 3)
				w.talk(2 * time.Second)
				if whole {
					w.net.HealAll()
				}
				w.net.Crash(who)
				w.leave(who)
				time.Sleep(50 * ms)
				w.join(who, base.RegionID(who))
				w.talk(3 * time.Second)
				since := time.Since(w.begin)
				w.talk(time.Second)
				for _, x := range [][2]base.NodeID{{1, 3}, {3, 1}} {
					if gap, _ := w.gap(x[0], x[1], since); gap > 200*ms {
						t.Errorf("node %d started anew, whole %v: nothing comes from %d to %d for %v", who, whole,
							x[0], x[1], gap)
					}
				}
				w.net.HealAll()
				w.talk(4 * time.Second)
			}
		})
	}
}

// TestDetoursMissEachOther: two nodes on detours open new ones, and neither gets the other's
// answer. Both drop what comes, and say so; soon after they hear each other again. If such a notice
// counts only with the right number they do not (OVL-5).
func TestDetoursMissEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roundWorld(t, 3, Params{})
		defer w.close()
		w.talk(time.Second)
		w.net.Cut(1, 3)
		w.talk(2 * time.Second)
		since := time.Since(w.begin)
		w.nodes[1].sender(3).opened(0, 7)
		w.nodes[3].sender(1).opened(0, 7)
		w.talk(4 * time.Second)
		for _, x := range [][2]base.NodeID{{1, 3}, {3, 1}} {
			if gap, _ := w.gap(x[0], x[1], since); gap > 700*ms {
				t.Errorf("nothing comes from node %d to node %d for %v", x[0], x[1], gap)
			}
		}
	})
}

// TestDetouredRequests: what is known of a request that failed on a detour.
func TestDetouredRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roundWorld(t, 3, Params{})
		defer w.close()
		w.net.Cut(1, 3)
		time.Sleep(2 * time.Second)
		if err := w.ask(1, 3, time.Second); err != nil {
			t.Fatal(err)
		}
		var r wire.AskResponse
		call := func(ctx context.Context, name string) error {
			return w.nodes[1].Call(ctx, 3, wire.KindAsk, &wire.AskRequest{Name: name}, &r)
		}
		ctx := context.Background()
		err := call(ctx, "fail")
		var e *base.Error
		if !errors.As(err, &e) || e.Code != base.CodeLockTimeout || e.Node != 3 || string(e.Key) != "k" ||
			wan.NeverRan(err) || wan.NoAnswer(err) {
			t.Errorf("the receiver's own error arrives as %v", err)
		}
		if err := w.nodes[1].Call(ctx, 3, wire.KindResolve, &wire.AskRequest{}, &r); !wan.NeverRan(err) {
			t.Errorf("a request without handler: %v", err)
		}
		short, cancel := context.WithTimeout(ctx, 300*ms)
		defer cancel()
		if err := call(short, "wait"); !wan.NoAnswer(err) || base.CodeOf(err) != base.CodeCanceled {
			t.Errorf("a request whose time is over: %v", err)
		}
		if n := w.waiting.Load(); n != 0 {
			synctest.Wait()
			time.Sleep(100 * ms)
			if n := w.waiting.Load(); n != 0 {
				t.Errorf("%d handlers wait on although nobody wants their answers", n)
			}
		}
		time.AfterFunc(500*ms, func() { w.nodes[1].SetLost(3, true) })
		began := time.Now()
		if err := call(ctx, "wait"); !wan.NoAnswer(err) || base.CodeOf(err) != base.CodeUnavailable ||
			time.Since(began) > 600*ms {
			t.Errorf("a request to a peer that is lost: %v after %v", err, time.Since(began))
		}
		if err := call(ctx, "hello"); !wan.NeverRan(err) {
			t.Errorf("a request to a peer that is known to be lost: %v", err)
		}
		w.nodes[1].SetLost(3, false)
		time.AfterFunc(500*ms, func() { w.net.Crash(3) })
		if err := call(ctx, "wait"); !wan.NoAnswer(err) {
			t.Errorf("a request to a node that dies: %v", err)
		}
		if err := call(ctx, "hello"); !wan.NeverRan(err) {
			t.Errorf("a request to a dead node: %v", err)
		}
	})
}

// TestNobodyIsCut: pauses, crashes and slow links begin no detour, and nothing more is sent.
func TestNobodyIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roundWorld(t, 3, Params{})
		defer w.close()
		w.talk(2 * time.Second)
		for _, n := range w.nodes {
			for _, s := range n.Stats() {
				if s.SentMsgs > 150 {
					t.Errorf("%d messages were sent to node %d", s.SentMsgs, s.Peer)
				}
			}
		}
		w.net.Crash(3)
		w.leave(3)
		w.talk(3 * time.Second)
		w.net.SetPaths(1, 2, wan.LinkSpec{Delay: 700 * ms})
		w.talk(5 * time.Second)
		for _, a := range w.ids() {
			for _, b := range w.ids() {
				if s := w.stats(a, b); s.Detours != 0 {
					t.Errorf("node %d made a detour to node %d", a, b)
				}
			}
		}
	})
}

// TestNobodyIsCutByARestart: a node that was away for long is back. Its peers hear it again, one a
// little before the other. Nobody makes a detour to it, nor it to anybody.
func TestNobodyIsCutByARestart(t *testing.T) {
	for late := time.Duration(0); late < 10*ms; late += ms {
		synctest.Test(t, func(t *testing.T) {
			w := roundWorld(t, 4, Params{})
			defer w.close()
			again := func(id base.NodeID, after time.Duration) {
				w.net.Crash(id)
				w.leave(id)
				w.talk(after)
				w.join(id, base.RegionID(id))
			}
			again(2, 30*ms) // or all would look at their links at the same moments
			again(3, 40*ms+late)
			w.talk(5 * time.Second)
			again(4, 5*time.Second+5*late)
			w.talk(5 * time.Second)
			for _, a := range w.ids() {
				for _, b := range w.ids() {
					if s := w.stats(a, b); s.Detours != 0 {
						t.Errorf("late by %v: node %d made a detour to node %d", late, a, b)
					}
				}
			}
		})
	}
}

// TestDetoursHaveAnEnd: what does not lead over the node that gets it, or over too many, goes
// nowhere.
func TestDetoursHaveAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := roundWorld(t, 3, Params{})
		defer w.close()
		time.Sleep(time.Second)
		for _, path := range [][]uint32{nil, {3}, {2, 2, 2, 2, 2, 2, 2}, {2, 1, 2, 1, 2, 1, 2, 1, 2}} {
			_ = w.nodes[1].Transport.Send(2, wire.KindDetour,
				&wire.Detour{Origin: 1, Path: path, Kind: uint32(wire.KindRaft), Number: 5})
			if err := w.nodes[1].Transport.Call(context.Background(), 2, wire.KindDetourCall,
				&wire.Detour{Origin: 1, Path: path, Kind: uint32(wire.KindAsk)}, &wire.DetourAnswer{}); err != nil {
				t.Errorf("%v: %v", path, err)
			}
		}
		time.Sleep(time.Second)
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.seen); n != 0 {
			t.Errorf("%d messages arrived", n)
		}
	})
}
