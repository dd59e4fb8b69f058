// Package pipe has listeners whose connections are net.Pipe. Simulations and tests serve SQL
// clients by them: virtual time (testing/synctest) knows when a goroutine waits for a pipe, and
// does not know it of a socket.
package pipe

import (
	"context"
	"net"
	"sync"
)

// Listener is a net.Listener in memory.
type Listener struct {
	addr  addr
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	open  []net.Conn
}

// Listen makes a listener. It says that it has an address; nobody can find it by that.
func Listen(network, address string) *Listener {
	return &Listener{addr: addr{network, address}, conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return l.addr }

// Dial connects to the listener.
func (l *Listener) Dial(ctx context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- named{a, l.addr}:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, a)
		return named{b, l.addr}, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Sever breaks all connections, as the death of the process does.
func (l *Listener) Sever() {
	l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		c.Close()
	}
}

type addr struct{ network, address string }

func (a addr) Network() string { return a.network }
func (a addr) String() string  { return a.address }

// named is one end of a pipe, with an address as servers expect of a client.
type named struct {
	net.Conn
	addr addr
}

func (n named) RemoteAddr() net.Addr { return n.addr }
func (n named) LocalAddr() net.Addr  { return n.addr }
