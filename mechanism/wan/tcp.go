package wan

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// TCPOptions configure one node's transport over TCP.
type TCPOptions struct {
	Self   base.NodeID // 0: this node has no identity yet; it can only be asked (wire.KindAsk)
	Region base.RegionID
	// ClusterID must be the same on both ends; "" accepts only nodes that ask to join.
	ClusterID string
	// Listen is the address to listen on, host:port. Listener is used instead if
	// not nil. With neither, the node only dials.
	Listen   string
	Listener net.Listener
	// TLSServer and TLSClient turn TLS on; both or none. The client's ServerName
	// is the host of the peer's address unless set.
	// A Listener may also do the server's part itself ([SplitHTTP]).
	TLSServer, TLSClient *tls.Config
	// Peer says whether the other end of a connection is the node that it says it is, by its
	// certificate. Connections without TLS are refused then, and nodes without identity. region is
	// 0 where it is not known yet. May be nil.
	Peer func(cs *tls.ConnectionState, node base.NodeID, region base.RegionID) error
	// Process names this process among all that may ever run as this node. A node that hears one of
	// them refuses the others, see [TCP.Other]. 0: it is not compared.
	Process uint64
	// Superseded reports whether a process of a node has been followed by a newer one, of another
	// copy of its store. May be nil.
	Superseded func(node base.NodeID, process uint64) bool
	// Dial replaces the dialler, for tests and proxies.
	Dial func(ctx context.Context, addr string) (net.Conn, error)
	// DialTimeout bounds connecting and handshake. Default 3 s.
	DialTimeout time.Duration
	// DeadAfter is how long unacknowledged bytes or a silent connection are
	// taken before the connection counts as broken. Default 10 s.
	DeadAfter time.Duration
	// RetryMin and RetryMax bound the pause after failed dials: messages in it
	// fail at once, the first one after it dials again. Defaults 50 ms and 1 s.
	RetryMin, RetryMax time.Duration
	// MaxConns bounds accepted connections. Default 1024.
	MaxConns int
	// OnDown is told, in a goroutine of its own, that a peer's connection for
	// consensus messages broke and was not replaced: its process has most likely ended. May be nil.
	OnDown func(peer base.NodeID)
	Limits Limits
	Logger *slog.Logger
}

func (o *TCPOptions) setDefaults() {
	set := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	set(&o.DialTimeout, 3*time.Second)
	set(&o.DeadAfter, 10*time.Second)
	set(&o.RetryMin, 50*time.Millisecond)
	set(&o.RetryMax, time.Second)
	o.RetryMax = max(o.RetryMax, o.RetryMin)
	if o.MaxConns <= 0 {
		o.MaxConns = 1024
	}
}

// TCP is the Transport over TCP.
type TCP struct {
	core
	opt    TCPOptions
	ln     net.Listener
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // connection goroutines

	pmu   sync.RWMutex
	links map[base.NodeID]*tcpPeer

	congestion atomic.Value // string, of connections to other regions

	smu   sync.Mutex
	conns map[*serverConn]struct{} // accepted
	slots map[slotKey]*serverConn  // the current one of each peer and class
}

type slotKey struct {
	node  base.NodeID
	class class
}

// tcpPeer is what SetPeer said, and the streams to there.
type tcpPeer struct {
	id    base.NodeID
	count *counters
	mu    sync.Mutex
	addr  string
	links [numClasses]tcpLink

	trying atomic.Bool // a connection is made beside those that are stuck
}

// NewTCP makes the transport and binds its listener, so that the address can
// be told to others; Start begins to accept.
func NewTCP(opt TCPOptions) (*TCP, error) {
	opt.setDefaults()
	if (opt.TLSServer == nil) != (opt.TLSClient == nil) && (opt.TLSClient == nil || opt.Listener == nil) {
		return nil, base.Errorf(base.CodeInvalid, "TLS needs both a server and a client configuration")
	}
	if opt.Self != 0 && opt.ClusterID == "" {
		return nil, base.Errorf(base.CodeInvalid, "node %d has no cluster id", opt.Self)
	}
	t := &TCP{opt: opt, ln: opt.Listener, links: map[base.NodeID]*tcpPeer{}, conns: map[*serverConn]struct{}{},
		slots: map[slotKey]*serverConn{}}
	t.init(opt.Self, opt.Region, opt.Limits, opt.Logger)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	if t.ln == nil && opt.Listen != "" {
		ln, err := net.Listen("tcp", opt.Listen)
		if err != nil {
			t.cancel()
			return nil, base.Errorf(base.CodeInvalid, "listen on %s: %v (is the port taken by another node?)", opt.Listen, err)
		}
		t.ln = ln
	}
	return t, nil
}

// Addr is the address listened on; nil without a listener.
func (t *TCP) Addr() net.Addr {
	if t.ln == nil {
		return nil
	}
	return t.ln.Addr()
}

// Start implements [Transport].
func (t *TCP) Start() error {
	if t.closed.Load() || t.started.Swap(true) {
		return base.Errorf(base.CodeInvalid, "transport of node %d was started already, or is closed", t.self)
	}
	if t.ln != nil {
		t.wg.Add(1)
		go t.accept()
	}
	t.wg.Add(1)
	go t.watchStuck()
	return nil
}

// Close implements [Transport].
func (t *TCP) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	t.cancel()
	if t.ln != nil {
		t.ln.Close()
	}
	t.pmu.RLock()
	for _, p := range t.links {
		p.drop(errClosed)
	}
	t.pmu.RUnlock()
	t.smu.Lock()
	for c := range t.conns {
		c.close()
	}
	t.smu.Unlock()
	t.closePools(&t.wg)
	return nil
}

var errClosed = errors.New("the transport is closed")

// SetPeer implements [Transport].
func (t *TCP) SetPeer(id base.NodeID, addr string, region base.RegionID) {
	c := t.counters(id)
	c.region.Store(uint32(region))
	t.pmu.Lock()
	p := t.links[id]
	if p == nil {
		p = &tcpPeer{id: id, count: c, addr: addr}
		for i := range p.links {
			p.links[i] = tcpLink{t: t, p: p, class: class(i)}
		}
		t.links[id] = p
	}
	t.pmu.Unlock()
	p.mu.Lock()
	moved := p.addr != addr
	p.addr = addr
	p.mu.Unlock()
	if moved {
		p.drop(fmt.Errorf("it moved to %s", addr))
	}
}

// Region implements [Transport].
func (t *TCP) Region(id base.NodeID) base.RegionID {
	if id == t.self {
		return t.region
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	if c := t.peers[id]; c != nil {
		return base.RegionID(c.region.Load())
	}
	return 0
}

// Stats implements [Transport].
func (t *TCP) Stats() []LinkStats {
	return t.allStats(func(s *LinkStats) {
		p := t.peer(s.Peer)
		if p == nil {
			return
		}
		for i := range p.links {
			m, b, up := p.links[i].queued()
			s.QueuedMsgs += m
			s.QueuedBytes += b
			s.Connected = s.Connected || up
		}
	})
}

func (t *TCP) peer(id base.NodeID) *tcpPeer {
	t.pmu.RLock()
	defer t.pmu.RUnlock()
	return t.links[id]
}

func (t *TCP) link(to base.NodeID, kind wire.Kind) (*tcpLink, error) {
	if t.closed.Load() {
		return nil, unsent(base.CodeUnavailable, errClosed, "node %d is shutting down", t.self)
	}
	if p := t.peer(to); p != nil {
		return &p.links[classOf(kind)], nil
	}
	return nil, unsent(base.CodeUnavailable, nil, "node %d has no known address", to)
}

// Send implements [Transport].
func (t *TCP) Send(to base.NodeID, kind wire.Kind, m Msg) error {
	if to == t.self {
		return base.Errorf(base.CodeInvalid, "node %d sends %s to itself", to, kind)
	}
	l, err := t.link(to, kind)
	if err != nil {
		return err
	}
	s, err := l.stream(t)
	if err != nil {
		l.p.count.dropped.Add(1)
		return err
	}
	n, err := s.out.put(typeSend, kind, 0, 0, m, nil, false)
	if err != nil {
		return l.putError(s, kind, err)
	}
	l.p.count.sent(kind, n)
	return nil
}

// Call implements [Transport].
func (t *TCP) Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp Msg) error {
	if to == t.self {
		return t.callSelf(ctx, kind, req, resp)
	}
	if err := ctx.Err(); err != nil {
		return unsent(base.CodeCanceled, err, "%s request to node %d was not sent: %v", kind, to, err)
	}
	if err := t.refuseLost(ctx, to, kind); err != nil {
		return err
	}
	l, err := t.link(to, kind)
	if err != nil {
		return err
	}
	s, err := l.stream(t)
	if err != nil {
		return err
	}
	id, cl := t.nextID.Add(1), t.free.get()
	switch s.calls.add(id, cl, t.lim.Pending) {
	case tableFull:
		l.p.count.overloaded.Add(1)
		return unsent(base.CodeOverloaded, nil, "%d calls to node %d are unanswered: retry later", t.lim.Pending, to)
	case tableClosed:
		return s.failure(false)
	}
	req, span := t.watched(ctx, kind, req)
	n, err := s.out.put(typeRequest, kind, timeoutOf(ctx), id, req, cl, false)
	if err != nil {
		if s.calls.take(id) == nil {
			<-cl.done
		}
		t.free.put(cl)
		return l.putError(s, kind, err)
	}
	l.p.count.sent(kind, n)
	return t.await(ctx, &s.calls, id, cl, l.p.count, kind, n, resp, span, func() bool {
		if s.out.withdraw(cl) {
			return true
		}
		s.out.put(typeCancel, kind, 0, id, nil, nil, false)
		return false
	})
}

// connect dials, encrypts and shakes hands.
func (o *TCPOptions) connect(ctx context.Context, addr string, h hello) (net.Conn, *bufio.Reader, welcome, error) {
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	conn, err := o.dial(ctx, addr)
	if err != nil {
		return nil, nil, welcome{}, err
	}
	tuneConn(conn, o.DeadAfter)
	// An end of ctx (Close) must also end a handshake under way.
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if o.TLSClient != nil {
		cfg := o.TLSClient.Clone()
		if cfg.ServerName == "" && !cfg.InsecureSkipVerify {
			cfg.ServerName, _, _ = net.SplitHostPort(addr)
		}
		tc := tls.Client(conn, cfg)
		if err := tc.HandshakeContext(ctx); err != nil {
			conn.Close()
			return nil, nil, welcome{}, fmt.Errorf("TLS: %w", err)
		}
		conn = tc
	}
	if h.want != 0 {
		if err := o.known(conn, h.want, 0); err != nil {
			hangUp(conn)
			return nil, nil, welcome{}, err
		}
	}
	r := bufio.NewReaderSize(conn, readBuffer)
	w, err := greet(conn, r, h, deadline)
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		hangUp(conn)
		return nil, nil, w, err
	}
	return conn, r, w, nil
}

// dial makes a connection.
func (o *TCPOptions) dial(ctx context.Context, addr string) (net.Conn, error) {
	if o.Dial != nil {
		return o.Dial(ctx, addr)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

// known asks Peer about the other end of a connection.
func (o *TCPOptions) known(conn net.Conn, node base.NodeID, region base.RegionID) error {
	if o.Peer == nil {
		return nil
	}
	tc, ok := conn.(*tls.Conn)
	if !ok {
		return base.Errorf(base.CodeInvalid, "this cluster's nodes speak TLS: start all nodes alike, with or without --insecure")
	}
	cs := tc.ConnectionState()
	return o.Peer(&cs, node, region)
}

// hangUp closes a connection at once. A TLS connection by itself would first say so to the peer,
// and wait up to 5 s if that does not read.
func hangUp(conn net.Conn) {
	if tc, ok := conn.(*tls.Conn); ok {
		conn = tc.NetConn()
	}
	conn.Close()
}

// readBuffer is the size of one read from the socket.
const readBuffer = 64 << 10

// tuneConn sets what every connection wants: no Nagle delay, and death noticed within dead.
func tuneConn(conn net.Conn, dead time.Duration) {
	tc := tcpOf(conn)
	if tc == nil {
		return
	}
	tc.SetNoDelay(true)
	tc.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: dead / 2, Interval: max(dead/6, time.Second), Count: 3})
	setUserTimeout(tc, dead)
}

// SetCongestion implements [Transport].
func (t *TCP) SetCongestion(name string) error {
	if err := knowsCongestion(name); err != nil {
		return base.Errorf(base.CodeInvalid, "this machine's TCP has no congestion control %q, "+
			"or only for root (see net.ipv4.tcp_allowed_congestion_control): %v", name, err)
	}
	t.congestion.Store(name)
	t.eachConn(t.congest)
	return nil
}

// eachConn calls fn for the connections that there are, dialled and accepted, and the regions at
// their other ends.
func (t *TCP) eachConn(fn func(conn net.Conn, to base.RegionID)) {
	t.pmu.RLock()
	defer t.pmu.RUnlock()
	for _, p := range t.links {
		for i := range p.links {
			p.links[i].mu.Lock()
			s := p.links[i].cur
			p.links[i].mu.Unlock()
			if s == nil {
				continue
			}
			s.mu.Lock()
			if s.conn != nil {
				fn(s.conn, base.RegionID(p.count.region.Load()))
			}
			s.mu.Unlock()
		}
	}
	t.smu.Lock()
	defer t.smu.Unlock()
	for _, c := range t.slots {
		fn(c.conn, base.RegionID(c.s.count.region.Load()))
	}
}

// congest sets the congestion control of a connection to a region.
func (t *TCP) congest(conn net.Conn, to base.RegionID) {
	name, ok := t.congestion.Load().(string)
	if tc := tcpOf(conn); ok && tc != nil && to != t.region && to != 0 {
		if err := setCongestion(tc, name); err != nil {
			t.log.Warn("congestion control cannot be set", "name", name, "err", err)
		}
	}
}

func tcpOf(conn net.Conn) *net.TCPConn {
	for {
		u, ok := conn.(interface{ NetConn() net.Conn })
		if !ok {
			break
		}
		conn = u.NetConn()
	}
	tc, _ := conn.(*net.TCPConn)
	return tc
}

func dialError(node base.NodeID, addr string, err error) error {
	who := fmt.Sprintf("node %d at %s", node, addr)
	if node == 0 {
		who = addr
	}
	var e *base.Error
	if errors.As(err, &e) {
		return unsent(e.Code, err, "%s: %s", who, e.Msg)
	}
	return unsent(base.CodeUnavailable, err, "%s cannot be reached: %v", who, err)
}
