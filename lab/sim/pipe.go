package sim

import (
	"context"
	"net"
	"sync"
)

// pipeListener is a listener whose connections are net.Pipe: virtual time knows when they wait.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	mu    sync.Mutex
	open  []net.Conn
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

// Accept implements net.Listener.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

// sever breaks all connections, as the death of the process does.
func (l *pipeListener) sever() {
	l.Close()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.open {
		c.Close()
	}
}

// Addr implements net.Listener.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "tcp" }
func (pipeAddr) String() string  { return "127.0.0.1:3306" }

// named is one end of a pipe, with an address as servers expect of a client.
type named struct{ net.Conn }

func (named) RemoteAddr() net.Addr { return pipeAddr{} }
func (named) LocalAddr() net.Addr  { return pipeAddr{} }

// dial connects to the listener.
func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	select {
	case l.conns <- named{a}:
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open = append(l.open, a)
		return named{b}, nil
	case <-l.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
