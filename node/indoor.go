package node

import (
	"context"
	"net"
	"sync"
)

// indoor is the MySQL port with a second entrance, for clients in this process: the console. They
// have the address of the client for whom they ask, so that accounts, limits and the audit log see
// that one.
type indoor struct {
	net.Listener // the port

	in     chan net.Conn // from either entrance
	failed chan error    // of the port
	done   chan struct{}
	first  sync.Once // of Accept
	last   sync.Once // of Close
}

func newIndoor(l net.Listener) *indoor {
	return &indoor{Listener: l, in: make(chan net.Conn), failed: make(chan error), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *indoor) Accept() (net.Conn, error) {
	l.first.Do(func() { go l.receive() })
	select {
	case c := <-l.in:
		return c, nil
	case err := <-l.failed:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// receive accepts the connections of the port.
func (l *indoor) receive() {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			select {
			case l.failed <- err:
				continue
			case <-l.done:
				return
			}
		}
		select {
		case l.in <- c:
		case <-l.done:
			_ = c.Close()
			return
		}
	}
}

// Dial connects from within, for a client at an address. It waits until the port is served.
func (l *indoor) Dial(ctx context.Context, from net.Addr) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.in <- indoorConn{a, from}:
		return b, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close implements net.Listener.
func (l *indoor) Close() (err error) {
	l.last.Do(func() {
		close(l.done)
		err = l.Listener.Close()
	})
	return err
}

// indoorConn is the server's end of a connection from within.
type indoorConn struct {
	net.Conn
	from net.Addr
}

// RemoteAddr implements net.Conn.
func (c indoorConn) RemoteAddr() net.Addr { return c.from }
