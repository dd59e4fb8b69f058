package server

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	vitess "github.com/dolthub/vitess/go/mysql"
	"github.com/go-sql-driver/mysql"

	"github.com/godwitdb/godwit/sql/admit"
)

// silent is a connection that says nothing. It knows whether it was closed, and until when it may
// be silent.
type silent struct {
	net.Conn
	from   string
	closed bool
	until  time.Time
}

func (s *silent) RemoteAddr() net.Addr          { return fakeAddr(s.from) }
func (s *silent) Close() error                  { s.closed = true; return nil }
func (s *silent) SetDeadline(t time.Time) error { s.until = t; return nil }

type fakeAddr string

func (fakeAddr) Network() string  { return "tcp" }
func (a fakeAddr) String() string { return string(a) }

// crowd is a listener to which connections come from a list of addresses.
type crowd struct {
	net.Listener
	conns []*silent
}

func (c *crowd) Accept() (net.Conn, error) {
	if len(c.conns) == 0 {
		return nil, io.EOF
	}
	s := c.conns[0]
	c.conns = c.conns[1:]
	return s, nil
}

// TestLobby: connections that do not log in are few, from one address and together. Others come in
// all the same.
func TestLobby(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []*silent
		for i := range 10 {
			all = append(all, &silent{from: fmt.Sprintf("10.0.0.1:%d", 1000+i)})
		}
		all = append(all, &silent{from: "10.0.0.2:1"}, &silent{from: "10.0.0.3:1"}, &silent{from: "10.0.0.4:1"})
		l := newLobby(&crowd{conns: all})
		l.perAddress, l.total = 4, 6
		var conns []*clientConn
		for {
			c, err := l.Accept()
			if err != nil {
				break
			}
			conns = append(conns, c.(*clientConn))
		}
		for i, s := range all {
			// Ten came from one address: of them stay four, and three when the lobby is full.
			if want := i < 7; s.closed != want {
				t.Errorf("connection %d from %s: closed %v, want %v", i, s.from, s.closed, want)
			}
			if want := time.Now().Add(time.Duration(intVariable("connect_timeout")) * time.Second); !s.until.Equal(want) {
				t.Errorf("connection %d may be silent until %v, want %v", i, s.until, want)
			}
		}
		conns[10].loggedIn()
		if !all[10].until.IsZero() {
			t.Error("a client that has logged in still has to hurry")
		}
		for _, c := range conns {
			c.Close()
		}
		if l.n != 0 || len(l.conns) != 0 {
			t.Errorf("%d connections (%v) are left", l.n, l.conns)
		}
	})
}

// TestLoginsTakeTurns: of those that log in, one computes at a time on a small machine. Nobody
// waits for one whose client is silent, or that was closed, and who has logged in waits for none.
func TestLoginsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arrivals := &crowd{}
		var clients []net.Conn
		for i := range 3 {
			here, there := net.Pipe()
			arrivals.conns = append(arrivals.conns, &silent{Conn: here, from: fmt.Sprintf("10.0.0.1:%d", 1000+i)})
			clients = append(clients, there)
		}
		l := newLobby(arrivals)
		l.logins = admit.NewLogins(1)
		var conns []*clientConn
		var read [3]atomic.Int32
		next := make([]chan bool, 3)
		for i := range clients {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c.(*clientConn))
			next[i] = make(chan bool)
			go func() {
				for range next[i] {
					if _, err := c.Read(make([]byte, 1)); err == nil {
						read[i].Add(1)
					}
				}
				c.Close()
			}()
		}
		conns[2].loggedIn()
		conns[2].turn.Done()
		step := func(what string, want [3]int32) {
			t.Helper()
			synctest.Wait()
			if got := [3]int32{read[0].Load(), read[1].Load(), read[2].Load()}; got != want {
				t.Errorf("%s: they have read %v, want %v", what, got, want)
			}
		}
		for i, c := range clients {
			next[i] <- true
			if i < 2 {
				_, _ = c.Write([]byte{1})
				synctest.Wait()
			}
		}
		step("the first one computes", [3]int32{1, 0, 0})
		_, _ = clients[2].Write([]byte{1})
		step("one that has logged in", [3]int32{1, 0, 1})
		next[0] <- true
		step("the first one waits for its client", [3]int32{1, 1, 1})
		_, _ = clients[0].Write([]byte{1})
		step("the second one computes", [3]int32{1, 1, 1})
		conns[1].Close()
		step("the second one is closed", [3]int32{2, 1, 1})
		for i, n := range next {
			close(n)
			clients[i].Close()
		}
	})
}

// engineHandler is the engine's, which ends sessions.
type engineHandler struct {
	vitess.Handler
	ended int
}

func (h *engineHandler) ConnectionClosed(*vitess.Conn) { h.ended++ }

// TestStrangersHaveNoSession: at the end of a connection that has not logged in, the engine makes
// no session to end it. It is told of others.
func TestStrangersHaveNoSession(t *testing.T) {
	s, c := newServer(t)
	k := conn(t, c)
	engine := &engineHandler{}
	h := &handler{Handler: engine, g: s.g, sm: s.h.sm}
	here, there := net.Pipe()
	defer there.Close()
	stranger := &vitess.Conn{Conn: here, ConnectionID: 1 << 30}
	h.sm.AddConn(stranger)
	h.ConnectionClosed(stranger)
	if engine.ended != 0 {
		t.Error("the engine was told of a stranger's end")
	}
	for _, p := range s.g.engine.ProcessList.Processes() {
		if p.Connection == stranger.ConnectionID {
			t.Error("the stranger is still there")
		}
	}
	id, err := strconv.ParseUint(query(t, k, "SELECT CONNECTION_ID()")[0], 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	h.ConnectionClosed(&vitess.Conn{Conn: here, ConnectionID: uint32(id)})
	if engine.ended != 1 {
		t.Error("the engine was not told of a client's end")
	}
}

// TestSilentClients: a client that is silent for longer than wait_timeout is told so, and what it
// has begun is rolled back.
func TestSilentClients(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "CREATE TABLE t (id INT PRIMARY KEY)")
	k, busy, patient := conn(t, c), conn(t, c), conn(t, c)
	exec(t, k, "SET wait_timeout = 5")
	exec(t, k, "BEGIN")
	exec(t, k, "INSERT INTO t VALUES (1)")
	exec(t, patient, "SET wait_timeout = 100")
	exec(t, busy, "SET wait_timeout = 5")
	ctx, cancel := context.WithCancel(t.Context())
	slept := make(chan error, 1)
	go func() {
		_, err := busy.ExecContext(ctx, "SELECT SLEEP(600)")
		slept <- err
	}()
	eventually(t, "the statement begins", func() bool {
		for _, p := range s.g.engine.ProcessList.Processes() {
			if p.Query == "SELECT SLEEP(600)" {
				return true
			}
		}
		return false
	})
	s.g.dismissIdle(time.Now().Add(4 * time.Second))
	exec(t, k, "INSERT INTO t VALUES (2)")
	s.g.dismissIdle(time.Now().Add(6 * time.Second))
	if _, err := k.ExecContext(t.Context(), "COMMIT"); err == nil {
		t.Error("a silent client goes on")
	}
	eventually(t, "what it has begun is rolled back", func() bool {
		n, err := tryQuery(patient, "SELECT COUNT(*) FROM t")
		return err == nil && n[0] == "0"
	})
	select {
	case err := <-slept:
		t.Errorf("a client whose statement runs was silent: %v", err)
	default:
	}
	cancel()
	<-slept
	var e *mysql.MySQLError
	if _, err := patient.ExecContext(t.Context(), "SELECT 1"); errors.As(err, &e) || err != nil {
		t.Errorf("a patient client: %v", err)
	}
}

// TestInteractiveClients: a client that says that it is interactive gets interactive_timeout.
func TestInteractiveClients(t *testing.T) {
	s, c := newServer(t)
	exec(t, c, "SET GLOBAL interactive_timeout = 77")
	defer exec(t, c, "SET GLOBAL interactive_timeout = 28800")
	for _, interactive := range []bool{false, true} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			client, err := l.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", s.Addr().String())
			if err != nil {
				client.Close()
				return
			}
			go io.Copy(client, up)
			first := make([]byte, 8) // the header, and the flags
			if _, err := io.ReadFull(client, first); err == nil {
				if interactive {
					first[5] |= 1 << 2
				}
				_, _ = up.Write(first)     // the server may have ended
				_, _ = io.Copy(up, client) // until the client goes
			}
			up.Close()
		}()
		k := openDSN(t, fmt.Sprintf("root@tcp(%s)/test", l.Addr()))
		want := "28800"
		if interactive {
			want = "77"
		}
		if out := query(t, k, "SELECT @@wait_timeout"); out[0] != want {
			t.Errorf("interactive %v: wait_timeout is %s, want %s", interactive, out[0], want)
		}
		k.Close()
		l.Close()
	}
}

// TestLongRequests: a request longer than max_allowed_packet ends the connection, and so do
// parameters in pieces that are longer together; what is shorter is answered.
func TestLongRequests(t *testing.T) {
	s, root := newServer(t)
	was := query(t, root, "SELECT @@GLOBAL.max_allowed_packet")[0]
	files := query(t, root, "SELECT @@GLOBAL.local_infile")[0]
	exec(t, root, "SET GLOBAL max_allowed_packet = 1048576")
	exec(t, root, "SET GLOBAL local_infile = 0") // with files there is no limit
	defer exec(t, root, "SET GLOBAL max_allowed_packet = "+was)
	defer exec(t, root, "SET GLOBAL local_infile = "+files)
	open := func() *sql.Conn {
		return conn(t, openDSN(t, fmt.Sprintf("root@tcp(%s)/test?maxAllowedPacket=67108864", s.Addr())))
	}
	long := strings.Repeat("x", 1<<20)
	expect(t, open(), "SELECT LENGTH('"+long[:1000_000]+"')", "1000000")
	if _, err := open().ExecContext(t.Context(), "SELECT LENGTH('"+strings.Repeat(long, 3)+"')"); err == nil {
		t.Error("a request of 3 MiB was answered")
	}
	c := open()
	p, err := c.PrepareContext(t.Context(), "SELECT LENGTH(?) + LENGTH(?) + LENGTH(?) + LENGTH(?)")
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.ExecContext(t.Context(), long, long, long, long); err == nil {
		t.Error("parameters of 4 MiB were taken")
	}
	expect(t, open(), "SELECT 1", "1")
}
