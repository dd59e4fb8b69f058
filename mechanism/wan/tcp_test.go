package wan

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// logBuffer is a log that tests read.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// eventually retries until ok; the test's own timeout is the bound.
func eventually(ok func() bool) {
	for !ok() {
		time.Sleep(time.Millisecond)
	}
}

func TestTCPReconnects(t *testing.T) {
	a, b := tcpPairWith(t, TCPOptions{}, TCPOptions{})
	b.Handle(wire.KindRead, echo)
	start(t, a, b)
	if err := a.Call(context.Background(), 2, wire.KindRead, kv(1, nil), nil); err != nil {
		t.Fatal(err)
	}
	addr := b.Addr().String()
	b.Close()
	eventually(func() bool { return NeverRan(a.Call(context.Background(), 2, wire.KindRead, kv(1, nil), nil)) })
	err := a.Call(context.Background(), 2, wire.KindRead, kv(1, nil), nil)
	wantCode(t, err, base.CodeUnavailable)
	if !strings.Contains(err.Error(), "node 2 at "+addr+" cannot be reached") || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}

	// The same node comes back at the same address...
	again := func(listen string) *TCP {
		b, err := NewTCP(TCPOptions{Self: 2, Region: 2, ClusterID: "c1", Listen: listen})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { b.Close() })
		b.Handle(wire.KindRead, echo)
		start(t, b)
		return b
	}
	b = again(addr)
	eventually(func() bool { return a.Call(context.Background(), 2, wire.KindRead, kv(1, nil), nil) == nil })
	b.Close()
	// ... and then at another.
	b = again("127.0.0.1:0")
	a.SetPeer(2, b.Addr().String(), 2)
	if err := a.Call(context.Background(), 2, wire.KindRead, kv(1, nil), nil); err != nil {
		t.Error("the first call to the new address must dial:", err)
	}
	if s := a.Stats()[0]; s.Connects != 3 {
		t.Errorf("%d connects", s.Connects)
	}
}

func TestTCPBrokenConnectionFailsPendingCalls(t *testing.T) {
	var mu sync.Mutex
	var conns []net.Conn
	a, b := tcpPairWith(t, TCPOptions{Dial: func(ctx context.Context, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
		mu.Lock()
		conns = append(conns, c)
		mu.Unlock()
		return c, err
	}}, TCPOptions{})
	entered, ended := make(chan struct{}), make(chan struct{})
	b.Handle(wire.KindRead, func(ctx context.Context, _ base.NodeID, _ []byte) (Msg, error) {
		close(entered)
		<-ctx.Done()
		close(ended)
		return nil, ctx.Err()
	})
	start(t, a, b)
	res := make(chan error)
	go func() { res <- a.Call(context.Background(), 2, wire.KindRead, kv(0, nil), nil) }()
	<-entered
	mu.Lock()
	conns[0].(*net.TCPConn).SetLinger(0)
	conns[0].Close()
	mu.Unlock()
	err := <-res
	wantCode(t, err, base.CodeUnavailable)
	if !NoAnswer(err) {
		t.Error("the request had been sent:", err)
	}
	<-ended // the handler's context ends too
}

func TestTCPRefusesStrangers(t *testing.T) {
	for name, c := range map[string]struct {
		a    TCPOptions
		to   base.NodeID
		code base.Code
		text string
	}{
		"wrong cluster": {TCPOptions{ClusterID: "other"}, 2, base.CodeInvalid,
			`node 2 belongs to cluster "c1", not to "other": check the addresses to join`},
		"wrong node": {TCPOptions{}, 3, base.CodeUnavailable, "this is node 2, not node 3"},
		"same node":  {TCPOptions{Self: 2}, 3, base.CodeUnavailable, "not node 3"},
	} {
		t.Run(name, func(t *testing.T) {
			var log logBuffer
			a, b := tcpPairWith(t, c.a, TCPOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			b.Handle(wire.KindRead, echo)
			start(t, a, b)
			a.SetPeer(c.to, b.Addr().String(), 2)
			err := a.Call(context.Background(), c.to, wire.KindRead, kv(1, nil), nil)
			if base.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.text) || !NeverRan(err) {
				t.Error(err)
			}
			// Once refused, the next message fails at once for the same reason.
			if err := a.Send(c.to, wire.KindRead, kv(1, nil)); err != nil && !strings.Contains(err.Error(), c.text) {
				t.Error(err)
			}
			eventually(func() bool { return strings.Contains(log.String(), "connection refused") })
		})
	}
}

func TestTCPMalformedBytesCloseTheConnection(t *testing.T) {
	var log logBuffer
	_, b := tcpPairWith(t, TCPOptions{}, TCPOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b.Handle(wire.KindRead, echo)
	start(t, b)
	good := appendRaw(nil, typeHello, 0, 0, hello{version: protocolVersion, node: 5, cluster: "c1"}.encode())
	for _, c := range []struct {
		in   []byte
		text string
	}{
		{[]byte("GET / HTTP/1.1\r\n\r\n"), "is the peer a Godwit node"},
		{appendRaw(nil, typeSend, wire.KindRead, 0, nil), "first frame is not a hello"},
		{appendRaw(nil, typeHello, 0, 0, []byte("hi")), "malformed hello"},
		{append(bytes.Clone(good), appendRaw(nil, typeResponse, wire.KindRead, 1, nil)...),
			"unexpected frame of type 3 from node 5"},
		{append(bytes.Clone(good), bytes.Repeat([]byte{1}, 100)...), "malformed frame"},
	} {
		conn, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		conn.Write(c.in)
		io.Copy(io.Discard, conn) // until it is closed
		conn.Close()
		eventually(func() bool { return strings.Contains(log.String(), c.text) })
	}
}

func TestTCPBackPressure(t *testing.T) {
	// A peer that shakes hands and then reads nothing.
	ln := rawListener(t)
	hold := make(chan struct{})
	defer close(hold)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				c.Write(appendRaw(nil, typeWelcome, 0, 0, welcome{version: 1, node: 3}.encode()))
				<-hold
				c.Close()
			}()
		}
	}()
	const bytesLimit = 1 << 20
	a, _ := tcpPairWith(t, TCPOptions{Limits: Limits{QueueMsgs: 100, QueueBytes: bytesLimit}}, TCPOptions{})
	start(t, a)
	a.SetPeer(3, ln.Addr().String(), 2)
	sent := 0
	payload := make([]byte, 32<<10)
	for {
		err := a.Send(3, wire.KindSnapshot, kv(0, payload))
		if s := a.Stats()[1]; s.QueuedBytes > bytesLimit || s.QueuedMsgs > 100 {
			t.Fatalf("%d messages, %d bytes are queued", s.QueuedMsgs, s.QueuedBytes)
		}
		if err != nil {
			wantCode(t, err, base.CodeOverloaded)
			if !NeverRan(err) || !strings.Contains(err.Error(), "the queue of bulk messages to node 3 is full") {
				t.Error(err)
			}
			// Room may appear while the kernel still takes bytes; full for good is full twice.
			time.Sleep(20 * time.Millisecond)
			if a.Send(3, wire.KindSnapshot, kv(0, payload)) != nil {
				break
			}
		}
		sent++
	}
	// A call is refused, too, once the kernel takes no more.
	for refused := false; !refused; {
		for a.Send(3, wire.KindSnapshot, kv(0, payload)) == nil {
		}
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		err := a.Call(ctx, 3, wire.KindSnapshot, kv(0, payload), nil)
		cancel()
		if refused = ctx.Err() == nil || base.CodeOf(err) == base.CodeOverloaded; refused {
			wantCode(t, err, base.CodeOverloaded)
		}
	}
	// Another class is not held up, and its queued call can be withdrawn.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	wantCode(t, a.Call(ctx, 3, wire.KindRead, kv(0, nil), nil), base.CodeCanceled)
	if a.Stats()[1].Overloaded < 2 {
		t.Error("not counted")
	}
}

// A caller that does not read its answers holds the handlers, not the memory.
func TestTCPAnswersWaitForTheReader(t *testing.T) {
	const run, waiting, answer = 2, 2, 1 << 20
	_, b := tcpPairWith(t, TCPOptions{}, TCPOptions{Limits: Limits{QueueBytes: answer, Handlers: run, Waiting: waiting}})
	var mu sync.Mutex
	ran := 0
	b.Handle(wire.KindRead, func(context.Context, base.NodeID, []byte) (Msg, error) {
		mu.Lock()
		ran++
		mu.Unlock()
		return kv(0, make([]byte, answer)), nil
	})
	start(t, b)
	conn, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	conn.Write(appendRaw(nil, typeHello, 0, 0, hello{version: protocolVersion, node: 5, cluster: "c1"}.encode()))
	const n = 60
	for i := range uint64(n) {
		conn.Write(appendRaw(nil, typeRequest, wire.KindRead, i+1, nil))
		time.Sleep(200 * time.Microsecond)
	}
	// The kernel may hold a few MiB; it cannot hold them all.
	mu.Lock()
	if ran > n/2 {
		t.Errorf("%d handlers made 1 MiB each for somebody who does not read", ran)
	}
	mu.Unlock()
	conn.Close()
	// Close must not hang on handlers that wait to answer.
	b.Close()
}

func TestWithdrawnRequestsAreNotSent(t *testing.T) {
	lim := Limits{}.withDefaults()
	o := newOutbox(&lim)
	var ids []uint64
	calls := make([]*call, 3)
	for i := range calls {
		calls[i] = new(callPool).get()
		if _, err := o.put(typeRequest, wire.KindRead, 0, uint64(i+1), kv(1, make([]byte, 10*i)), calls[i], false); err != nil {
			t.Fatal(err)
		}
	}
	if !o.withdraw(calls[1]) {
		t.Error("it was not given to the writer yet")
	}
	b := o.take()
	if o.withdraw(calls[0]) {
		t.Error("too late")
	}
	for len(b) > 0 {
		n, err := frameLen(b, lim.MaxFrame)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parseFrame(b[:n])
		if err != nil {
			t.Fatal(err)
		}
		if f.typ == typeRequest {
			ids = append(ids, f.id)
		}
		b = b[n:]
	}
	if len(ids) != 2 || ids[0] != 1 || ids[1] != 3 {
		t.Error(ids)
	}
}

func TestAsk(t *testing.T) {
	_, b := tcpPairWith(t, TCPOptions{}, TCPOptions{})
	b.Handle(wire.KindAsk, func(ctx context.Context, from base.NodeID, body []byte) (Msg, error) {
		if from != 0 {
			t.Error(from)
		}
		if number(t, body) == 9 {
			return nil, base.Errorf(base.CodeInvalid, "nine")
		}
		return echo(ctx, from, body)
	})
	b.Handle(wire.KindRead, echo)
	start(t, b)
	addr := b.Addr().String()
	var resp wire.KV
	if err := askAt(context.Background(), TCPOptions{}, addr, kv(4, nil), &resp); err != nil || resp.Ts != 5 {
		t.Error(err, resp.Ts)
	}
	wantCode(t, askAt(context.Background(), TCPOptions{}, addr, kv(9, nil), &resp), base.CodeInvalid)

	// Nobody in particular may do nothing else.
	conn, r, _, err := (&TCPOptions{DialTimeout: time.Minute}).connect(context.Background(), addr,
		hello{version: protocolVersion, class: classRPC})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.Write(appendRaw(nil, typeRequest, wire.KindRead, 1, nil))
	if f, err := readFrame(r, 1<<20); err != nil || f.typ != typeRefused {
		t.Error(err, f.typ)
	}
	conn.Write(appendRaw(nil, typeSend, wire.KindRaft, 1, nil))
	if _, err := readFrame(r, 1<<20); err == nil {
		t.Error("still open")
	}

	// A node that has no identity can be asked, and nothing else.
	fresh, err := NewTCP(TCPOptions{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.Close()
	fresh.Handle(wire.KindAsk, echo)
	start(t, fresh)
	if err := askAt(context.Background(), TCPOptions{}, fresh.Addr().String(), kv(4, nil), &resp); err != nil {
		t.Error(err)
	}
	b.SetPeer(7, fresh.Addr().String(), 1)
	err = b.Call(context.Background(), 7, wire.KindAsk, kv(1, nil), nil)
	wantCode(t, err, base.CodeUnavailable)
	if !strings.Contains(err.Error(), "does not belong to a cluster yet") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := askAt(ctx, TCPOptions{}, addr, kv(4, nil), &resp); err == nil {
		t.Error("canceled")
	}
}

func TestTCPWithTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, _ := x509.ParseCertificate(der)
	roots := x509.NewCertPool()
	roots.AddCert(cert)
	server := &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	opt := TCPOptions{TLSServer: server, TLSClient: &tls.Config{RootCAs: roots}}
	a, b := tcpPairWith(t, opt, opt)
	b.Handle(wire.KindRead, echo)
	start(t, a, b)
	var resp wire.KV
	if err := a.Call(context.Background(), 2, wire.KindRead, kv(1, make([]byte, 1<<20)), &resp); err != nil || resp.Ts != 2 {
		t.Fatal(err)
	}
	plain, _ := tcpPairWith(t, TCPOptions{Self: 8}, TCPOptions{})
	plain.SetPeer(2, b.Addr().String(), 2)
	err = plain.Call(context.Background(), 2, wire.KindRead, kv(1, nil), nil)
	wantCode(t, err, base.CodeUnavailable)
	if !NeverRan(err) {
		t.Error(err)
	}
	if _, err := NewTCP(TCPOptions{Self: 1, ClusterID: "c", TLSServer: server}); err == nil {
		t.Error("half of TLS")
	}
}
