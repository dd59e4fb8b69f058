package wan

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/wire"
)

// tcpLink is the dialling end of one class of streams to a peer. It connects
// when there is something to send; while the peer cannot be reached, messages
// fail at once, and after a pause the next one dials again.
type tcpLink struct {
	t     *TCP
	p     *tcpPeer
	class class

	mu       sync.Mutex
	cur      *stream // connecting or connected; nil when down
	failures int     // dials failed in a row
	retryAt  time.Time
	lastErr  error
}

// stream is one connection, from before it is dialled until it has failed.
type stream struct {
	l     *tcpLink
	addr  string
	begun time.Time
	out   *outbox
	calls callTable

	counted counted

	mu   sync.Mutex
	conn net.Conn // nil before it is up
	err  error    // why it ended
}

// stream returns the current one, dialling if there is none.
func (l *tcpLink) stream(t *TCP) (*stream, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cur != nil {
		return l.cur, nil
	}
	if t.closed.Load() {
		return nil, unsent(base.CodeUnavailable, errClosed, "node %d is shutting down", t.self)
	}
	l.p.mu.Lock()
	addr := l.p.addr
	l.p.mu.Unlock()
	if l.failures > 0 && time.Now().Before(l.retryAt) {
		return nil, dialError(l.p.id, addr, l.lastErr)
	}
	s := &stream{l: l, addr: addr, begun: time.Now(), out: newOutbox(&t.lim)}
	l.cur = s
	t.wg.Add(1)
	go func() {
		defer t.wg.Done()
		s.run()
	}()
	return s, nil
}

func (s *stream) run() {
	t, p := s.l.t, s.l.p
	conn, r, w, err := t.opt.connect(t.ctx, s.addr, hello{
		version: protocolVersion, class: s.l.class, region: t.region, node: t.self, want: p.id,
		cluster: t.opt.ClusterID, packs: understood, process: t.opt.Process,
	})
	if err != nil {
		s.fail(err, false)
		return
	}
	s.mu.Lock()
	s.conn = conn
	ended := s.err
	s.mu.Unlock()
	if ended != nil { // Close or SetPeer came first
		hangUp(conn)
		return
	}
	p.count.connects.Add(1)
	t.log.Debug("connected", "peer", uint32(p.id), "addr", s.addr, "class", s.l.class.String(), "peer_region", uint8(w.region))
	t.congest(conn, w.region)
	out, r, release := t.halves(conn, r, p.count, w.region, w.packs)
	defer release()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := out.writeAll(s.out); err != nil {
			s.fail(err, true)
		}
	}()
	err = s.read(r)
	s.fail(err, true)
	<-done
}

func (s *stream) read(r *bufio.Reader) error {
	for {
		f, err := readFrame(r, s.l.t.lim.MaxFrame)
		if err != nil {
			return err
		}
		switch f.typ {
		case typeResponse, typeError, typeRefused:
			s.l.p.count.received(f)
			s.calls.answer(f)
		default:
			return fmt.Errorf("unexpected frame of type %d on the answering half of a stream", f.typ)
		}
	}
}

// fail ends the stream: its calls fail now, and the link may dial again.
func (s *stream) fail(err error, wasUp bool) {
	if err == io.EOF {
		err = errors.New("the peer closed the connection")
	}
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	conn := s.conn
	s.mu.Unlock()

	l, t := s.l, s.l.t
	l.mu.Lock()
	if l.cur == s {
		l.cur = nil
	}
	if wasUp {
		l.failures = 0 // the peer was fine a moment ago: try at once
	} else {
		pause := t.opt.RetryMin << min(l.failures, 10)
		l.failures++
		l.lastErr = err
		l.retryAt = time.Now().Add(min(pause, t.opt.RetryMax))
	}
	first := l.failures <= 1
	l.mu.Unlock()

	if conn != nil {
		hangUp(conn)
	}
	taken, left := s.out.close()
	lost := 0
	s.calls.drain(true, func(c *call) error {
		if c.start >= taken {
			lost++
			return s.failure(false)
		}
		return s.failure(true)
	})
	if left > lost {
		l.p.count.dropped.Add(uint64(left - lost))
	}
	if first && !t.closed.Load() {
		t.log.Warn("connection lost", "peer", uint32(l.p.id), "addr", s.addr, "class", l.class.String(), "err", err)
	}
}

// failure is the error of a call on a stream that ended.
func (s *stream) failure(sent bool) error {
	s.mu.Lock()
	err, up := s.err, s.conn != nil
	s.mu.Unlock()
	if sent {
		return unanswered(base.CodeUnavailable, err, "connection to node %d at %s broke before the answer: %v",
			s.l.p.id, s.addr, err)
	}
	if up {
		return unsent(base.CodeUnavailable, err, "connection to node %d at %s broke before the request was sent: %v",
			s.l.p.id, s.addr, err)
	}
	return dialError(s.l.p.id, s.addr, err)
}

// putError is the error of a message that could not be queued.
func (l *tcpLink) putError(s *stream, kind wire.Kind, err error) error {
	switch err {
	case errQueueFull:
		l.p.count.overloaded.Add(1)
		return unsent(base.CodeOverloaded, err,
			"the queue of %s messages to node %d is full (%d messages or %d MiB): retry later",
			l.class, l.p.id, l.t.lim.QueueMsgs, l.t.lim.QueueBytes>>20)
	case errStreamEnded:
		l.p.count.dropped.Add(1)
		return s.failure(false)
	}
	return unsent(base.CodeInvalid, err, "%s to node %d: %v", kind, l.p.id, err)
}

func (l *tcpLink) queued() (msgs, bytes int, up bool) {
	l.mu.Lock()
	s := l.cur
	l.mu.Unlock()
	if s == nil {
		return 0, 0, false
	}
	s.mu.Lock()
	up = s.conn != nil
	s.mu.Unlock()
	msgs, bytes = s.out.queued()
	return msgs, bytes, up
}

// drop ends the streams to a peer that moved, or all on Close; the next message dials at once.
func (p *tcpPeer) drop(why error) {
	for i := range p.links {
		l := &p.links[i]
		l.mu.Lock()
		s := l.cur
		l.failures = 0
		l.mu.Unlock()
		if s != nil {
			s.fail(why, true)
		}
	}
}

// alive forgets failed dials: the peer was just heard of.
func (p *tcpPeer) alive() {
	for i := range p.links {
		l := &p.links[i]
		l.mu.Lock()
		l.failures = 0
		l.mu.Unlock()
	}
}
