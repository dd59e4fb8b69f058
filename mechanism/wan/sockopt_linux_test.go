package wan

import (
	"context"
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TestSockets asks the kernel what it does with the connections between two regions: no Nagle delay
// at either end, and the congestion control that was asked for, also on those that are open.
func TestSockets(t *testing.T) {
	a, b := tcpPairWith(t, TCPOptions{}, TCPOptions{})
	b.Handle(wire.KindRead, echo)
	a.Handle(wire.KindRead, echo)
	start(t, a, b)
	check := func(congestion string) {
		t.Helper()
		ends := 0
		for _, tr := range []*TCP{a, b} {
			for _, c := range socketsOf(tr) {
				ends++
				raw, err := c.SyscallConn()
				if err != nil {
					t.Fatal(err)
				}
				if err := raw.Control(func(fd uintptr) {
					if v, err := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY); err != nil || v == 0 {
						t.Errorf("TCP_NODELAY is %d (%v)", v, err)
					}
					if congestion == "" {
						return
					}
					if v, err := unix.GetsockoptString(int(fd), unix.IPPROTO_TCP, unix.TCP_CONGESTION); err != nil ||
						v != congestion {
						t.Errorf("the congestion control is %q (%v), not %q", v, err, congestion)
					}
				}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if ends < 2 {
			t.Errorf("%d ends of connections", ends)
		}
	}
	call := func() {
		t.Helper()
		for _, c := range []struct {
			from *TCP
			to   base.NodeID
		}{{a, 2}, {b, 1}} {
			if err := c.from.Call(context.Background(), c.to, wire.KindRead, kv(1, nil), &wire.KV{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	call()
	check("")
	if knowsCongestion("reno") != nil {
		t.Skip("no reno here")
	}
	for _, tr := range []*TCP{a, b} {
		if err := tr.SetCongestion("reno"); err != nil {
			t.Fatal(err)
		}
	}
	check("reno")
	call()
}

// socketsOf are the ends of connections that a node has, dialled and accepted.
func socketsOf(t *TCP) (out []*net.TCPConn) {
	t.eachConn(func(conn net.Conn, _ base.RegionID) {
		if tc := tcpOf(conn); tc != nil {
			out = append(out, tc)
		}
	})
	return out
}
