package wan

import (
	"context"
	"errors"
	"net"
	"syscall"
	"time"
)

// TCP sends again what was not acknowledged after pauses that double. When a path that was cut for
// some seconds works again, what waits for it waits for as long once more. So a connection that is
// stuck is replaced by a new one, as soon as another one to the same address comes up beside it:
// that shows that the path works. At most one is tried at a time to each peer, at most four times a
// second. What the old connection held is lost then, as with any connection that breaks.

const (
	// lookEvery is how often connections are looked at.
	lookEvery = 250 * time.Millisecond
	// tryFor is how long an attempt beside waits for the peer's kernel, and two round trips more:
	// TCP would send its request again only after a second.
	tryFor = 500 * time.Millisecond
	// slowDial is how long a dial may take before an attempt is made beside it.
	slowDial = 500 * time.Millisecond
)

var errStuck = errors.New("the path works again, but TCP waits before it sends again")

// backoff is what a kernel says of a connection.
type backoff struct {
	// tries is how often in a row it has sent again what is not acknowledged; 0 if nothing is.
	tries int
	// wait is the pause before it does so once more, rtt its round trip.
	wait, rtt time.Duration
	// packets are segments with data that it has sent, resent those that it has sent again.
	packets, resent uint32
}

// stuck reports whether the connection will be silent for long, though the path may work. Loss of
// single packets makes no two tries in vain.
func (b backoff) stuck() bool { return b.tries >= 2 && b.wait >= time.Second }

// watchStuck replaces connections that are stuck, until the transport is closed.
func (t *TCP) watchStuck() {
	defer t.wg.Done()
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick.C:
		}
		t.pmu.RLock()
		peers := make([]*tcpPeer, 0, len(t.links))
		for _, p := range t.links {
			peers = append(peers, p)
		}
		t.pmu.RUnlock()
		for _, p := range peers {
			if p.trying.Load() {
				continue
			}
			dialled, accepted, rtt := t.stuckTo(p)
			if len(dialled)+len(accepted) == 0 {
				continue
			}
			p.trying.Store(true)
			t.wg.Add(1)
			go func() {
				defer t.wg.Done()
				defer p.trying.Store(false)
				t.tryBeside(p, tryFor+2*rtt)
			}()
		}
	}
}

// stuckTo lists the connections with a peer that are stuck, and the longest round trip of them. It
// counts the packets of all.
func (t *TCP) stuckTo(p *tcpPeer) (dialled []*stream, accepted []*serverConn, rtt time.Duration) {
	for i := range p.links {
		l := &p.links[i]
		l.mu.Lock()
		s := l.cur
		l.mu.Unlock()
		if s == nil {
			continue
		}
		s.mu.Lock()
		conn, ended := s.conn, s.err != nil
		s.mu.Unlock()
		switch {
		case ended:
		case conn == nil && time.Since(s.begun) >= slowDial:
			dialled = append(dialled, s)
		case conn != nil:
			b := backoffOf(conn)
			if s.counted.note(&p.count.packets, b); b.stuck() {
				dialled, rtt = append(dialled, s), max(rtt, b.rtt)
			}
		}
	}
	t.smu.Lock()
	defer t.smu.Unlock()
	for cl := range numClasses {
		if c := t.slots[slotKey{p.id, class(cl)}]; c != nil {
			b := backoffOf(c.conn)
			if c.counted.note(&p.count.packets, b); b.stuck() {
				accepted, rtt = append(accepted, c), max(rtt, b.rtt)
			}
		}
	}
	return dialled, accepted, rtt
}

// tryBeside replaces what is stuck if a connection to the peer comes up within the limit.
func (t *TCP) tryBeside(p *tcpPeer, limit time.Duration) {
	p.mu.Lock()
	addr := p.addr
	p.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.ctx, limit)
	defer cancel()
	p.count.beside.Add(1)
	conn, err := t.opt.dial(ctx, addr)
	switch {
	case err == nil:
		conn.Close()
	case errors.Is(err, syscall.ECONNREFUSED): // its machine answers, and nobody listens any more
	default:
		return
	}
	dialled, accepted, _ := t.stuckTo(p)
	for _, s := range dialled {
		s.fail(errStuck, true)
	}
	for _, c := range accepted {
		// The peer is to hear of it at once, not when TCP sends again.
		if tc := tcpOf(c.conn); tc != nil {
			_ = tc.SetLinger(0) // without it the peer hears later
		}
		c.renewed.Store(true)
		c.close()
	}
	if n := len(dialled) + len(accepted); n > 0 {
		t.log.Info("connections that were stuck are made anew", "peer", uint32(p.id), "addr", addr, "connections", n)
	}
}

// backoffOf asks the kernel about a connection; zero where it does not say.
func backoffOf(conn net.Conn) backoff {
	if tc := tcpOf(conn); tc != nil {
		return kernelBackoff(tc)
	}
	return backoff{}
}
