package quick

import (
	"crypto/tls"
	"io"
	"net"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Listener makes each TCP connection of a listener a quickConn.
func Listener(l net.Listener) net.Listener { return quickListener{l} }

type quickListener struct{ net.Listener }

func (l quickListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if t, ok := c.(*net.TCPConn); ok && err == nil {
		if raw, err := t.SyscallConn(); err == nil {
			q := &quickConn{TCPConn: t, raw: raw}
			q.r.op, q.w.op = syscall.SYS_READ, syscall.SYS_WRITE
			q.r.call, q.w.call = q.r.try, q.w.try
			return q, nil
		}
	}
	return c, err
}

// quickConn reads and writes its socket, which never blocks, by raw system calls. The scheduler
// takes the processor away from a goroutine that is in an ordinary one when its monitor passes by,
// and while it finds such goroutines the monitor runs every 20 µs: at a few ten thousand statements
// a second that costs a tenth of a processor.
type quickConn struct {
	*net.TCPConn
	raw  syscall.RawConn
	r, w quickCall
}

// quickCall is a read or a write under way. Like those of mysql.Conn there is at most one of each.
type quickCall struct {
	op    uintptr
	buf   []byte
	n     int
	errno syscall.Errno
	call  func(fd uintptr) bool
}

// try reports whether the call has ended; if not it waits for the socket.
func (c *quickCall) try(fd uintptr) bool {
	for {
		n, _, errno := syscall.RawSyscall(c.op, fd, uintptr(unsafe.Pointer(unsafe.SliceData(c.buf))), uintptr(len(c.buf)))
		switch errno {
		case syscall.EINTR:
			continue
		case syscall.EAGAIN:
			return false
		}
		c.n, c.errno = int(n), errno
		return true
	}
}

func (q *quickConn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	q.r.buf = b
	err := q.raw.Read(q.r.call)
	q.r.buf = nil
	switch {
	case err != nil:
		return 0, err
	case q.r.errno != 0:
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: q.LocalAddr(), Addr: q.RemoteAddr(), Err: q.r.errno}
	case q.r.n == 0:
		return 0, io.EOF
	}
	return q.r.n, nil
}

func (q *quickConn) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		q.w.buf = b[done:]
		err := q.raw.Write(q.w.call)
		q.w.buf = nil
		switch {
		case err != nil:
			return done, err
		case q.w.errno != 0:
			return done, &net.OpError{Op: "write", Net: "tcp", Source: q.LocalAddr(), Addr: q.RemoteAddr(), Err: q.w.errno}
		}
		done += q.w.n
	}
	return done, nil
}

// under is the connection behind all that stand before it.
func under(c net.Conn) net.Conn {
	for {
		u, ok := c.(Wrapped)
		if !ok {
			return c
		}
		c = u.Under()
	}
}

// Gone reports whether the client of a connection has gone away, while the server computes for it
// and does not read. It is not known of connections that are not of a [Listener].
func Gone(c net.Conn) bool {
	secured, isTLS := under(c).(*tls.Conn)
	if isTLS {
		c = secured.NetConn()
	}
	c = under(c)
	q, ok := c.(*quickConn)
	switch {
	case !ok:
		return false
	case isTLS:
		return q.hungUp()
	}
	return q.gone()
}

// gone reports whether the other side has closed the connection. Bytes that wait to be read hide
// it.
func (q *quickConn) gone() (gone bool) {
	_ = q.raw.Control(func(fd uintptr) {
		n, _, err := syscall.Recvfrom(int(fd), make([]byte, 1), syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		gone = n == 0 && err == nil || err == syscall.ECONNRESET || err == syscall.EPIPE || err == syscall.ETIMEDOUT
	})
	return gone
}

// hungUp is gone for TLS, where the other side's farewell waits to be read.
func (q *quickConn) hungUp() (gone bool) {
	_ = q.raw.Control(func(fd uintptr) {
		p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(p, 0)
		gone = err == nil && n > 0
	})
	return gone
}
