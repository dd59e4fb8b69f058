// Package early answers MySQL clients that come before a node may serve SQL.
package early

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/vitess/go/mysql"
)

// Port is the MySQL port of a node that may not serve SQL yet: it waits for its cluster, or for
// the catalog. Clients that come wait for a while, and are then told so. The first Accept is that
// of the SQL server: it gets those who still wait.
type Port struct {
	*net.TCPListener

	mu      sync.Mutex
	waiting []*caller      // the oldest first
	hosts   map[string]int // how many of them come from a host
	stopped chan struct{}  // closed when nobody but the SQL server accepts
	once    sync.Once
}

// caller is a client that waits, until its timer fires.
type caller struct {
	net.Conn
	host  string
	timer *time.Timer
}

const (
	// earlyWait is how long a client waits: a restart takes less.
	earlyWait = 5 * time.Second
	// earlyMost is how many may wait, earlyPerAddress how many of one address. One more, and the
	// oldest is told: of that address, or of the one that has most.
	earlyMost       = 1024
	earlyPerAddress = 128
)

// notYet is the packet that clients are told by, in place of a greeting.
var notYet = greeting(3168, "Server isn't available: the node does not serve SQL yet; it waits for its cluster "+
	"(godwit init, godwit status), or for other nodes")

// greeting is an error in place of a greeting. It has no state there.
func greeting(code uint16, text string) []byte {
	body := append([]byte{mysql.ErrPacket, byte(code), byte(code >> 8)}, text...)
	return append([]byte{byte(len(body)), byte(len(body) >> 8), 0, 0}, body...)
}

// New makes it of a listener.
func New(l *net.TCPListener) *Port {
	e := &Port{TCPListener: l, stopped: make(chan struct{})}
	go e.receive()
	return e
}

// receive accepts clients until the SQL server does.
func (e *Port) receive() {
	defer close(e.stopped)
	for {
		c, err := e.TCPListener.Accept()
		if err != nil {
			return // it is closed, or the SQL server accepts
		}
		e.take(c)
	}
}

func (e *Port) take(c net.Conn) {
	e.mu.Lock()
	defer e.mu.Unlock()
	k := &caller{Conn: c, host: hostOf(c)}
	k.timer = time.AfterFunc(earlyWait, func() { e.send(k) })
	e.waiting = append(e.waiting, k)
	if e.hosts == nil {
		e.hosts = map[string]int{}
	}
	e.hosts[k.host]++
	if out := e.tooMany(k.host); out != nil {
		go e.send(out)
	}
}

// tooMany is who has to go for one that has come from a host; nil: nobody.
func (e *Port) tooMany(host string) *caller {
	if e.hosts[host] <= earlyPerAddress {
		if len(e.waiting) <= earlyMost {
			return nil
		}
		most := 0
		for _, n := range e.hosts {
			most = max(most, n)
		}
		i := slices.IndexFunc(e.waiting, func(k *caller) bool { return e.hosts[k.host] == most })
		return e.waiting[i]
	}
	i := slices.IndexFunc(e.waiting, func(k *caller) bool { return k.host == host })
	return e.waiting[i]
}

// hostOf is whence a connection comes, without the port.
func hostOf(c net.Conn) string {
	a := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(a); err == nil {
		return host
	}
	return a
}

// send tells a client to come later.
func (e *Port) send(k *caller) {
	if !e.leave(k) {
		return
	}
	k.timer.Stop()
	_ = k.SetWriteDeadline(time.Now().Add(time.Second)) // who does not read is no reason to wait
	_, _ = k.Write(notYet)                              // it may have gone
	_ = k.Close()
}

// leave takes a client out; false if it is not there.
func (e *Port) leave(k *caller) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i, x := range e.waiting {
		if x == k {
			e.remove(i)
			return true
		}
	}
	return false
}

// remove forgets a client that waits; the caller holds mu.
func (e *Port) remove(i int) {
	host := e.waiting[i].host
	if e.hosts[host]--; e.hosts[host] == 0 {
		delete(e.hosts, host)
	}
	e.waiting = append(e.waiting[:i], e.waiting[i+1:]...)
}

// Accept implements net.Listener.
func (e *Port) Accept() (net.Conn, error) {
	e.once.Do(func() {
		_ = e.SetDeadline(time.Unix(1, 0)) // ends receive
		<-e.stopped
		_ = e.SetDeadline(time.Time{})
	})
	e.mu.Lock()
	if len(e.waiting) > 0 {
		k := e.waiting[0]
		e.remove(0)
		k.timer.Stop()
		e.mu.Unlock()
		return k.Conn, nil
	}
	e.mu.Unlock()
	return e.TCPListener.Accept()
}

// Close implements net.Listener.
func (e *Port) Close() error {
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
