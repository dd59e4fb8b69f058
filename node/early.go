package node

import (
	"net"
	"sync"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// early is the MySQL port of a node that may not serve SQL yet: it waits for its cluster, or for
// the catalog. Clients that come wait for a while, and are then told so. The first Accept is that
// of the SQL server: it gets those who still wait.
type early struct {
	*net.TCPListener

	mu      sync.Mutex
	waiting []*caller
	stopped chan struct{} // closed when nobody but the SQL server accepts
	once    sync.Once
}

// caller is a client that waits, until its timer fires.
type caller struct {
	net.Conn
	timer *time.Timer
}

const (
	// earlyWait is how long a client waits: a restart takes less.
	earlyWait = 5 * time.Second
	// earlyMost is how many may wait. One more, and the first one is told.
	earlyMost = 1024
)

// notYet is the packet that clients are told by, in place of a greeting.
var notYet = greeting(3168, "Server isn't available: the node does not serve SQL yet; it waits for its cluster "+
	"(godwit init, godwit status), or for other nodes")

// greeting is an error in place of a greeting. It has no state there.
func greeting(code uint16, text string) []byte {
	body := append([]byte{mysql.ErrPacket, byte(code), byte(code >> 8)}, text...)
	return append([]byte{byte(len(body)), byte(len(body) >> 8), 0, 0}, body...)
}

func newEarly(l *net.TCPListener) *early {
	e := &early{TCPListener: l, stopped: make(chan struct{})}
	go e.receive()
	return e
}

// receive accepts clients until the SQL server does.
func (e *early) receive() {
	defer close(e.stopped)
	for {
		c, err := e.TCPListener.Accept()
		if err != nil {
			return // it is closed, or the SQL server accepts
		}
		e.take(c)
	}
}

func (e *early) take(c net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := &caller{Conn: c}
	k.timer = time.AfterFunc(earlyWait, func() { e.send(k) })
	e.waiting = append(e.waiting, k)
	if len(e.waiting) > earlyMost {
		go e.send(e.waiting[0])
	}
}

// send tells a client to come later.
func (e *early) send(k *caller) {
	if !e.leave(k) {
		return
	}
	k.timer.Stop()
	_ = k.SetWriteDeadline(time.Now().Add(time.Second)) // who does not read is no reason to wait
	_, _ = k.Write(notYet)                              // it may have gone
	_ = k.Close()
}

// leave takes a client out; false if it is not there.
func (e *early) leave(k *caller) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, x := range e.waiting {
		if x == k {
			e.waiting = append(e.waiting[:i], e.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// Accept implements net.Listener.
func (e *early) Accept() (net.Conn, error) {
	e.once.Do(func() {
		_ = e.SetDeadline(time.Unix(1, 0)) // ends receive
		<-e.stopped
		_ = e.SetDeadline(time.Time{})
	})
	e.mu.Lock()
	if len(e.waiting) > 0 {
		k := e.waiting[0]
		e.waiting = e.waiting[1:]
		k.timer.Stop()
		e.mu.Unlock()
		return k.Conn, nil
	}
	e.mu.Unlock()
	return e.TCPListener.Accept()
}

// Close implements net.Listener.
func (e *early) Close() error {
	err := e.TCPListener.Close()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, k := range e.waiting {
		k.timer.Stop()
		_ = k.Conn.Close()
	}
	e.waiting = nil
	return err
}
