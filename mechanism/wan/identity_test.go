package wan

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/mechanism/ident"
	"github.com/godwitdb/godwit/wire"
)

// authority makes certificates for a test.
type authority struct {
	t  *testing.T
	ca *ident.CA
}

func newAuthority(t *testing.T) authority {
	t.Helper()
	ca, err := ident.CreateCA(filepath.Join(t.TempDir(), "certs"))
	if err != nil {
		t.Fatal(err)
	}
	return authority{t, ca}
}

func (a authority) of(n ident.Name, life time.Duration) *ident.Files {
	a.t.Helper()
	dir := a.t.TempDir()
	if err := a.ca.Create(dir, ident.Node, n, life); err != nil {
		a.t.Fatal(err)
	}
	f, err := ident.Open(dir, ident.Node, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	return f
}

// members are the nodes of the tests' topology: uuid-1 in region 1 is called r1.
func members(cs *tls.ConnectionState, node base.NodeID, region base.RegionID) error {
	n, err := ident.Peer(cs)
	if err != nil {
		return err
	}
	if want := nameOf(node); n != want || region != 0 && region != base.RegionID(node) {
		return base.Errorf(base.CodeInvalid, "that is %s, not %s", n, want)
	}
	return nil
}

func nameOf(node base.NodeID) ident.Name {
	return ident.Name{Role: ident.RoleNode, ID: fmt.Sprint("uuid-", node), Region: fmt.Sprint("r", node)}
}

// guarded is node 1 behind TLS, and an HTTP server on the same port.
func guarded(t *testing.T, f *ident.Files) (tr *TCP, addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	frames, web := SplitHTTP(ln, SplitOptions{TLS: f.Server()})
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, "TLS ", r.TLS != nil, " certificates ", r.TLS != nil && len(r.TLS.PeerCertificates) > 0)
	})}
	go srv.Serve(web)
	t.Cleanup(func() { srv.Close() })
	tr, err = NewTCP(TCPOptions{Self: 1, Region: 1, ClusterID: "c", Listener: frames, TLSClient: f.Client(ident.ProtoNode),
		Peer: members})
	if err != nil {
		t.Fatal(err)
	}
	tr.Handle(wire.KindForward, echo)
	tr.Handle(wire.KindAsk, echo)
	start(t, tr)
	t.Cleanup(func() { tr.Close() })
	return tr, ln.Addr().String()
}

// TestOnlyMembersAreHeard: a request is executed only for the node that the certificate is of.
func TestOnlyMembersAreHeard(t *testing.T) {
	a, other := newAuthority(t), newAuthority(t)
	_, addr := guarded(t, a.of(nameOf(1), time.Hour))
	good := a.of(nameOf(2), time.Hour)
	anonymous := &tls.Config{InsecureSkipVerify: true, NextProtos: []string{ident.ProtoNode}}
	admin := a.of(ident.Name{Role: ident.RoleClient, ID: "admin"}, time.Hour)
	moved := ident.Name{Role: ident.RoleNode, ID: "uuid-2", Region: "r1"}
	for _, c := range []struct {
		name   string
		tls    *tls.Config
		self   base.NodeID
		region base.RegionID
		want   string
	}{
		{"the node itself", good.Client(ident.ProtoNode), 2, 2, ""},
		{"no TLS", nil, 2, 2, ""},
		{"no certificate", anonymous, 2, 2, ""},
		{"another authority's certificate", other.of(nameOf(2), time.Hour).Client(ident.ProtoNode), 2, 2, ""},
		{"expired", a.of(nameOf(2), -time.Minute).Client(ident.ProtoNode), 2, 2, ""},
		{"another node's id", good.Client(ident.ProtoNode), 3, 3, "not godwit://node/uuid-3/r3"},
		{"another region", good.Client(ident.ProtoNode), 2, 3, "that is"},
		{"a certificate for another region", a.of(moved, time.Hour).Client(ident.ProtoNode), 2, 2, "that is"},
		{"an administrator's certificate", admin.Client(ident.ProtoNode), 2, 2, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr, err := NewTCP(TCPOptions{Self: c.self, Region: c.region, ClusterID: "c", TLSClient: c.tls,
				Listener: closedListener{}})
			if err != nil {
				t.Fatal(err)
			}
			start(t, tr)
			defer tr.Close()
			tr.SetPeer(1, addr, 1)
			var res wire.KV
			err = tr.Call(t.Context(), 1, wire.KindForward, kv(1, nil), &res)
			if c.name == "the node itself" {
				if err != nil || res.Ts != 2 {
					t.Fatal(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("answer %d, error %v, want %q", res.Ts, err, c.want)
			}
		})
	}
	var res wire.KV
	for _, cfg := range []*tls.Config{nil, anonymous, good.Client(ident.ProtoNode)} {
		if err := askAt(t.Context(), TCPOptions{TLSClient: cfg}, addr, kv(1, nil), &res); err == nil {
			t.Error("a node without identity was answered")
		}
	}
}

// closedListener has NewTCP accept a client's half of TLS alone.
type closedListener struct{ net.Listener }

func (closedListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }
func (closedListener) Close() error              { return nil }

// TestDiallerKnowsWhom: a node does not speak to one that has taken another one's address.
func TestDiallerKnowsWhom(t *testing.T) {
	a := newAuthority(t)
	_, addr := guarded(t, a.of(nameOf(1), time.Hour))
	tr, err := NewTCP(TCPOptions{Self: 2, Region: 2, ClusterID: "c", Listener: closedListener{}, Peer: members,
		TLSClient: a.of(nameOf(2), time.Hour).Client(ident.ProtoNode)})
	if err != nil {
		t.Fatal(err)
	}
	start(t, tr)
	defer tr.Close()
	tr.SetPeer(3, addr, 3)
	err = tr.Call(t.Context(), 3, wire.KindForward, kv(1, nil), nil)
	if err == nil || !strings.Contains(err.Error(), "that is godwit://node/uuid-1/r1") || !NeverRan(err) {
		t.Fatal(err)
	}
	tr.SetPeer(1, addr, 1)
	if err := tr.Call(t.Context(), 1, wire.KindForward, kv(1, nil), nil); err != nil {
		t.Fatal(err)
	}
}

// TestHTTPBesideTLS: HTTP comes with and without TLS; who listens sees which.
func TestHTTPBesideTLS(t *testing.T) {
	a := newAuthority(t)
	f := a.of(nameOf(1), time.Hour)
	_, addr := guarded(t, f)
	get := func(scheme string, cfg *tls.Config) string {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
		r, err := c.Get(scheme + "://" + addr + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, _ := io.ReadAll(r.Body)
		return string(b)
	}
	for want, got := range map[string]string{
		"TLS false certificates false": get("http", nil),
		"TLS true certificates true":   get("https", f.Client(ident.ProtoHTTP)),
		"TLS true certificates false":  get("https", &tls.Config{InsecureSkipVerify: true}),
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestRandomBytes: bytes of any kind against the port leave it as it was, with TLS and without.
func TestRandomBytes(t *testing.T) {
	a := newAuthority(t)
	secure, tlsAddr := guarded(t, a.of(nameOf(1), time.Hour))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	frames, _ := SplitHTTP(ln, SplitOptions{})
	open, err := NewTCP(TCPOptions{Self: 1, Region: 1, ClusterID: "c", Listener: frames})
	if err != nil {
		t.Fatal(err)
	}
	open.Handle(wire.KindForward, echo)
	start(t, open)
	defer open.Close()
	const seed = 18
	random := rand.New(rand.NewPCG(seed, 1))
	good := appendRaw(nil, typeHello, 0, 0, hello{version: protocolVersion, node: 2, region: 2, want: 1, cluster: "c"}.encode())
	client := a.of(nameOf(2), time.Hour).Client(ident.ProtoNode)
	attack := func(c net.Conn) {
		defer c.Close()
		b := make([]byte, random.IntN(300))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		switch random.IntN(4) {
		case 0: // a hello with one byte changed
			b = append([]byte{}, good...)
			b[random.IntN(len(b))] ^= byte(1 + random.IntN(255))
		case 1: // a good hello, and then anything
			b = append(append([]byte{}, good...), b...)
		case 2: // the beginning of TLS
			b = append([]byte{tlsHandshake, 3, 1}, b...)
		}
		c.SetDeadline(time.Now().Add(10 * time.Second))
		c.Write(b)
		if half, ok := c.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
		io.Copy(io.Discard, c)
	}
	for range 200 {
		for _, addr := range []string{tlsAddr, ln.Addr().String()} {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			attack(c)
		}
		c, err := tls.Dial("tcp", tlsAddr, client)
		if err != nil {
			t.Fatal(err)
		}
		attack(c)
	}
	for name, tr := range map[string]*TCP{"TLS": secure, "no TLS": open} {
		o := TCPOptions{Self: 2, Region: 2, ClusterID: "c"}
		if name == "TLS" {
			o.TLSClient, o.Listener = client, closedListener{}
		}
		c, err := NewTCP(o)
		if err != nil {
			t.Fatal(err)
		}
		start(t, c)
		defer c.Close()
		c.SetPeer(1, tr.Addr().String(), 1)
		var res wire.KV
		if err := c.Call(context.Background(), 1, wire.KindForward, kv(1, nil), &res); err != nil || res.Ts != 2 {
			t.Fatalf("%s, seed %d: %v", name, seed, err)
		}
	}
}
