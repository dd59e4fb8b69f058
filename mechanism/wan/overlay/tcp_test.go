package overlay

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
	"github.com/godwitdb/godwit/wire"
)

// TestOverTCP is relays and fan-out proxies over sockets: node 1, the relay 2, and nodes 3 to 5 in
// a region. All of them are on loopback, where no relay is faster, so the relay is not found but
// set.
func TestOverTCP(t *testing.T) {
	const n = 5
	regions := map[base.NodeID]base.RegionID{1: 1, 2: 2, 3: 3, 4: 3, 5: 3}
	var (
		mu   sync.Mutex
		seen = map[base.NodeID][]uint64{}
		over = map[base.NodeID]*Overlay{}
		trs  = map[base.NodeID]*wan.TCP{}
	)
	for id := base.NodeID(1); id <= n; id++ {
		tr, err := wan.NewTCP(wan.TCPOptions{Self: id, Region: regions[id], ClusterID: "c", Listen: "127.0.0.1:0",
			RetryMin: time.Millisecond, RetryMax: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		o := New(Options{Transport: tr, RTT: func(a, b base.NodeID) time.Duration { return 100 * time.Millisecond }})
		o.HandleOrdered(wire.KindRaft, func(from base.NodeID, body []byte) {
			b := new(wire.RaftBatch)
			if err := b.UnmarshalVT(body); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, m := range b.Messages {
				seen[id] = append(seen[id], uint64(len(m)))
			}
		})
		o.SetParams(Params{Relay: true, FanOut: true})
		over[id], trs[id] = o, tr
		t.Cleanup(func() { o.Close() })
	}
	for a := range trs {
		for b := range trs {
			if a != b {
				trs[a].SetPeer(b, trs[b].Addr().String(), regions[b])
			}
		}
	}
	for _, o := range over {
		if err := o.Start(); err != nil {
			t.Fatal(err)
		}
	}
	await := func(id base.NodeID, count int) {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			got := len(seen[id])
			mu.Unlock()
			if got >= count {
				break
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for i, x := range seen[id] {
			if x != uint64(i+1) {
				t.Fatalf("node %d: message %d is the %dth", id, x, i+1)
			}
		}
		if len(seen[id]) != count {
			t.Fatalf("node %d has %d messages of %d", id, len(seen[id]), count)
		}
	}
	sent := 0
	send := func(count int) {
		for range count {
			sent++
			if err := over[1].Send(3, wire.KindRaft,
				&wire.RaftBatch{Groups: []uint32{1}, Messages: [][]byte{make([]byte, sent)}}); err != nil {
				t.Error(err)
			}
		}
	}
	send(10)
	p := over[1].peer(3)
	p.mu.Lock()
	if !p.begin(laneRelay, 2) {
		t.Error("no stint")
	}
	p.route = route{relay: 2, inUse: true}
	p.mu.Unlock()
	send(500)
	await(3, sent)
	// All went over the relay, or, on a busy machine, as many as it passed on in time.
	failed := func() bool {
		return slices.ContainsFunc(over[1].OverStats(), func(s Stats) bool { return s.Peer == 3 && s.Fallbacks > 0 })
	}
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		s := over[2].OverStats() // it counts what it has sent
		if len(s) > 0 && (s[0].PassedMsgs == 500 || s[0].PassedMsgs > 0 && failed()) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the relay: %+v", s)
		}
	}
	// The relay ends in the midst of it.
	send(200)
	if err := over[2].Close(); err != nil {
		t.Error(err)
	}
	send(200)
	await(3, sent)
	// What nodes 3 to 5 have in common crosses once.
	run := make([]byte, 10_000)
	var shares []*wire.RaftShare
	for id := base.NodeID(3); id <= 5; id++ {
		mu.Lock()
		seen[id] = nil
		mu.Unlock()
		shares = append(shares, &wire.RaftShare{To: uint32(id),
			Batch: &wire.RaftBatch{Groups: []uint32{1}, Messages: [][]byte{{}}}, Runs: []uint32{1}})
	}
	if err := over[1].SendShared(3, [][]byte{run}, shares); err != nil {
		t.Error(err)
	}
	for id := base.NodeID(3); id <= 5; id++ {
		for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
			mu.Lock()
			got := len(seen[id]) == 1 && seen[id][0] == uint64(len(run))
			mu.Unlock()
			if got {
				break
			}
		}
		mu.Lock()
		if len(seen[id]) != 1 || seen[id][0] != uint64(len(run)) {
			t.Errorf("node %d: %v", id, seen[id])
		}
		mu.Unlock()
	}
	bundles := uint64(0)
	for _, l := range trs[1].Stats() {
		for _, k := range l.Kinds {
			if k.Kind == wire.KindRaftBundle {
				bundles += k.SentBytes
			}
		}
	}
	if bundles == 0 || bundles > uint64(len(run)+200) {
		t.Errorf("bundles of %d bytes", bundles)
	}
}
