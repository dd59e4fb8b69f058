package wan

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
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

// signer counts how many handshakes sign at once.
type signer struct {
	crypto.Signer
	now, most, all atomic.Int64
}

func (s *signer) Sign(r io.Reader, digest []byte, o crypto.SignerOpts) ([]byte, error) {
	now := s.now.Add(1)
	defer s.now.Add(-1)
	for m := s.most.Load(); now > m && !s.most.CompareAndSwap(m, now); m = s.most.Load() {
	}
	s.all.Add(1)
	for range 200 { // others come meanwhile, if they may
		runtime.Gosched()
	}
	return s.Signer.Sign(r, digest, o)
}

// TestHandshakesTakeTurns: of many TLS handshakes that come together, few compute at once. Those
// that stop in the middle, once the node has computed for them, take nobody's turn.
func TestHandshakesTakeTurns(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	s := &signer{Signer: key}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const stalled, others, turns = 60, 60, 2
	frames, web := SplitHTTP(ln, SplitOptions{TLS: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: s}}},
		Limits: SplitLimits{Timeout: time.Hour, Handshakes: turns}})
	defer frames.Close()
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "well") })}
	go srv.Serve(web)
	defer srv.Close()
	client := &tls.Config{InsecureSkipVerify: true}
	for range stalled { // they say hello, and never answer what the node says
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go tls.Client(&deaf{c, t.Context()}, client).Handshake()
	}
	errs := make(chan error, others)
	for range others {
		go func() {
			hc := &http.Client{Transport: &http.Transport{TLSClientConfig: client, DisableKeepAlives: true}}
			r, err := hc.Get("https://" + ln.Addr().String() + "/health")
			if err == nil {
				err = r.Body.Close()
			}
			errs <- err
		}()
	}
	for range others {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
	if most := s.most.Load(); most > turns || s.all.Load() < others {
		t.Errorf("%d of %d handshakes computed at once, want %d at most", most, s.all.Load(), turns)
	}
}

// deaf is a connection that hears nothing.
type deaf struct {
	net.Conn
	ctx context.Context
}

func (d *deaf) Read([]byte) (int, error) { <-d.ctx.Done(); return 0, io.EOF }
