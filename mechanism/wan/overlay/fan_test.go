package overlay

import (
	"bytes"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// fanWorld is node 1 in a region, and nodes 2 to 4 in another one, 50 ms away.
func fanWorld(t *testing.T) *world {
	w := newWorld(t, wan.NetOptions{}, []base.RegionID{1, 2, 2, 2}, [][]time.Duration{{0, 50 * ms}, {50 * ms, 0}})
	w.params(Params{FanOut: true})
	return w
}

// shared sends nodes 2 to 4 their next numbered messages, which end with the same run.
func (w *world) shared(run []byte) {
	var shares []*wire.RaftShare
	for id := base.NodeID(2); id <= 4; id++ {
		b := w.next(1, id)
		shares = append(shares, &wire.RaftShare{To: uint32(id),
			Batch: &wire.RaftBatch{Groups: []uint32{7, 7}, Messages: [][]byte{b, nil}}, Runs: []uint32{1, 0}})
		shares[len(shares)-1].Batch.Messages[1] = w.next(1, id)
	}
	_ = w.nodes[1].SendShared(2, [][]byte{run}, shares)
}

func TestSharedCrossesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := fanWorld(t)
		defer w.close()
		run := bytes.Repeat([]byte("x"), 1000)
		var mu sync.Mutex
		bodies := map[base.NodeID][]byte{}
		for id, n := range w.nodes {
			deliver := n.handlers[wire.KindRaft]
			n.handlers[wire.KindRaft] = func(from base.NodeID, body []byte) {
				b := new(wire.RaftBatch)
				if err := b.UnmarshalVT(body); err != nil || len(b.Messages) != 2 {
					t.Error(err, len(b.Messages))
				}
				mu.Lock()
				bodies[id] = b.Messages[0][16:]
				mu.Unlock()
				deliver(from, body)
			}
		}
		crossed := 0
		w.net.Tap(func(m wan.Tapped) {
			if m.From == 1 && (m.Kind == wire.KindRaft || m.Kind == wire.KindRaftBundle) {
				mu.Lock()
				crossed += len(m.Frame)
				mu.Unlock()
			}
		})
		for range 10 {
			w.shared(run)
			time.Sleep(30 * ms)
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		for id := base.NodeID(2); id <= 4; id++ {
			if !bytes.Equal(bodies[id], run) {
				t.Errorf("node %d has %d bytes of the run", id, len(bodies[id]))
			}
			for _, a := range w.all(1, id) {
				if a.took > 50*ms+250*time.Microsecond {
					t.Errorf("node %d: %v", id, a.took)
				}
			}
		}
		if crossed > 10*(len(run)+350) {
			t.Errorf("%d bytes crossed", crossed)
		}
		saved, sharedMsgs := uint64(0), uint64(0)
		for _, s := range w.nodes[1].OverStats() {
			saved += s.SavedBytes
			sharedMsgs += s.SharedMsgs
			if s.ResentMsgs+s.Fallbacks > 0 {
				t.Errorf("%+v", s)
			}
		}
		if saved != 20*uint64(len(run)) || sharedMsgs != 20 {
			t.Errorf("%d bytes saved in %d messages", saved, sharedMsgs)
		}
	})
}

// TestDoorFails: the others of a region get what they should, although the node that should hand it
// on does not.
func TestProxyFails(t *testing.T) {
	for name, hurt := range map[string]func(*world, base.NodeID){
		"dies":   func(w *world, d base.NodeID) { w.net.Crash(d) },
		"cut":    func(w *world, d base.NodeID) { w.net.Isolate(d) },
		"within": func(w *world, d base.NodeID) { w.net.Cut(2, 2) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := fanWorld(t)
				defer w.close()
				for range 50 {
					w.shared([]byte("run"))
					time.Sleep(10 * ms)
				}
				proxy := w.nodes[1].proxys[2]
				hurt(w, proxy)
				for range 50 {
					w.shared([]byte("run"))
					time.Sleep(10 * ms)
				}
				time.Sleep(time.Second)
				bound := patience(100*ms) + tickEvery + 50*ms
				for id := base.NodeID(2); id <= 4; id++ {
					if id == proxy {
						continue
					}
					// Messages over a next fan-out proxy may overtake those that were sent
					// directly: that is not the same lane.
					if d := longest(w.all(1, id)); d > 2*bound {
						t.Errorf("node %d: a message took %v of at most %v", id, d, 2*bound)
					}
				}
				if w.stats(1, proxy).Proxy != 0 || w.nodes[1].proxys[2] == proxy && name != "within" {
					t.Errorf("the fan-out proxy is still node %d", proxy)
				}
			})
		})
	}
}

// TestBundleOverRelay: a bundle travels over a relay to its fan-out proxy, which hands the rest on.
func TestBundleOverRelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// 1, then the nodes of region 2, far away, and node 5 between them.
		w := newWorld(t, wan.NetOptions{}, []base.RegionID{1, 2, 2, 2, 3},
			[][]time.Duration{{0, 100 * ms, 20 * ms}, {100 * ms, 0, 20 * ms}, {20 * ms, 20 * ms, 0}})
		defer w.close()
		w.params(Params{Relay: true, FanOut: true})
		for range 600 {
			w.shared([]byte("run"))
			time.Sleep(10 * ms)
		}
		time.Sleep(time.Second)
		proxy := w.nodes[1].proxys[2]
		if w.stats(1, proxy).Via != 5 {
			t.Errorf("fan-out proxy %d: %+v", proxy, w.stats(1, proxy))
		}
		for id := base.NodeID(2); id <= 4; id++ {
			if id != proxy && w.stats(1, id).Proxy != proxy {
				t.Errorf("node %d: %+v", id, w.stats(1, id))
			}
		}
		for id := base.NodeID(2); id <= 4; id++ {
			s := w.all(1, id)
			if d := longest(s[len(s)-50:]); d > 41*ms {
				t.Errorf("node %d: %v", id, d)
			}
		}
	})
}
