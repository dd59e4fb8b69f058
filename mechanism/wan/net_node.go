package wan

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/obs"
	"github.com/godwitdb/godwit/wire"
)

// netEnd names one end of a pipe.
type netEnd struct {
	id     base.NodeID
	region base.RegionID
}

type connKey struct {
	to    base.NodeID
	class class
}

// netNode is the transport of one life of a node.
type netNode struct {
	core
	net *Network

	gmu  sync.Mutex
	gone bool
	wg   sync.WaitGroup // goroutines that run ordered handlers

	cmu   sync.RWMutex
	conns map[connKey]*netConn  // dialled from here
	dying map[*netConn]struct{} // their peer is gone, and the reset is on its way here

	nobody callTable // calls to nodes that are not there
}

// netConn is one stream: requests and one-way messages go forth, answers come back.
type netConn struct {
	net *Network
	// to is the life that was there when the stream was opened; nil: nobody, and nothing enters
	from, to *netNode
	class    class
	peer     netEnd
	fwd, rev pipe
	count    *counters // the dialler's, of the peer
	calls    callTable
	s        session // at the peer

	// Under Network.mu.
	dead bool

	// What was accepted and neither handled nor lost, per direction.
	fwdLoad, revLoad load

	// One-way messages that arrived and wait for their handler, in order.
	imu     sync.Mutex
	inbox   []frame
	running bool
}

// load bounds one direction of a stream.
type load struct {
	mu          sync.Mutex
	msgs, bytes int
	ended       bool
	room        chan struct{} // closed when something was released; nil if nobody waits
}

// take counts a message in. With wait it waits for room; force ignores the
// bound. errStreamEnded when the stream is dead.
func (l *load) take(lim *Limits, size int, wait, force bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		if l.ended {
			return errStreamEnded
		}
		if force || l.msgs == 0 || l.msgs < lim.QueueMsgs && l.bytes+size <= lim.QueueBytes {
			l.msgs++
			l.bytes += size
			return nil
		}
		if !wait {
			return errQueueFull
		}
		if l.room == nil {
			l.room = make(chan struct{})
		}
		room := l.room
		l.mu.Unlock()
		<-room
		l.mu.Lock()
	}
}

func (l *load) release(size int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.msgs--
	l.bytes -= size
	l.wake()
}

func (l *load) wake() {
	if l.room != nil {
		close(l.room)
		l.room = nil
	}
}

// end fails all that wait.
func (l *load) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

func (l *load) held() (msgs, bytes int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.msgs, l.bytes
}

// Start implements [Transport].
func (v *netNode) Start() error {
	n := v.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if v.closed.Load() || v.started.Load() || n.closed {
		return base.Errorf(base.CodeInvalid, "transport of node %d was started already, or is closed", v.self)
	}
	if n.nodes[v.self] != nil {
		return base.Errorf(base.CodeInvalid,
			"node %d is on the network already: Close or Crash its other transport first", v.self)
	}
	v.started.Store(true)
	n.nodes[v.self] = v
	return nil
}

// Close implements [Transport].
func (v *netNode) Close() error {
	if !v.closed.Swap(true) {
		v.leave(errors.New("the peer closed the connection"))
	}
	v.closePools(&v.wg) // after a crash, too: its handlers still use what is closed next
	return nil
}

// enter counts a goroutine that runs ordered handlers; false when closed.
func (v *netNode) enter() bool {
	v.gmu.Lock()
	defer v.gmu.Unlock()
	if !v.gone {
		v.wg.Add(1)
	}
	return !v.gone
}

// leave takes the node off the network. closed is set already.
func (v *netNode) leave(why error) {
	v.gmu.Lock()
	v.gone = true
	v.gmu.Unlock()
	n := v.net
	n.mu.Lock()
	if n.nodes[v.self] == v {
		delete(n.nodes, v.self)
	}
	var mine, theirs []*netConn
	v.cmu.Lock()
	for k, c := range v.conns {
		c.kill()
		mine = append(mine, c)
		delete(v.conns, k)
	}
	for c := range v.dying {
		mine = append(mine, c)
	}
	v.dying = nil
	v.cmu.Unlock()
	for _, o := range n.nodes {
		o.cmu.Lock()
		for k, c := range o.conns {
			if c.to == v {
				c.kill()
				theirs = append(theirs, c)
				delete(o.conns, k)
				if o.dying == nil {
					o.dying = map[*netConn]struct{}{}
				}
				o.dying[c] = struct{}{}
			}
		}
		o.cmu.Unlock()
	}
	for _, c := range theirs {
		reset := func() {
			c.from.cmu.Lock()
			delete(c.from.dying, c)
			c.from.cmu.Unlock()
			c.calls.drain(true, func(*call) error {
				return unanswered(base.CodeUnavailable, why, "connection to node %d broke before the answer: %v", v.self, why)
			})
		}
		// The reset travels like anything else.
		d := c.rev.path.spec.Delay
		if n.isCut(c.rev.from, c.rev.to) {
			d = n.opt.StallAfter
		}
		n.after(d, reset)
	}
	n.mu.Unlock()
	for _, c := range theirs {
		c.s.close()
	}
	for _, c := range mine {
		c.s.close()
		c.calls.drain(true, func(*call) error {
			return unanswered(base.CodeUnavailable, errClosed, "node %d is shutting down", v.self)
		})
	}
	v.nobody.drain(true, func(*call) error {
		return unsent(base.CodeUnavailable, errClosed, "node %d is shutting down", v.self)
	})
}

// kill loses everything in flight on the stream; Network.mu is held.
func (c *netConn) kill() {
	c.dead = true
	for _, p := range []*pipe{&c.fwd, &c.rev} {
		p.held = nil
		delete(c.net.held, p)
		p.load().end()
	}
}

// SetPeer implements [Transport]; the network knows where its nodes are, so
// only the region counts, and only for nodes that have not joined.
func (v *netNode) SetPeer(id base.NodeID, _ string, region base.RegionID) {
	v.net.mu.Lock()
	defer v.net.mu.Unlock()
	if _, ok := v.net.where[id]; !ok {
		v.net.where[id] = region
	}
}

// Region implements [Transport].
func (v *netNode) Region(id base.NodeID) base.RegionID {
	v.net.mu.Lock()
	defer v.net.mu.Unlock()
	return v.net.where[id]
}

// Stats implements [Transport].
func (v *netNode) Stats() []LinkStats {
	return v.allStats(func(s *LinkStats) {
		v.net.mu.Lock()
		s.Connected = v.net.nodes[s.Peer] != nil
		v.net.mu.Unlock()
		v.cmu.RLock()
		defer v.cmu.RUnlock()
		for c := range numClasses {
			if c := v.conns[connKey{s.Peer, c}]; c != nil {
				m, b := c.fwdLoad.held()
				s.QueuedMsgs += m
				s.QueuedBytes += b
			}
		}
	})
}

// conn returns the stream to a peer, opening it.
func (v *netNode) conn(to base.NodeID, cl class) (*netConn, error) {
	k := connKey{to, cl}
	v.cmu.RLock()
	c := v.conns[k]
	v.cmu.RUnlock()
	if c != nil {
		return c, nil
	}
	n := v.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if v.closed.Load() || !v.started.Load() || n.closed {
		return nil, unsent(base.CodeUnavailable, errClosed, "node %d is not on the network", v.self)
	}
	region, known := n.where[to]
	if !known {
		return nil, unsent(base.CodeUnavailable, nil, "node %d has no known address", to)
	}
	v.cmu.Lock()
	defer v.cmu.Unlock()
	if c := v.conns[k]; c != nil {
		return c, nil
	}
	peer := n.nodes[to]
	c = &netConn{net: n, from: v, to: peer, class: cl, peer: netEnd{to, region}, count: v.counters(to)}
	c.count.region.Store(uint32(region))
	self := &netEnd{v.self, v.region}
	there, back := n.path(v.region, region), n.path(region, v.region)
	c.fwd = pipe{conn: c, fwd: true, from: self, to: &c.peer, path: there, back: back}
	c.rev = pipe{conn: c, from: &c.peer, to: self, path: back, back: there}
	c.s.from = v.self
	if peer != nil {
		c.count.connects.Add(1)
		c.s.count = peer.counters(v.self)
		c.s.count.region.Store(uint32(v.region))
		c.s.reply = c.reply
		// Only a stream to somebody is kept: the next message tries again.
		v.conns[k] = c
	}
	return c, nil
}

// Send implements [Transport].
func (v *netNode) Send(to base.NodeID, kind wire.Kind, m Msg) error {
	if to == v.self {
		return base.Errorf(base.CodeInvalid, "node %d sends %s to itself", to, kind)
	}
	c, err := v.conn(to, classOf(kind))
	if err != nil {
		return err
	}
	if c.to == nil {
		c.count.dropped.Add(1)
		return nil // as on TCP, where the dial fails later
	}
	buf, err := appendFrame(nil, typeSend, kind, 0, 0, m, v.lim.MaxFrame)
	if err != nil {
		return unsent(base.CodeInvalid, err, "%s to node %d: %v", kind, to, err)
	}
	if err := c.fwdLoad.take(&v.lim, len(buf), false, false); err != nil {
		return c.notTaken(err)
	}
	c.count.sent(kind, len(buf))
	c.push(&c.fwd, parcel{buf: buf, typ: typeSend, kind: kind})
	return nil
}

// notTaken is the error of a message that load.take refused.
func (c *netConn) notTaken(err error) error {
	if err == errStreamEnded {
		return unsent(base.CodeUnavailable, errCrashed, "connection to node %d broke before the message was sent", c.peer.id)
	}
	c.count.overloaded.Add(1)
	return unsent(base.CodeOverloaded, errQueueFull,
		"the queue of %s messages to node %d is full (%d messages or %d MiB): retry later",
		c.class, c.peer.id, c.from.lim.QueueMsgs, c.from.lim.QueueBytes>>20)
}

// Call implements [Transport].
func (v *netNode) Call(ctx context.Context, to base.NodeID, kind wire.Kind, req, resp Msg) error {
	if to == v.self {
		return v.callSelf(ctx, kind, req, resp)
	}
	if err := ctx.Err(); err != nil {
		return unsent(base.CodeCanceled, err, "%s request to node %d was not sent: %v", kind, to, err)
	}
	if err := v.refuseLost(ctx, to, kind); err != nil {
		return err
	}
	c, err := v.conn(to, classOf(kind))
	if err != nil {
		return err
	}
	if c.to == nil {
		return v.callNobody(ctx, c, kind)
	}
	id := v.nextID.Add(1)
	req, span := v.watched(ctx, kind, req)
	buf, err := appendFrame(nil, typeRequest, kind, timeoutOf(ctx), id, req, v.lim.MaxFrame)
	if err != nil {
		return unsent(base.CodeInvalid, err, "%s to node %d: %v", kind, to, err)
	}
	cl := v.free.get()
	switch c.calls.add(id, cl, v.lim.Pending) {
	case tableFull:
		c.count.overloaded.Add(1)
		return unsent(base.CodeOverloaded, nil, "%d calls to node %d are unanswered: retry later", v.lim.Pending, to)
	case tableClosed:
		return unsent(base.CodeUnavailable, errCrashed, "connection to node %d broke before the request was sent", to)
	}
	if err := c.fwdLoad.take(&v.lim, len(buf), false, false); err != nil {
		if c.calls.take(id) == nil {
			<-cl.done
		}
		v.free.put(cl)
		return c.notTaken(err)
	}
	c.count.sent(kind, len(buf))
	size := len(buf)
	c.push(&c.fwd, parcel{buf: buf, typ: typeRequest, kind: kind, id: id})
	return v.await(ctx, &c.calls, id, cl, c.count, kind, size, resp, span, func() bool {
		if c.fwdLoad.take(&v.lim, headerLen, false, false) == nil {
			b, _ := appendFrame(nil, typeCancel, kind, 0, id, nil, v.lim.MaxFrame)
			c.push(&c.fwd, parcel{buf: b, typ: typeCancel, kind: kind, id: id})
		}
		return false
	})
}

// push puts a parcel on its way; its load is taken already.
func (c *netConn) push(p *pipe, pc parcel) {
	n := c.net
	sender, receiver, from := c.count, c.s.count, c.from
	if !p.fwd {
		sender, receiver, from = receiver, sender, c.to
	}
	pc.wire = len(pc.buf)
	if packs(p.from.region, p.to.region, understood, understood) {
		if pack := from.compression(); pack != Off {
			pc.wire = n.sizer.size(pack, pc.buf)
		}
		if tap := n.tap.Load(); tap != nil {
			stream := c.class.String() + " answers"
			if p.fwd {
				stream = c.class.String()
			}
			(*tap)(Tapped{At: time.Duration(n.now()), From: p.from.id, To: p.to.id, Stream: stream, Kind: pc.kind, Frame: pc.buf})
		}
	}
	sender.crossed(len(pc.buf), pc.wire, receiver)
	n.mu.Lock()
	if c.dead {
		n.mu.Unlock()
		p.lose(pc)
		if pc.typ == typeRequest {
			// The reset is on its way here; do not wait for it.
			c.calls.fail(pc.id, unsent(base.CodeUnavailable, errCrashed,
				"connection to node %d broke before the request was sent", c.peer.id))
		}
		return
	}
	now := n.enter(p, pc)
	n.mu.Unlock()
	if now {
		c.arrive(p, pc)
	}
}

func (p *pipe) load() *load {
	if p.fwd {
		return &p.conn.fwdLoad
	}
	return &p.conn.revLoad
}

// lose drops a parcel; it can be called under Network.mu.
func (p *pipe) lose(c parcel) {
	p.load().release(len(c.buf))
	if c.typ == typeSend {
		p.conn.count.dropped.Add(1)
	}
}

// unhold gives up a parcel that waited too long for a cut to heal, and its
// Call; Network.mu is held.
func (c *netConn) unhold(p *pipe, pc parcel) {
	p.lose(pc)
	c.calls.fail(pc.id, unanswered(base.CodeUnavailable, errStalled,
		"connection to node %d broke before the answer: %v", c.peer.id, errStalled))
}

// arrive hands a parcel to the node it was sent to. No lock is held; nothing
// here blocks.
func (c *netConn) arrive(p *pipe, pc parcel) {
	f, err := parseFrame(pc.buf)
	if err != nil {
		c.from.log.Error("emulated network damaged a frame", "err", err) // a bug here, never input
		p.lose(pc)
		return
	}
	if !p.fwd {
		c.revLoad.release(f.size)
		c.count.received(f)
		c.calls.answer(f)
		return
	}
	if f.typ != typeSend {
		c.fwdLoad.release(f.size)
		if err := c.to.receive(&c.s, f); err != nil {
			c.from.log.Error("emulated network misuse", "err", err)
		}
		return
	}
	c.s.count.received(f)
	c.imu.Lock()
	c.inbox = append(c.inbox, f)
	start := !c.running
	c.running = true
	c.imu.Unlock()
	if start && c.to.enter() {
		go c.drain()
	}
}

// drain runs the ordered handlers until the inbox is empty.
func (c *netConn) drain() {
	defer c.to.wg.Done()
	var batch []frame
	for {
		c.imu.Lock()
		clear(batch)
		batch, c.inbox = c.inbox, batch[:0]
		if len(batch) == 0 {
			c.running = false
			c.imu.Unlock()
			return
		}
		c.imu.Unlock()
		for _, f := range batch {
			if !c.to.closed.Load() {
				c.to.deliver(c.from.self, f)
			}
			c.fwdLoad.release(f.size)
		}
	}
}

// callNobody is a call to a node that is known and not there: refused after a
// round trip, or, if cut off from it, when connecting has taken too long.
func (v *netNode) callNobody(ctx context.Context, c *netConn, kind wire.Kind) error {
	id, cl := v.nextID.Add(1), v.free.get()
	switch v.nobody.add(id, cl, v.lim.Pending) {
	case tableFull:
		return unsent(base.CodeOverloaded, nil, "%d calls are waiting for nodes that are down: retry later", v.lim.Pending)
	case tableClosed:
		return unsent(base.CodeUnavailable, errClosed, "node %d is shutting down", v.self)
	}
	n := v.net
	n.mu.Lock()
	d, why := c.fwd.path.spec.Delay+c.rev.path.spec.Delay, errRefused
	if n.isCut(c.fwd.from, c.fwd.to) || n.isCut(c.rev.from, c.rev.to) {
		d, why = n.opt.StallAfter, errStalled
	}
	n.after(d, func() {
		v.nobody.fail(id, unsent(base.CodeUnavailable, why, "node %d cannot be reached: %v", c.peer.id, why))
	})
	n.mu.Unlock()
	return v.await(ctx, &v.nobody, id, cl, c.count, kind, 0, nil, obs.TraceOf(ctx).Span().Start(kind.String()),
		func() bool { return true })
}

// reply sends an answer back; while the stream is full it waits, and with it the handler.
func (c *netConn) reply(typ frameType, kind wire.Kind, id uint64, m Msg) {
	lim := &c.to.lim
	buf, err := appendFrame(nil, typ, kind, 0, id, m, lim.MaxFrame)
	if err != nil {
		c.to.log.Error("answer cannot be sent", "kind", kind.String(), "peer", uint32(c.from.self), "err", err)
		typ = typeError
		buf, _ = appendFrame(nil, typ, kind, 0, id, statusOf(base.Errorf(base.CodeInvalid, "answer cannot be sent: %v",
			err)), lim.MaxFrame)
	}
	// Refusals come from the mover, which must not wait; they are small and no
	// more than the calls pending.
	if c.revLoad.take(lim, len(buf), true, typ == typeRefused) != nil {
		return
	}
	c.s.count.sent(kind, len(buf))
	c.push(&c.rev, parcel{buf: buf, typ: typ, kind: kind, id: id})
}
