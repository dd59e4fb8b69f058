package wan

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/wan/wanemu"
	"github.com/godwitdb/godwit/wire"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == wanemu.RouterArg {
		fmt.Fprintln(os.Stderr, wanemu.RouterMain(os.Args[2]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// twoSites are transports at two sites of an emulated network, so many milliseconds apart; dial is
// called with each way to dial from the first.
func twoSites(t *testing.T, rtt float64, dial func(func() (net.Conn, error)) (net.Conn, error)) (n *wanemu.Net, a, b *TCP) {
	t.Helper()
	if err := wanemu.Check(); err != nil {
		t.Skip(err)
	}
	n, err := wanemu.Start(wanemu.Config{RTT: map[string]map[string]float64{"A": {"B": rtt}}, Sites: []wanemu.Site{
		{Name: "a", Region: "A", IP: "10.98.1.1"}, {Name: "b", Region: "B", IP: "10.98.2.1"}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	site := func(name string, self base.NodeID) *TCP {
		in := n.Site(name)
		o := TCPOptions{Self: self, Region: base.RegionID(self), ClusterID: "c", DeadAfter: time.Minute}
		var err error
		in.Do(func() { o.Listener, err = net.Listen("tcp", in.IP+":0") })
		if err != nil {
			t.Fatal(err)
		}
		o.Dial = func(ctx context.Context, addr string) (net.Conn, error) {
			there := func() (net.Conn, error) { return in.Dial(ctx, "tcp", addr) }
			if name == "a" {
				return dial(there)
			}
			return there()
		}
		tr, err := NewTCP(o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { tr.Close() })
		return tr
	}
	a, b = site("a", 1), site("b", 2)
	a.SetPeer(2, b.Addr().String(), 2)
	b.SetPeer(1, a.Addr().String(), 1)
	return n, a, b
}

// TestStuckConnectionsAreMadeAnew: between two sites of an emulated network, a path is cut until
// the kernel waits long before it sends again. Once the path works, both ends of what is stuck,
// requests and answers, are replaced: the kernel would have kept the connection. While the path is
// cut, one attempt at a time is made beside it.
func TestStuckConnectionsAreMadeAnew(t *testing.T) {
	var dials, most atomic.Int32
	n, a, b := twoSites(t, 40, func(dial func() (net.Conn, error)) (net.Conn, error) {
		most.Store(max(most.Load(), dials.Add(1)))
		defer dials.Add(-1)
		return dial()
	})
	control := func(line string) {
		t.Helper()
		if err := n.Control(line); err != nil {
			t.Fatal(err)
		}
	}
	asked, answer := make(chan struct{}, 1), make(chan struct{})
	b.Handle(wire.KindRead, func(ctx context.Context, from base.NodeID, body []byte) (Msg, error) {
		select {
		case asked <- struct{}{}:
			<-answer
		default: // only the first one waits
		}
		return echo(ctx, from, body)
	})
	start(t, a, b)
	call := func() error { return a.Call(t.Context(), 2, wire.KindRead, kv(1, nil), nil) }

	// The answer is on its way when the path is cut, and so is another request.
	first := make(chan error, 1)
	go func() { first <- call() }()
	<-asked
	control("cut A B")
	close(answer)
	second := make(chan error, 1)
	go func() { second <- call() }()
	stuck := func(tr *TCP, peer base.NodeID) bool {
		dialled, accepted, _ := tr.stuckTo(tr.peer(peer))
		return len(dialled)+len(accepted) > 0
	}
	// Each side has a time of its own at which its kernel sends again. The path is healed long
	// before both: else an answer comes on the old connection.
	left := func(tr *TCP) func() time.Duration {
		var last backoff
		var at time.Time
		return func() time.Duration {
			var now backoff
			tr.eachConn(func(conn net.Conn, _ base.RegionID) {
				if b := backoffOf(conn); b.tries > now.tries {
					now = b
				}
			})
			if now.tries != last.tries {
				last, at = now, time.Now()
			}
			return last.wait - time.Since(at)
		}
	}
	leftA, leftB := left(a), left(b)
	eventually(func() bool {
		long := min(leftA(), leftB()) > 4*time.Second
		return long && stuck(a, 2) && stuck(b, 1)
	})
	if s := a.Stats()[0]; s.Connects != 1 {
		t.Fatalf("%d connections were made over a cut path", s.Connects)
	}
	if n := most.Load(); n > 1 {
		t.Errorf("%d attempts at a time", n)
	}
	control("heal")
	for _, done := range []chan error{first, second} {
		if err := <-done; err == nil || NeverRan(err) {
			t.Errorf("a request on a connection that was given up: %v", err)
		}
	}
	eventually(func() bool { return call() == nil })
	if s := a.Stats()[0]; s.Connects < 2 || s.Beside < 2 {
		t.Error("the kernel's next try was awaited")
	}
	if stuck(a, 2) || stuck(b, 1) {
		t.Error("still stuck")
	}
}

// TestLossIsCounted: on a path that loses packets, both ends count those that were sent again, of
// requests and of answers. On one that loses none nothing is counted as lost but what the kernel
// has taken for it.
func TestLossIsCounted(t *testing.T) {
	n, a, b := twoSites(t, 4, func(dial func() (net.Conn, error)) (net.Conn, error) { return dial() })
	b.Handle(wire.KindRead, echo)
	start(t, a, b)
	counts := func() (x, y LinkStats) { return a.Stats()[0], b.Stats()[0] }
	eventually(func() bool {
		if err := a.Call(t.Context(), 2, wire.KindRead, kv(1, nil), nil); err != nil {
			t.Fatal(err)
		}
		x, y := counts()
		return x.Packets > 0 && y.Packets > 0 && x.Lately.Sent > 0
	})
	if err := n.Control("set A B loss=20%"); err != nil {
		t.Fatal(err)
	}
	eventually(func() bool {
		_ = a.Call(t.Context(), 2, wire.KindRead, kv(1, nil), nil) // the connection may break
		x, y := counts()
		return x.Resent > 0 && y.Resent > 0
	})
	if x, y := counts(); x.Resent > x.Packets || y.Resent > y.Packets || x.Lately.Sent > x.Packets {
		t.Errorf("%+v, %+v", x, y)
	}
}
