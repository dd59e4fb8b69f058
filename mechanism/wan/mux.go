package wan

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// httpMethods are the first four bytes of what an HTTP client sends; no frame
// can begin so, since they would make its length hundreds of megabytes.
var httpMethods = [][]byte{[]byte("GET "), []byte("POST"), []byte("HEAD"), []byte("PUT "), []byte("DELE"),
	[]byte("OPTI"), []byte("PATC")}

// tlsHandshake is the first byte of a TLS connection. A frame that begins so is longer than a
// handshake's may be.
const tlsHandshake = 0x16

// SplitOptions configure [SplitHTTP].
type SplitOptions struct {
	// TLS is the server's configuration; nil: none. With it, what comes without TLS is HTTP or is
	// closed. The configuration names the protocols: one that is not HTTP is the frames'.
	TLS    *tls.Config
	Logger *slog.Logger
	Limits SplitLimits
}

// SplitLimits bound connections that have not said who they are.
type SplitLimits struct {
	// Timeout is how long one may take to say what it is, the TLS handshake included. Default 5 s.
	Timeout time.Duration
	// All and PerAddress bound their number. One more, and the oldest is closed: of the same
	// address, or of the one that has most. Who speaks at once is seldom the oldest, so those who
	// say nothing do not keep others out. Defaults 1024 and 128.
	All, PerAddress int
	// Handshakes is how many TLS handshakes compute at once. One that waits for the other side does
	// not compute. Default: half of the processors, and one at least.
	Handshakes int
}

func (l SplitLimits) withDefaults() SplitLimits {
	if l.Timeout <= 0 {
		l.Timeout = 5 * time.Second
	}
	if l.All <= 0 {
		l.All = 1024
	}
	if l.PerAddress <= 0 {
		l.PerAddress = 128
	}
	if l.Handshakes <= 0 {
		l.Handshakes = max(1, runtime.GOMAXPROCS(0)/2)
	}
	return l
}

// SplitHTTP serves the transport and HTTP on one port: connections that begin
// like an HTTP request come out of the second listener, all others out of the
// first. With TLS, the protocol that was agreed on decides. Closing either stops both.
//
// Whoever takes a connection from a listener calls [Settled] once it knows who is there. The
// transport does so itself.
func SplitHTTP(ln net.Listener, opt SplitOptions) (frames, http net.Listener) {
	ctx, cancel := context.WithCancel(context.Background())
	m := &mux{ln: ln, tls: paced(opt.TLS), log: opt.Logger, ctx: ctx, cancel: cancel,
		gate: gate{lim: opt.Limits.withDefaults(), waiting: map[string][]*sniffed{}}}
	m.places = make(chan struct{}, m.gate.lim.Handshakes)
	if m.log == nil {
		m.log = slog.New(slog.DiscardHandler)
	}
	a := &half{m: m, conns: make(chan net.Conn)}
	b := &half{m: m, conns: make(chan net.Conn)}
	go m.run(a, b)
	return a, b
}

type mux struct {
	ln     net.Listener
	tls    *tls.Config
	log    *slog.Logger
	once   sync.Once
	ctx    context.Context // ends with close
	cancel context.CancelFunc
	gate   gate
	places chan struct{} // full: no other handshake computes

	mu     sync.Mutex
	logged time.Time // of a refusal
	silent int       // refusals since then that were not logged
}

func (m *mux) close() error {
	err := net.ErrClosed
	m.once.Do(func() {
		m.cancel()
		err = m.ln.Close()
	})
	return err
}

func (m *mux) run(frames, http *half) {
	defer m.close()
	for {
		c, err := m.ln.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, most likely
			select {
			case <-m.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		s := &sniffed{Conn: c, gate: &m.gate, places: m.places}
		if out := m.gate.enter(s); out != nil {
			out.closed.Store(true)
			out.Conn.Close()
			m.refused(out, errMany)
		}
		go func() {
			if err := m.sniff(s, frames, http); err != nil {
				s.Close()
				m.refused(s, err)
			}
		}()
	}
}

// refuseEvery is the least time between two lines of the log about connections that were refused:
// whoever scans the port does not fill it.
const refuseEvery = time.Second

func (m *mux) refused(s *sniffed, err error) {
	if errors.Is(err, net.ErrClosed) || err == io.EOF || m.ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	m.silent++
	n, now := m.silent, time.Now()
	if now.Sub(m.logged) < refuseEvery {
		m.mu.Unlock()
		return
	}
	m.logged, m.silent = now, 0
	m.mu.Unlock()
	m.log.Warn("connection refused", "from", s.RemoteAddr().String(), "err", err, "refused", n)
}

var (
	errPlain  = errors.New("a peer without TLS: start all nodes alike, with or without --insecure")
	errTLS    = errors.New("a peer with TLS, but this node runs with --insecure: start all nodes alike")
	errSilent = errors.New("it did not say what it is in time")
	errMany   = errors.New("too many connections that do not say what they are: the oldest one is closed")
)

// sniff finds out what a connection is, and gives it to whom it is for.
func (m *mux) sniff(s *sniffed, frames, http *half) error {
	deadline := time.Now().Add(m.gate.lim.Timeout)
	s.SetDeadline(deadline)
	var head [4]byte
	if _, err := io.ReadFull(s.Conn, head[:]); err != nil {
		var late net.Error
		if errors.As(err, &late) && late.Timeout() {
			return errSilent
		}
		return err
	}
	s.head = head[:]
	to, conn := frames, net.Conn(s)
	switch {
	case isHTTP(head[:]):
		to = http
	case m.tls != nil && head[0] == tlsHandshake:
		tc := tls.Server(s, m.tls)
		err := tc.HandshakeContext(m.ctx)
		s.agreed()
		if err != nil {
			return err
		}
		conn = tc
		if p := tc.ConnectionState().NegotiatedProtocol; p == "" || p == "http/1.1" {
			to = http
		}
	case m.tls != nil:
		return errPlain
	case head[0] == tlsHandshake && head[1] == 3:
		return errTLS
	}
	wait := time.NewTimer(time.Until(deadline))
	defer wait.Stop()
	s.SetDeadline(time.Time{})
	select {
	case to.conns <- conn:
		return nil
	case <-wait.C:
		return io.EOF // nobody takes it: the node belongs to no cluster yet
	case <-m.ctx.Done():
		return net.ErrClosed
	}
}

func isHTTP(head []byte) bool {
	for _, p := range httpMethods {
		if bytes.Equal(head, p) {
			return true
		}
	}
	return false
}

// gate holds the connections that have not said who they are, the oldest of each address first.
type gate struct {
	lim     SplitLimits
	mu      sync.Mutex
	waiting map[string][]*sniffed
	n       int
}

// enter takes a connection in. If there are too many, it forgets another one, which is to be
// closed.
func (g *gate) enter(s *sniffed) (out *sniffed) {
	s.host, _, _ = net.SplitHostPort(s.RemoteAddr().String())
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case len(g.waiting[s.host]) >= g.lim.PerAddress:
		out = g.waiting[s.host][0]
	case g.n >= g.lim.All:
		most := s.host
		for host, w := range g.waiting {
			if len(w) > len(g.waiting[most]) {
				most = host
			}
		}
		out = g.waiting[most][0]
	}
	if out != nil {
		g.remove(out)
	}
	g.waiting[s.host] = append(g.waiting[s.host], s)
	g.n++
	s.waits = true
	return out
}

// remove forgets a connection; the caller holds mu.
func (g *gate) remove(s *sniffed) {
	if !s.waits {
		return
	}
	s.waits = false
	g.n--
	w := g.waiting[s.host]
	for i, x := range w {
		if x == s {
			w = append(w[:i], w[i+1:]...)
			break
		}
	}
	if g.waiting[s.host] = w; len(w) == 0 {
		delete(g.waiting, s.host)
	}
}

func (g *gate) leave(s *sniffed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(s)
}

// Settled says of a connection from [SplitHTTP] that it is known who is there: it no longer counts
// among those that may be closed for others. Other connections are left alone.
func Settled(conn net.Conn) {
	for conn != nil {
		if s, ok := conn.(*sniffed); ok {
			s.gate.leave(s)
			return
		}
		u, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			return
		}
		conn = u.NetConn()
	}
}

// PortLoad is what a port of [SplitHTTP] has of what it bounds: connections that have not said who
// they are, and TLS handshakes that compute.
type PortLoad struct{ Unsettled, MostUnsettled, Handshakes, MostHandshakes int }

// LoadOf is the load of a listener from [SplitHTTP].
func LoadOf(l net.Listener) (out PortLoad) {
	h, ok := l.(*half)
	if !ok {
		return out
	}
	g := &h.m.gate
	g.mu.Lock()
	defer g.mu.Unlock()
	return PortLoad{Unsettled: g.n, MostUnsettled: g.lim.All, Handshakes: len(h.m.places), MostHandshakes: cap(h.m.places)}
}

// half is one of the two listeners.
type half struct {
	m     *mux
	conns chan net.Conn
}

func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.m.ctx.Done():
		return nil, net.ErrClosed
	}
}

func (h *half) Close() error   { return h.m.close() }
func (h *half) Addr() net.Addr { return h.m.ln.Addr() }

// sniffed gives back the bytes that were read to see what the connection is.
type sniffed struct {
	net.Conn
	head []byte
	gate *gate
	host string

	waits bool // guarded by gate.mu

	// places are for the handshakes that compute. shaking says that the client has begun one, in
	// that it has said what it wants; has, that this one has a place. Only who shakes hands uses
	// both.
	places       chan struct{}
	shaking, has bool
	closed       atomic.Bool
}

func (s *sniffed) Read(b []byte) (int, error) {
	if len(s.head) > 0 {
		n := copy(b, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	if !s.shaking {
		return s.Conn.Read(b)
	}
	s.release()
	n, err := s.Conn.Read(b)
	if err == nil {
		err = s.compute()
	}
	return n, err
}

// paced makes handshakes take turns from when the client has said what it wants: what comes then,
// signatures and their checks, costs processors. Thousands of clients that do no more than begin
// would have peers, and whoever asks for the node's health, wait behind them all.
func paced(t *tls.Config) *tls.Config {
	if t == nil {
		return nil
	}
	t = t.Clone()
	next := t.GetConfigForClient
	t.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if s, ok := h.Conn.(*sniffed); ok {
			s.shaking = true
			if err := s.compute(); err != nil {
				return nil, err
			}
		}
		if next == nil {
			return nil, nil
		}
		return next(h)
	}
	return t
}

// compute waits for a place. Those that were closed meanwhile compute nothing.
func (s *sniffed) compute() error {
	if s.has {
		return nil
	}
	s.places <- struct{}{} // whoever has one computes, so that this does not take long
	s.has = true
	if s.closed.Load() {
		return net.ErrClosed
	}
	return nil
}

func (s *sniffed) release() {
	if s.has {
		s.has = false
		<-s.places
	}
}

// agreed ends the handshake, with success or without.
func (s *sniffed) agreed() {
	s.shaking = false
	s.release()
}

// Close implements [net.Conn].
func (s *sniffed) Close() error {
	s.closed.Store(true)
	s.gate.leave(s)
	return s.Conn.Close()
}

// NetConn is the connection underneath, for socket options.
func (s *sniffed) NetConn() net.Conn { return s.Conn }
