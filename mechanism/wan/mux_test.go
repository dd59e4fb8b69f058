package wan

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

func TestSplitHTTP(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	frames, web := SplitHTTP(ln, SplitOptions{})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "hello "+r.URL.Path)
	})}
	go srv.Serve(web)
	defer srv.Close()
	server, err := NewTCP(TCPOptions{Self: 1, Region: 1, ClusterID: "c", Listener: frames})
	if err != nil {
		t.Fatal(err)
	}
	server.Handle(wire.KindAsk, func(_ context.Context, from base.NodeID, body []byte) (Msg, error) {
		return &wire.AskResponse{Body: []byte("pong")}, nil
	})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	client, err := NewTCP(TCPOptions{Self: 2, Region: 2, ClusterID: "c"})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	client.SetPeer(1, ln.Addr().String(), 1)

	var res wire.AskResponse
	if err := client.Call(t.Context(), 1, wire.KindAsk, &wire.AskRequest{Name: "ping"}, &res); err != nil ||
		string(res.Body) != "pong" {
		t.Fatalf("call over the shared port: %q, %v", res.Body, err)
	}
	r, err := http.Get("http://" + ln.Addr().String() + "/path")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if b, _ := io.ReadAll(r.Body); string(b) != "hello /path" {
		t.Fatalf("HTTP over the shared port: %q", b)
	}
}

// silence opens connections to an address that send what is given and then nothing.
func silence(t *testing.T, addr string, n int, said string) {
	t.Helper()
	for range n {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		if _, err := io.WriteString(c, said); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSilentConnections: connections that say nothing, or stop in the middle, keep neither peers
// nor HTTP out, although they come from the same address.
func TestSilentConnections(t *testing.T) {
	for name, said := range map[string]string{
		"nothing": "", "half a frame": "\x40\x00\x00\x00\x01", "half a request": "GET /path HT", "half a method": "GE",
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			// They outlast the test, and fill each bound several times over.
			frames, web := SplitHTTP(ln, SplitOptions{Limits: SplitLimits{Timeout: time.Hour, All: 64, PerAddress: 32}})
			srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, "well")
			})}
			go srv.Serve(web)
			defer srv.Close()
			server, err := NewTCP(TCPOptions{Self: 1, Region: 1, ClusterID: "c", Listener: frames, DialTimeout: time.Hour,
				MaxConns: 64})
			if err != nil {
				t.Fatal(err)
			}
			server.Handle(wire.KindRead, echo)
			start(t, server)
			defer server.Close()
			silence(t, ln.Addr().String(), 300, said)
			r, err := http.Get("http://" + ln.Addr().String() + "/health")
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			client, err := NewTCP(TCPOptions{Self: 2, Region: 2, ClusterID: "c"})
			if err != nil {
				t.Fatal(err)
			}
			start(t, client)
			defer client.Close()
			client.SetPeer(1, ln.Addr().String(), 1)
			var res wire.KV
			if err := client.Call(t.Context(), 1, wire.KindRead, kv(1, nil), &res); err != nil || res.Ts != 2 {
				t.Fatal(err)
			}
		})
	}
}

// from is a connection from an address, which notes that it was closed.
type from struct {
	net.Conn
	addr string
}

func (f *from) RemoteAddr() net.Addr { a, _ := net.ResolveTCPAddr("tcp", f.addr+":1"); return a }
func (f *from) Close() error         { return nil }

// TestGate: who opens many connections loses its own oldest one, and others theirs only if all of
// them together are too many, those with most first.
func TestGate(t *testing.T) {
	g := gate{lim: SplitLimits{All: 6, PerAddress: 4}, waiting: map[string][]*sniffed{}}
	enter := func(addr string) (s, out *sniffed) {
		s = &sniffed{Conn: &from{addr: addr}, gate: &g}
		return s, g.enter(s)
	}
	var many []*sniffed
	for range 4 {
		s, out := enter("10.0.0.1")
		if many = append(many, s); out != nil {
			t.Fatal("one was closed too early")
		}
	}
	if _, out := enter("10.0.0.1"); out != many[0] {
		t.Fatal("the fifth of one address does not replace its first")
	}
	peer, out := enter("10.0.0.2")
	if out != nil {
		t.Fatal("there was room")
	}
	other, out := enter("10.0.0.3")
	if out != nil {
		t.Fatal("there was room")
	}
	if _, out := enter("10.0.0.4"); out != many[1] {
		t.Fatal("one of those with most should go")
	}
	Settled(peer)
	Settled(peer)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if g.n != 4 || len(g.waiting) != 2 {
		t.Fatalf("%d wait, of %d addresses", g.n, len(g.waiting))
	}
	for range 2 {
		if _, out := enter("10.0.0.5"); out != nil {
			t.Fatal("there was room")
		}
	}
}
