package wan

import (
	"context"
	"net"
	"sync/atomic"
	"testing"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestBatching counts the writes of what has gathered before a connection is up: one, or one for
// each frame; within a region one.
func TestBatching(t *testing.T) {
	const frames = 200
	wires := map[bool]uint64{}
	for _, x := range []struct {
		name   string
		region base.RegionID
		off    bool
		writes uint64
	}{{"on", 2, false, 1}, {"off", 2, true, frames}, {"off, one region", 1, true, 1}} {
		t.Run(x.name, func(t *testing.T) {
			dial := make(chan struct{})
			a, b := tcpPairWith(t, TCPOptions{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
				<-dial
				return new(net.Dialer).DialContext(ctx, "tcp", addr)
			}}, TCPOptions{})
			a.region = 1
			b.region = x.region
			a.SetCompression(Zstd)
			if x.off {
				a.SetBatching(false)
			}
			var got atomic.Uint64
			done := make(chan struct{})
			b.HandleOrdered(wire.KindRaft, func(_ base.NodeID, body []byte) {
				if n := number(t, body); n != got.Load() {
					t.Errorf("message %d came as number %d", n, got.Load())
				}
				if got.Add(1) == frames {
					close(done)
				}
			})
			start(t, a, b)
			for i := range uint64(frames) {
				if err := a.Send(2, wire.KindRaft,
					kv(i, []byte("the same words in every message, about what a row may say"))); err != nil {
					t.Fatal(err)
				}
			}
			close(dial)
			<-done
			eventually(func() bool { return a.Stats()[0].Writes == x.writes })
			if s := a.Stats()[0]; s.SentMsgs != frames || s.StreamSent != s.SentBytes {
				t.Errorf("%+v", s)
			} else if x.region == 2 {
				wires[x.off] = s.WireSent
			}
		})
	}
	if wires[false]*4 > wires[true] {
		t.Errorf("%d bytes together, %d one by one: they are not compressed together", wires[false], wires[true])
	}
}
