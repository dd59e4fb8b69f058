package server

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/admit"
	"github.com/godwitdb/godwit/sql/binlog"
	"github.com/godwitdb/godwit/sql/late"
)

// The lobby holds the connections of which it is not known yet whose they are. They are few, and
// leave after a while. A client that speaks gets in: when the lobby is full, the oldest connection
// of the address that has most is closed.
type lobby struct {
	net.Listener
	perAddress, total int
	logins            *admit.Logins

	mu    sync.Mutex
	conns map[string][]*clientConn // by address, the oldest first
	n     int
}

// The bounds of the lobby.
const (
	lobbyPerAddress = 128
	lobbyTotal      = 1024
	// loginBytes is what a client may send before it has logged in.
	loginBytes = 1 << 16
)

func newLobby(l net.Listener) *lobby {
	return &lobby{Listener: l, perAddress: lobbyPerAddress, total: lobbyTotal, logins: admit.NewLogins(0),
		conns: map[string][]*clientConn{}}
}

// Accept implements net.Listener.
func (l *lobby) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	cc := &clientConn{Conn: c, lobby: l, address: hostOf(c.RemoteAddr())}
	if v := intVariable("connect_timeout"); v > 0 {
		_ = c.SetDeadline(time.Now().Add(time.Duration(v) * time.Second))
	}
	if out := l.enter(cc); out != nil {
		out.Close()
	}
	return cc, nil
}

// enter takes a connection in, and returns the one that has to leave for it.
func (l *lobby) enter(c *clientConn) (out *clientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.conns[c.address] = append(l.conns[c.address], c)
	l.n++
	full := c.address
	if len(l.conns[full]) <= l.perAddress {
		if l.n <= l.total {
			return nil
		}
		for a, cs := range l.conns {
			if len(cs) > len(l.conns[full]) {
				full = a
			}
		}
	}
	out = l.conns[full][0]
	l.remove(out)
	return out
}

// leave takes a connection out: its client has logged in, or is gone.
func (l *lobby) leave(c *clientConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.remove(c)
}

func (l *lobby) remove(c *clientConn) {
	cs := l.conns[c.address]
	i := slices.Index(cs, c)
	if i < 0 {
		return
	}
	l.n--
	if cs = slices.Delete(cs, i, i+1); len(cs) > 0 {
		l.conns[c.address] = cs
	} else {
		delete(l.conns, c.address)
	}
}

// clientConn is the connection of a client.
type clientConn struct {
	net.Conn
	lobby   *lobby
	address string

	// read is how many bytes came since a statement of the client was begun, longData how many
	// since its parameters that come in pieces were looked at.
	read, longData int
	// released: the client was answered the last time.
	released bool
	over     bool // nothing more comes from it
	// Until the client has logged in:
	in   bool
	turn admit.Login // lets others compute while it waits for the client
	// first is the beginning of the first packet, also of a client that goes on with TLS: a header,
	// and the client's flags.
	first []byte
	body  int  // what is still to come of the packet that is sent
	seq   byte // its number
	// shift is added to the sequence number of the next packet: the protocol library does not know
	// of packets that were exchanged past it.
	shift byte
	tool  bool // MariaDB's mysqlbinlog
	// account is whose login it counts as; nil before it has logged in.
	account *account
}

// Over implements late.Ending.
func (c *clientConn) Over() bool { return c.over }

// Under implements quick.Wrapped.
func (c *clientConn) Under() net.Conn { return c.Conn }

// clientOf is the connection under the protocol library's, and under TLS; nil if it is of another
// kind.
func clientOf(c *mysql.Conn) *clientConn {
	cc, _ := late.Raw(c.Conn).(*clientConn)
	return cc
}

// Read implements net.Conn.
func (c *clientConn) Read(b []byte) (int, error) {
	if c.released {
		return 0, io.EOF
	}
	if !c.in {
		c.turn.End()
		defer c.turn.Begin(c.lobby.logins)
	}
	n, err := c.Conn.Read(b)
	c.over = c.over || err != nil && !errors.Is(err, os.ErrDeadlineExceeded)
	if more := packetHeader + 4 - len(c.first); more > 0 {
		c.first = append(c.first, b[:min(n, more)]...)
	}
	c.tool = c.tool || !c.in && binlog.Tool(b[:n])
	c.longData += n
	switch c.read += n; {
	case c.in && c.read > requestBytes && c.read > mostOfRequest():
		// The connection ends, as in MySQL: the client is in the middle of sending.
		return 0, errLongPacket
	case !c.in && c.read > loginBytes:
		return 0, errTooLong
	}
	return n, err
}

const (
	// requestBytes is what a request may have in any case: no variable need be looked at.
	requestBytes = 1 << 20
	// preparedBytes is what a statement may have that is prepared, with what was sent since the
	// last statement. So many bytes of nested operators fit on a stack.
	preparedBytes = 1 << 20
)

// mostOfRequest is how many bytes a client may send until it executes or prepares something: a
// statement, or the long parameters of a prepared one. Files that it sends (LOAD DATA LOCAL) have
// no limit.
func mostOfRequest() int {
	if intVariable("local_infile") != 0 {
		return math.MaxInt
	}
	return int(intVariable("max_allowed_packet")) + requestBytes
}

var (
	errTooLong    = mysql.NewSQLError(1153, "08S01", "Got a packet that is too long for a login")
	errLongPacket = mysql.NewSQLError(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
)

// Write implements net.Conn. The protocol library writes the header of a packet by itself.
func (c *clientConn) Write(b []byte) (int, error) {
	if c.in && c.shift == 0 {
		return c.Conn.Write(b)
	}
	if !c.in && c.turn.End() {
		defer c.turn.Begin(c.lobby.logins)
	}
	if c.body > 0 || len(b) != packetHeader {
		c.body = max(0, c.body-len(b))
		return c.Conn.Write(b)
	}
	head := [packetHeader]byte(b)
	head[3] += c.shift
	c.shift, c.seq = 0, head[3]
	c.body = int(head[0]) | int(head[1])<<8 | int(head[2])<<16
	return c.Conn.Write(head[:])
}

// handled notes that a statement begins. The error says that the parameters which the client has
// sent in pieces, and not used yet, are too long together; they are dropped.
func handled(c *mysql.Conn) error {
	cc := clientOf(c)
	if cc == nil {
		return nil
	}
	cc.read = 0
	if cc.longData <= requestBytes {
		return nil
	}
	cc.longData = 0
	sum := 0
	for _, p := range c.PrepareData {
		for _, v := range p.BindVars {
			sum += len(v.GetValue())
		}
	}
	if sum <= mostOfRequest() {
		return nil
	}
	for _, p := range c.PrepareData {
		clear(p.BindVars)
	}
	return errLongPacket
}

// interactive reports whether a person seems to be at the other end: the client asked for
// interactive_timeout.
func (c *clientConn) interactive() bool {
	const flag = 1 << 10
	return len(c.first) == packetHeader+4 && binary.LittleEndian.Uint32(c.first[packetHeader:])&flag != 0
}

// packetHeader is the length of a packet's header.
const packetHeader = 4

// Close implements net.Conn.
func (c *clientConn) Close() error {
	c.lobby.leave(c)
	c.turn.End()
	return c.Conn.Close()
}

// loggedIn lets the client into the house.
func (c *clientConn) loggedIn() {
	c.lobby.leave(c)
	c.in = true
	_ = c.Conn.SetDeadline(time.Time{})
}

// hostOf is an address without its port.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// intVariable is the global value of a variable that is a number, 0 if it is none.
func intVariable(name string) int64 {
	_, v, _ := sql.SystemVariables.GetGlobal(name)
	switch n := v.(type) {
	case int64:
		return n
	case uint64:
		return int64(min(n, 1<<62))
	case int8: // a switch
		return int64(n)
	}
	return 0
}
