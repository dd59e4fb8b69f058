package overlay

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// world is nodes with overlays on an emulated network, in virtual time. What arrives is judged as
// it does.
type world struct {
	t      *testing.T
	net    *wan.Network
	begin  time.Time
	on     Params
	nodes  map[base.NodeID]*testNode
	joined []base.NodeID
	// lose, if not nil, says whether a node is to miss a message that arrives, whatever it is.
	lose func(at, from base.NodeID, kind wire.Kind, body []byte) bool

	// beats makes nodes send heartbeats, by which they notice cuts.
	beats bool
	// tolerant counts what arrives out of order; else it is an error.
	tolerant bool
	waiting  atomic.Int64 // handlers that wait

	slow    time.Duration   // what requests on a detour wait for at each node, as behind a lost packet
	stalled *[2]base.NodeID // the direct path that holds what is sent on it
	held    []func()        // in order

	mu    sync.Mutex
	lates int
	seen  map[[2]base.NodeID][]arrival // by sender and receiver
	sent  map[[2]base.NodeID]uint64
}

type arrival struct {
	n    uint64
	at   time.Duration
	took time.Duration
}

type testNode struct {
	*Overlay
	w *world
}

// lossy is a transport whose node misses messages.
type lossy struct {
	wan.Transport
	w *world
}

func (l lossy) HandleOrdered(kind wire.Kind, h func(base.NodeID, []byte)) {
	l.Transport.HandleOrdered(kind, func(from base.NodeID, body []byte) {
		l.w.mu.Lock()
		lost := l.w.lose != nil && l.w.lose(l.Self(), from, kind, body)
		if x := l.w.stalled; x != nil && *x == [2]base.NodeID{from, l.Self()} {
			lost = true
			l.w.held = append(l.w.held, func() { h(from, body) })
		}
		l.w.mu.Unlock()
		if !lost {
			h(from, body)
		}
	})
}

func (l lossy) Handle(kind wire.Kind, h wan.Handler) {
	l.Transport.Handle(kind, func(ctx context.Context, from base.NodeID, body []byte) (wan.Msg, error) {
		l.w.mu.Lock()
		slow := l.w.slow
		l.w.mu.Unlock()
		if kind == wire.KindDetourCall {
			time.Sleep(slow)
		}
		return h(ctx, from, body)
	})
}

// newWorld has node i in region regions[i-1]; delays are one way, between regions.
func newWorld(t *testing.T, opt wan.NetOptions, regions []base.RegionID, delays [][]time.Duration) *world {
	opt.LAN = wan.LinkSpec{Delay: 250 * time.Microsecond}
	w := &world{t: t, net: wan.NewNetwork(opt), begin: time.Now(), nodes: map[base.NodeID]*testNode{},
		seen: map[[2]base.NodeID][]arrival{}, sent: map[[2]base.NodeID]uint64{}}
	w.net.SetOneWay(delays)
	for i, r := range regions {
		w.join(base.NodeID(i+1), r)
	}
	return w
}

// stall holds what one node sends another directly until release.
func (w *world) stall(from, to base.NodeID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stalled = &[2]base.NodeID{from, to}
}

func (w *world) release() {
	w.mu.Lock()
	held := w.held
	w.stalled, w.held = nil, nil
	w.mu.Unlock()
	for _, f := range held {
		f()
	}
}

func (w *world) late() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lates
}

func (w *world) ids() []base.NodeID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Sorted(maps.Keys(w.nodes))
}

// members are all nodes that have ever joined: those that are away, too.
func (w *world) members() []base.NodeID {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.joined)
}

// leave forgets a node that has crashed.
func (w *world) leave(id base.NodeID) {
	w.mu.Lock()
	n := w.nodes[id]
	delete(w.nodes, id)
	w.mu.Unlock()
	n.Close()
}

// answer is the handler of questions.
func (w *world) answer(ctx context.Context, _ base.NodeID, body []byte) (wan.Msg, error) {
	var q wire.AskRequest
	if err := q.UnmarshalVT(body); err != nil {
		return nil, err
	}
	switch q.Name {
	case "fail":
		return nil, &base.Error{Code: base.CodeLockTimeout, Msg: "no", Node: 3, Key: base.Key("k")}
	case "wait":
		w.waiting.Add(1)
		defer w.waiting.Add(-1)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return &wire.AskResponse{Body: q.Body}, nil
}

func (w *world) join(id base.NodeID, r base.RegionID) {
	n := &testNode{w: w}
	var peers func() []base.NodeID
	if w.beats {
		peers = w.members
	}
	n.Overlay = New(Options{Transport: lossy{w.net.Join(id, r), w}, Nodes: w.ids, Peers: peers,
		RTT: func(a, b base.NodeID) time.Duration { // a map that knows nothing of what fails
			x, y := n.Region(a), n.Region(b)
			return w.net.Path(x, y).Delay + w.net.Path(y, x).Delay
		}})
	n.HandleOrdered(wire.KindRaft, func(from base.NodeID, body []byte) { w.arrived(from, id, body) })
	n.HandleOrdered(wire.KindHeartbeat, func(base.NodeID, []byte) {})
	n.Handle(wire.KindAsk, w.answer)
	n.SetParams(w.on)
	w.mu.Lock()
	w.nodes[id] = n
	if !slices.Contains(w.joined, id) {
		w.joined = append(w.joined, id)
	}
	w.mu.Unlock()
	if err := n.Start(); err != nil {
		w.t.Error(err)
	}
	if w.beats {
		n.wg.Go(func() { w.beat(n) })
	}
}

func (w *world) close() {
	for _, n := range w.nodes {
		n.Close()
	}
	w.net.Close()
}

func (w *world) params(p Params) {
	w.on = p
	for _, n := range w.nodes {
		n.SetParams(p)
	}
}

func (w *world) next(from, to base.NodeID) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent[[2]base.NodeID{from, to}]++
	b := binary.BigEndian.AppendUint64(nil, w.sent[[2]base.NodeID{from, to}])
	return binary.BigEndian.AppendUint64(b, uint64(time.Since(w.begin)))
}

// send has one node send another its next numbered message.
func (w *world) send(from, to base.NodeID) {
	_ = w.nodes[from].Send(to, wire.KindRaft, &wire.RaftBatch{Groups: []uint32{0}, Messages: [][]byte{w.next(from, to)}})
}

// arrived checks OVL-1.
func (w *world) arrived(from, to base.NodeID, body []byte) {
	b := new(wire.RaftBatch)
	if err := b.UnmarshalVT(body); err != nil {
		w.t.Error(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	k := [2]base.NodeID{from, to}
	for _, m := range b.Messages {
		n, at := binary.BigEndian.Uint64(m), time.Duration(binary.BigEndian.Uint64(m[8:]))
		if s := w.seen[k]; len(s) > 0 && s[len(s)-1].n >= n {
			if w.lates++; !w.tolerant {
				w.t.Errorf("%v: message %d arrives after %d", k, n, s[len(s)-1].n)
			}
		}
		w.seen[k] = append(w.seen[k], arrival{n, time.Since(w.begin), time.Since(w.begin) - at})
	}
}

// all checks that every message has arrived, and returns them.
func (w *world) all(from, to base.NodeID) []arrival {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	k := [2]base.NodeID{from, to}
	if len(w.seen[k]) != int(w.sent[k]) {
		w.t.Errorf("%v: %d of %d messages arrived", k, len(w.seen[k]), w.sent[k])
	}
	return w.seen[k]
}

func (w *world) stats(at, peer base.NodeID) Stats {
	for _, s := range w.nodes[at].OverStats() {
		if s.Peer == peer {
			return s
		}
	}
	return Stats{}
}

const ms = time.Millisecond

// triangle is three regions of which 1-2-3 is faster than 1-3, by 60 ms of 100.
func triangle() [][]time.Duration {
	return [][]time.Duration{{0, 20 * ms, 100 * ms}, {20 * ms, 0, 20 * ms}, {100 * ms, 20 * ms, 0}}
}

func relayWorld(t *testing.T) *world {
	w := newWorld(t, wan.NetOptions{}, []base.RegionID{1, 2, 3}, triangle())
	w.params(Params{Relay: true})
	return w
}

// load sends a message each 10 ms, from node 1 to 3.
func (w *world) load(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(10 * ms) {
		w.send(1, 3)
	}
}

func longest(s []arrival) (d time.Duration) {
	for _, a := range s {
		d = max(d, a.took)
	}
	return d
}

func TestRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := relayWorld(t)
		defer w.close()
		w.load(10 * time.Second)
		time.Sleep(time.Second)
		s := w.all(1, 3)
		if d := longest(s[len(s)/2:]); d != 40*ms {
			t.Errorf("over the relay a message took %v", d)
		}
		if d := longest(s); d != 100*ms {
			t.Errorf("a message took %v", d)
		}
		if st := w.stats(1, 3); st.Via != 2 || st.Stints != 1 || st.Fallbacks+st.ResentMsgs != 0 ||
			st.Gain != 60*ms || st.RelayedMsgs < 500 {
			t.Errorf("%+v", st)
		}
		if st := w.stats(2, 1); st.PassedMsgs < 500 {
			t.Errorf("the relay: %+v", st)
		}
		// Switched off in the midst of it, nothing is lost or delivered in another order.
		w.load(100 * ms)
		w.params(Params{})
		w.load(time.Second)
		time.Sleep(time.Second)
		s = w.all(1, 3)
		if st := w.stats(1, 3); st.Via != 0 || st.Fallbacks != 0 || s[len(s)-1].took != 100*ms {
			t.Errorf("after it was switched off: %+v, %v", st, s[len(s)-1].took)
		}
	})
}

// TestNoGainNoRelay: paths that are as fast directly, or hardly slower, have no relay.
func TestNoGainNoRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, wan.NetOptions{}, []base.RegionID{1, 2, 3},
			[][]time.Duration{{0, 20 * ms, 41 * ms}, {20 * ms, 0, 20 * ms}, {41 * ms, 20 * ms, 0}})
		defer w.close()
		w.params(Params{Relay: true})
		w.load(10 * time.Second)
		time.Sleep(time.Second)
		if st := w.stats(1, 3); st.Stints != 0 {
			t.Errorf("%+v", st)
		}
		w.all(1, 3)
	})
}

// TestFallback: whatever happens to the relay, no message is lost, and none takes longer than OVL-3
// allows.
func TestFallback(t *testing.T) {
	bound := patience(200*ms) + tickEvery + 100*ms
	for name, hurt := range map[string]func(w *world){
		"dies":         func(w *world) { w.net.Crash(2) },
		"is told dead": func(w *world) { w.net.Crash(2); w.nodes[1].PeerDown(2) },
		"cut before":   func(w *world) { w.net.CutNodes(1, 2) },
		"cut behind":   func(w *world) { w.net.CutNodes(2, 3) },
		"slow":         func(w *world) { w.net.SetPath(2, 3, wan.LinkSpec{Delay: 400 * ms}) },
		"slower":       func(w *world) { w.net.SetPath(2, 3, wan.LinkSpec{Delay: 90 * ms}) },
		"no receipts":  func(w *world) { w.net.CutOneWay(3, 1) },
		"lets all fall": func(w *world) {
			w.lose = func(at, _ base.NodeID, kind wire.Kind, _ []byte) bool { return at == 2 && kind == wire.KindParcel }
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := relayWorld(t)
				defer w.close()
				w.load(6 * time.Second)
				if w.stats(1, 3).Via != 2 {
					t.Fatal("no relay")
				}
				w.mu.Lock()
				hurt(w)
				w.mu.Unlock()
				w.load(3 * time.Second)
				time.Sleep(time.Second)
				if d := longest(w.all(1, 3)); d > bound {
					t.Errorf("a message took %v of at most %v", d, bound)
				}
				if st := w.stats(1, 3); st.Via != 0 || st.Fallbacks == 0 {
					t.Errorf("%+v", st)
				}
			})
		})
	}
}

// TestEveryMessage: any single message of relaying may be lost, of stints that begin, go on and
// end; at most that one is missing in the end.
func TestEveryMessage(t *testing.T) {
	for n := range 60 {
		synctest.Test(t, func(t *testing.T) {
			w := relayWorld(t)
			defer w.close()
			w.on.Window = time.Second
			w.params(w.on)
			// Messages are counted from shortly before the stint begins.
			count, missed := -1, ""
			w.lose = func(at, from base.NodeID, kind wire.Kind, body []byte) bool {
				x := new(wire.ParcelNotice)
				if kind == wire.KindParcelNotice && x.UnmarshalVT(body) == nil && x.What == noticeBegin {
					count = 0
				}
				if kind == wire.KindHeartbeat || count < 0 {
					return false
				}
				if count++; count != n+1 {
					return false
				}
				missed = fmt.Sprint(at, from, kind, x.What)
				return true
			}
			w.load(2500 * ms)
			w.net.CutNodes(2, 3)
			w.load(300 * ms)
			w.net.HealNodes(2, 3)
			w.load(3 * time.Second)
			w.params(Params{})
			w.load(time.Second)
			time.Sleep(5 * time.Second)
			w.mu.Lock()
			got, sent := len(w.seen[[2]base.NodeID{1, 3}]), int(w.sent[[2]base.NodeID{1, 3}])
			w.mu.Unlock()
			if sent-got > 1 || count < 60 {
				t.Errorf("without message %d (%s): %d of %d arrived", n, missed, got, sent)
			}
		})
	}
}

// TestNoLoops is OVL-2 against nodes that believe anything: parcels with any origin and receiver,
// sent by anybody, are passed on once at most, and then by somebody who has them from their origin.
func TestNoLoops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const nodes = 5
		w := newWorld(t, wan.NetOptions{}, []base.RegionID{1, 2, 3, 4, 5}, nil)
		defer w.close()
		rnd := rand.New(rand.NewPCG(1, 1))
		hops := map[uint64][]wan.Tapped{}
		var mu sync.Mutex
		w.net.Tap(func(m wan.Tapped) {
			if m.Kind != wire.KindParcel {
				return
			}
			x := new(wire.Parcel)
			if err := x.UnmarshalVT(m.Frame[24:]); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			hops[x.Seq] = append(hops[x.Seq], m)
		})
		origins := map[uint64]base.NodeID{}
		node := func() base.NodeID { return base.NodeID(1 + rnd.IntN(nodes)) }
		for i := range uint64(2000) {
			from, to := node(), node()
			if from == to {
				continue
			}
			x := &wire.Parcel{Origin: uint32(node()), To: uint32(node()), Stint: rnd.Uint64N(2), Seq: i + 1,
				Kind: uint32(wire.KindRaft)}
			origins[x.Seq] = base.NodeID(x.Origin)
			_ = w.nodes[from].Transport.Send(to, wire.KindParcel, x)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		passed := 0
		for seq, h := range hops {
			if len(h) > 2 || len(h) == 2 && h[0].From != origins[seq] {
				t.Errorf("parcel %d of %d went %v", seq, origins[seq], h)
			}
			if len(h) == 2 {
				passed++
			}
		}
		if passed < 100 {
			t.Errorf("only %d parcels were passed on", passed)
		}
	})
}

// TestAnyFaults: seeds of nodes that crash, cuts of any direction, loss and paths that change, all
// pairs sending. The order is judged as messages arrive; in the end all is well again.
func TestAnyFaults(t *testing.T) {
	seeds := 16
	if testing.Short() {
		seeds = 5
	}
	stints, fallbacks := uint64(0), uint64(0)
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(uint64(seed), 7))
			const nodes, regions = 5, 4
			delays := func() [][]time.Duration {
				d := make([][]time.Duration, regions)
				for i := range d {
					d[i] = make([]time.Duration, regions)
					for j := range i {
						d[i][j] = time.Duration(5+rnd.IntN(150)) * ms
						d[j][i] = d[i][j]
					}
				}
				return d
			}
			w := newWorld(t, wan.NetOptions{Seed: uint64(seed), DropSends: seed%2 == 0}, []base.RegionID{1, 2, 3, 4, 4}, delays())
			defer w.close()
			w.params(Params{Relay: true, FanOut: true, Window: time.Second})
			stop := make(chan struct{})
			var wg sync.WaitGroup
			send := func() {
				for a := range base.NodeID(nodes) {
					for b := range base.NodeID(nodes) {
						if a != b {
							w.send(a+1, b+1)
						}
					}
				}
			}
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(20 * ms):
						send()
					}
				}
			})
			for range 25 {
				time.Sleep(time.Duration(rnd.IntN(1500)) * ms)
				a, b := base.NodeID(1+rnd.IntN(nodes)), base.NodeID(1+rnd.IntN(nodes))
				switch rnd.IntN(6) {
				case 0:
					w.net.CutNodes(a, b)
				case 1:
					w.net.CutOneWay(w.nodes[a].Region(a), w.nodes[b].Region(b))
				case 2:
					w.net.SetOneWay(delays())
				case 3:
					x, y := base.RegionID(1+rnd.IntN(regions)), base.RegionID(1+rnd.IntN(regions))
					s := w.net.Path(x, y)
					s.Loss, s.Jitter = 0.1*rnd.Float64(), time.Duration(rnd.IntN(20))*ms
					w.net.SetPath(x, y, s)
				case 4:
					w.net.HealAll()
				case 5:
					w.nodes[a].PeerDown(b)
				}
			}
			w.net.HealAll()
			for x := range base.RegionID(regions) {
				for y := range base.RegionID(regions) {
					w.net.SetPath(x+1, y+1, wan.LinkSpec{Delay: w.net.Path(x+1, y+1).Delay})
				}
			}
			time.Sleep(5 * time.Second)
			w.mu.Lock()
			from := map[[2]base.NodeID]uint64{}
			for k, n := range w.sent {
				from[k] = n
			}
			w.mu.Unlock()
			time.Sleep(5 * time.Second)
			close(stop)
			wg.Wait()
			time.Sleep(2 * time.Second)
			w.mu.Lock()
			defer w.mu.Unlock()
			for k, n := range w.sent {
				late := 0
				for _, a := range w.seen[k] {
					if a.n > from[k] {
						late++
					}
				}
				if late != int(n-from[k]) {
					t.Errorf("seed %d: %v: after all was healed %d of %d messages arrived", seed, k, late, n-from[k])
				}
			}
			for _, n := range w.nodes {
				for _, s := range n.OverStats() {
					stints += s.Stints
					fallbacks += s.Fallbacks
				}
			}
		})
	}
	if stints < 20 || fallbacks < 10 {
		t.Errorf("%d stints, %d fallbacks: the faults miss what they are for", stints, fallbacks)
	}
	t.Logf("%d stints, %d fallbacks", stints, fallbacks)
}

// TestMetrics: the counters are fit for a registry, and say what happened.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := relayWorld(t)
		defer w.close()
		w.load(6 * time.Second)
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(w.nodes[1].Collector(nil))
		all, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range all {
			for _, m := range f.Metric {
				for _, l := range m.Label {
					if l.GetName() == "peer" && l.GetValue() == "3" {
						got[f.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
					}
				}
			}
		}
		if got["godwit_overlay_relayed_messages_total"] < 100 || got["godwit_overlay_gain_seconds"] != 0.06 ||
			got["godwit_overlay_fallbacks_total"] != 0 {
			t.Errorf("%v", got)
		}
	})
}
