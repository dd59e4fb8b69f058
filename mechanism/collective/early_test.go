package collective

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan"
)

// What comes for a communicator that this node joins a moment later is not asked for again: a round
// costs what it costs, not the time that it takes to miss something.
func TestEarlyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const oneWay = 30 * time.Millisecond
		net := wan.NewNetwork(wan.NetOptions{WAN: wan.LinkSpec{Delay: oneWay}})
		defer net.Close()
		nodes := []base.NodeID{1, 2}
		var svcs []*Service
		for _, id := range nodes {
			tr := net.Join(id, base.RegionID(id))
			svcs = append(svcs, New(tr))
			for _, o := range nodes {
				tr.SetPeer(o, "", base.RegionID(o))
			}
			if err := tr.Start(); err != nil {
				t.Fatal(err)
			}
		}
		first, err := svcs[0].Join(7, nodes, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer first.Close()
		begin := time.Now()
		done := make(chan error, 1)
		go func() {
			_, err := first.AllGather(t.Context(), 1, []byte("a"))
			done <- err
		}()
		time.Sleep(2 * oneWay) // its message has come, and nobody waits for it
		second, err := svcs[1].Join(7, nodes, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		got, err := second.AllGather(t.Context(), 1, []byte("b"))
		if err != nil || string(got[0]) != "a" || string(got[1]) != "b" {
			t.Fatalf("%q, %v", got, err)
		}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > 3*oneWay+5*time.Millisecond {
			t.Errorf("the round took %v", d)
		}
		if w := first.Stats().Wants + second.Stats().Wants; w > 0 {
			t.Errorf("%d requests for what had come already", w)
		}

		// Others are not kept without bound.
		for i := range 2 * maxEarly {
			svcs[0].mu.Lock()
			svcs[0].keep(early{2, nil, 100 + i})
			svcs[0].mu.Unlock()
		}
		if n := len(svcs[0].early); n > maxEarly {
			t.Errorf("%d early messages are kept", n)
		}
		svcs[0].keep(early{2, nil, maxEarlyBytes})
		if n := len(svcs[0].early); n > 1 {
			t.Errorf("%d early messages are kept beside a large one", n)
		}
	})
}
