package wan

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// httpMethods are the first four bytes of what an HTTP client sends; no frame
// can begin so, since they would make its length hundreds of megabytes.
var httpMethods = [][]byte{[]byte("GET "), []byte("POST"), []byte("HEAD"), []byte("PUT "), []byte("DELE"),
	[]byte("OPTI"), []byte("PATC")}

// sniffTimeout is how long a new connection may stay silent.
const sniffTimeout = 5 * time.Second

// maxSniffing bounds connections that have not said yet what they are.
const maxSniffing = 256

// SplitHTTP serves the transport and HTTP on one port: connections that begin
// like an HTTP request come out of the second listener, all others out of the
// first. Closing either stops both.
func SplitHTTP(ln net.Listener) (frames, http net.Listener) {
	m := &mux{ln: ln, done: make(chan struct{}), sniffing: make(chan struct{}, maxSniffing)}
	a := &half{m: m, conns: make(chan net.Conn)}
	b := &half{m: m, conns: make(chan net.Conn)}
	go m.run(a, b)
	return a, b
}

type mux struct {
	ln       net.Listener
	once     sync.Once
	done     chan struct{}
	sniffing chan struct{}
}

func (m *mux) close() error {
	err := net.ErrClosed
	m.once.Do(func() {
		close(m.done)
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
			case <-m.done:
				return
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		select {
		case m.sniffing <- struct{}{}:
		default:
			c.Close() // many silent connections: somebody scans the port
			continue
		}
		go func() {
			defer func() { <-m.sniffing }()
			m.sniff(c, frames, http)
		}()
	}
}

func (m *mux) sniff(c net.Conn, frames, http *half) {
	var head [4]byte
	c.SetReadDeadline(time.Now().Add(sniffTimeout))
	if _, err := io.ReadFull(c, head[:]); err != nil {
		c.Close()
		return
	}
	c.SetReadDeadline(time.Time{})
	to := frames
	for _, p := range httpMethods {
		if bytes.Equal(head[:], p) {
			to = http
		}
	}
	select {
	case to.conns <- &sniffed{Conn: c, head: head[:]}:
	case <-m.done:
		c.Close()
	}
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
	case <-h.m.done:
		return nil, net.ErrClosed
	}
}

func (h *half) Close() error   { return h.m.close() }
func (h *half) Addr() net.Addr { return h.m.ln.Addr() }

// sniffed gives back the bytes that were read to see what the connection is.
type sniffed struct {
	net.Conn
	head []byte
}

func (s *sniffed) Read(b []byte) (int, error) {
	if len(s.head) > 0 {
		n := copy(b, s.head)
		s.head = s.head[n:]
		return n, nil
	}
	return s.Conn.Read(b)
}

// NetConn is the connection underneath, for socket options.
func (s *sniffed) NetConn() net.Conn { return s.Conn }
