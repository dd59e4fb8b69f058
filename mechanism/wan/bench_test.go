package wan

import (
	"context"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// BenchmarkCall is a round trip with 100 bytes each way: alone, and 64 at a time.
func BenchmarkCall(b *testing.B) {
	for name, mk := range map[string]pairMaker{"tcp": tcpPair, "net": netPair} {
		x, y := mk(b, Limits{})
		y.Handle(wire.KindRead, echo)
		start(b, x, y)
		req := kv(1, make([]byte, 100))
		call := func(b *testing.B) {
			var resp wire.KV
			if err := x.Call(context.Background(), 2, wire.KindRead, req, &resp); err != nil {
				b.Error(err)
			}
		}
		b.Run(name+"/one", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				call(b)
			}
		})
		b.Run(name+"/many", func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call(b)
				}
			})
		})
	}
}

// BenchmarkSend is one-way messages of 200 bytes, sent as fast as they are handled.
func BenchmarkSend(b *testing.B) {
	for name, mk := range map[string]pairMaker{"tcp": tcpPair, "net": netPair} {
		x, y := mk(b, Limits{})
		var got atomic.Int64
		y.HandleOrdered(wire.KindRaft, func(base.NodeID, []byte) { got.Add(1) })
		start(b, x, y)
		m := kv(1, make([]byte, 200))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			got.Store(0)
			sent := int64(0)
			for b.Loop() {
				for x.Send(2, wire.KindRaft, m) != nil {
					time.Sleep(100 * time.Microsecond) // the queue is full
				}
				sent++
			}
			for got.Load() < sent {
				time.Sleep(100 * time.Microsecond)
			}
		})
	}
}

// TestPreciseDelays measures the emulation in real time; it has no threshold
// that a busy machine could miss, but GODWIT_WAN_PRECISION=1 prints the figures.
func TestPreciseDelays(t *testing.T) {
	for _, precise := range []bool{false, true} {
		for _, delay := range []time.Duration{250 * time.Microsecond, 20 * time.Millisecond} {
			n := NewNetwork(NetOptions{Precise: precise, WAN: LinkSpec{Delay: delay}})
			a, b := n.Join(1, 1), n.Join(2, 2)
			b.Handle(wire.KindRead, echo)
			start(t, a, b)
			var over []time.Duration
			for range 40 {
				begin := time.Now()
				if err := a.Call(context.Background(), 2, wire.KindRead, kv(1, nil), nil); err != nil {
					t.Fatal(err)
				}
				over = append(over, time.Since(begin)-2*delay)
			}
			slices.Sort(over)
			if over[0] < 0 {
				t.Errorf("a round trip took %v less than the delays", -over[0])
			}
			if os.Getenv("GODWIT_WAN_PRECISION") != "" {
				t.Logf("precise %v, one way %v: round trip is late by %v (median), %v (worst of 40)", precise, delay,
					over[20], over[39])
			}
			n.Close()
		}
	}
}
