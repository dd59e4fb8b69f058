package wan

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// serverConn is one accepted connection: requests and one-way messages come
// in, answers go out.
type serverConn struct {
	t    *TCP
	conn net.Conn
	out  *outbox
	s    session
	done chan struct{} // closed when the reader has returned

	process uint64       // the peer's; 0: not known
	heard   atomic.Int64 // when a frame came last, in Unix ns
	renewed atomic.Bool  // it was closed to be made anew
	counted counted

	once sync.Once
}

func (t *TCP) accept() {
	defer t.wg.Done()
	for {
		conn, err := t.ln.Accept()
		if err != nil {
			if t.closed.Load() || errors.Is(err, net.ErrClosed) {
				return
			}
			// Out of file descriptors, most likely: accept again when some may be free.
			t.log.Error("cannot accept connections", "err", err)
			select {
			case <-t.ctx.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		c := &serverConn{t: t, conn: conn, out: newOutbox(&t.lim), done: make(chan struct{})}
		t.smu.Lock()
		full := len(t.conns) >= t.opt.MaxConns
		if !full && !t.closed.Load() {
			t.conns[c] = struct{}{}
			t.wg.Add(1)
			go c.serve()
			conn = nil
		}
		t.smu.Unlock()
		if conn != nil {
			conn.Close()
			if full {
				t.log.Error("connection refused: too many", "from", conn.RemoteAddr().String(), "limit", t.opt.MaxConns)
			}
		}
	}
}

func (c *serverConn) close() {
	c.once.Do(func() {
		hangUp(c.conn)
		c.out.close()
		c.s.close()
	})
}

// serve runs one connection: it greets the peer, takes the place of an older connection of its, and
// reads until the end.
func (c *serverConn) serve() {
	t := c.t
	defer t.wg.Done()
	var slot slotKey
	defer func() { c.depart(slot) }()
	remote := c.conn.RemoteAddr().String()
	conn, r, h, ok := c.greet(remote)
	if !ok {
		return
	}
	c.s.from, c.s.reply = h.node, c.reply
	if h.node == 0 {
		c.s.count = new(counters)
	} else {
		slot = slotKey{h.node, h.class}
		c.process = h.process
		c.heard.Store(time.Now().UnixNano())
		c.s.count = t.counters(h.node)
		c.s.count.region.CompareAndSwap(0, uint32(h.region))
		if p := t.peer(h.node); p != nil {
			p.alive()
		}
		c.replace(slot)
	}
	t.congest(c.conn, h.region)
	out, r, release := t.halves(conn, r, c.s.count, h.region, h.packs)
	defer release()
	written := make(chan struct{})
	go func() {
		defer close(written)
		if out.writeAll(c.out) != nil {
			c.close()
		}
	}()
	err := c.read(r, h.node == 0)
	c.close()
	<-written
	if err != io.EOF && !errors.Is(err, net.ErrClosed) && !t.closed.Load() {
		t.log.Warn("connection closed", "peer", uint32(h.node), "from", remote, "class", h.class.String(), "err", err)
	}
}

// depart forgets the connection. If no newer one has taken its place, the peer may be down.
func (c *serverConn) depart(slot slotKey) {
	t := c.t
	c.close()
	close(c.done)
	t.smu.Lock()
	delete(t.conns, c)
	current := t.slots[slot] == c
	if current {
		delete(t.slots, slot)
	}
	t.smu.Unlock()
	if current && slot.class == classRaft && !c.renewed.Load() && t.opt.OnDown != nil && !t.closed.Load() {
		go t.opt.OnDown(slot.node)
	}
}

// replace makes this the connection of a slot. A peer that dials again has given up its old one.
// What is left in that one comes first, so that its messages stay in order.
func (c *serverConn) replace(slot slotKey) {
	t := c.t
	t.smu.Lock()
	old := t.slots[slot]
	t.slots[slot] = c
	t.smu.Unlock()
	if old != nil {
		old.close()
		<-old.done
	}
}

// greet sets the connection up, and exchanges hello and welcome. ok is false if the peer is not
// taken; the log then says why.
func (c *serverConn) greet(remote string) (conn net.Conn, r *bufio.Reader, h hello, ok bool) {
	t := c.t
	conn = c.conn
	tuneConn(conn, t.opt.DeadAfter)
	conn.SetDeadline(time.Now().Add(t.opt.DialTimeout))
	if t.opt.TLSServer != nil {
		tc := tls.Server(conn, t.opt.TLSServer)
		if err := tc.HandshakeContext(t.ctx); err != nil {
			t.log.Warn("TLS handshake failed", "from", remote, "err", err)
			return nil, nil, h, false
		}
		conn = tc
	}
	r = bufio.NewReaderSize(conn, readBuffer)
	h, err := readHello(r)
	if err != nil {
		if !t.closed.Load() && err != io.EOF {
			t.log.Warn("connection refused", "from", remote, "err", err)
		}
		return nil, nil, h, false
	}
	w := welcome{version: protocolVersion, node: t.self, region: t.region, packs: understood}
	w.code, w.text = judge(h, t.self, t.opt.ClusterID)
	if w.code == welcomed {
		w.code, w.text = t.opt.judge(conn, h)
	}
	if w.code == welcomed && t.Other(h.node, h.process) {
		w.code, w.text = base.CodeUnavailable, fmt.Sprintf("another process runs as node %d, and is heard here: "+
			"if the store of this one is a copy, start it with an empty store", h.node)
	}
	if w.code == welcomed && h.process != 0 && t.opt.Superseded != nil && t.opt.Superseded(h.node, h.process) {
		w.code, w.text = base.CodeInvalid, fmt.Sprintf("another copy of the store of node %d has taken its place", h.node)
	}
	_, err = conn.Write(appendRaw(nil, typeWelcome, 0, 0, w.encode()))
	if w.code != welcomed {
		t.log.Warn("connection refused", "from", remote, "node", uint32(h.node), "cluster", h.cluster, "why", w.text)
		return nil, nil, h, false
	}
	if err != nil {
		return nil, nil, h, false
	}
	conn.SetDeadline(time.Time{})
	Settled(conn)
	return conn, r, h, true
}

// heardFor is how long a process counts as running after it was heard last. Nodes that run send
// heartbeats several times as often.
const heardFor = 5 * time.Second

// Other reports whether another process than the given one is connected as a node, or is this node
// itself. A store that was copied must not speak while the original does: it would take the
// original's place here, and vote twice. A process that ended has no connections, or silent ones.
func (t *TCP) Other(node base.NodeID, process uint64) bool {
	if node == 0 || process == 0 {
		return false
	}
	if node == t.self {
		return process != t.opt.Process
	}
	t.smu.Lock()
	defer t.smu.Unlock()
	for cl := range numClasses {
		c := t.slots[slotKey{node, class(cl)}]
		if c != nil && c.process != 0 && c.process != process && time.Since(time.Unix(0, c.heard.Load())) < heardFor {
			return true
		}
	}
	return false
}

// judge is the decision about who a hello comes from.
func (o *TCPOptions) judge(conn net.Conn, h hello) (base.Code, string) {
	if o.Peer == nil {
		return welcomed, ""
	}
	if h.node == 0 {
		return base.CodeInvalid, "a node without identity is not answered: it needs a certificate, and joins over HTTPS"
	}
	if err := o.known(conn, h.node, h.region); err != nil {
		var e *base.Error
		if errors.As(err, &e) {
			return e.Code, e.Msg
		}
		return base.CodeInvalid, err.Error()
	}
	return welcomed, ""
}

// readHello reads the first frame of a connection.
func readHello(r *bufio.Reader) (hello, error) {
	f, err := readFrame(r, handshakeFrame)
	if err != nil {
		return hello{}, err
	}
	if f.typ != typeHello {
		return hello{}, errors.New("first frame is not a hello")
	}
	return decodeHello(f.body)
}

func (c *serverConn) read(r *bufio.Reader, anonymous bool) error {
	for {
		f, err := readFrame(r, c.t.lim.MaxFrame)
		if err != nil {
			return err
		}
		c.heard.Store(time.Now().UnixNano())
		if anonymous && (f.typ != typeCancel && f.typ != typeNoop) && (f.typ != typeRequest || f.kind != wire.KindAsk) {
			if f.typ != typeRequest {
				return errors.New("a node without identity may only ask")
			}
			c.reply(typeRefused, f.kind, f.id, statusOf(base.Errorf(base.CodeInvalid,
				"a node without identity may only ask, not send %s", f.kind)))
			continue
		}
		if err := c.t.receive(&c.s, f); err != nil {
			return err
		}
	}
}

// reply queues an answer; while the peer does not read, it waits, and with it the handler.
func (c *serverConn) reply(typ frameType, kind wire.Kind, id uint64, m Msg) {
	n, err := c.out.put(typ, kind, 0, id, m, nil, true)
	if err != nil && err != errStreamEnded {
		c.t.log.Error("answer cannot be sent", "kind", kind.String(), "peer", uint32(c.s.from), "err", err)
		n, err = c.out.put(typeError, kind, 0, id, statusOf(base.Errorf(base.CodeInvalid, "answer cannot be sent: %v",
			err)), nil, true)
	}
	if err == nil {
		c.s.count.sent(kind, n)
	}
}
