package late_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
	querypb "github.com/dolthub/vitess/go/vt/proto/query"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/late"
)

// slow is a server whose statements "wait" go on until they are let go.
type slow struct {
	late.Server
	waits chan *mysql.Conn
	goOn  chan error
}

func (*slow) NewConnection(*mysql.Conn)                   {}
func (*slow) ConnectionAuthenticated(*mysql.Conn) error   { return nil }
func (*slow) ConnectionClosed(*mysql.Conn)                {}
func (*slow) ConnectionAborted(*mysql.Conn, string) error { return nil }
func (*slow) WarningCount(*mysql.Conn) uint16             { return 0 }
func (*slow) ParserOptionsForConnection(*mysql.Conn) (o sqlparser.ParserOptions, err error) {
	return o, nil
}

// ComPrepare goes on while "wait" waits.
func (s *slow) ComPrepare(_ context.Context, c *mysql.Conn, q string, _ *mysql.PrepareData) ([]*querypb.Field, error) {
	_, err := s.run(c, strings.TrimPrefix(q, "SELECT "), func(*sqltypes.Result, bool) error { return nil })
	return nil, err
}

func (s *slow) ComQuery(_ context.Context, c *mysql.Conn, q string, cb mysql.ResultSpoolFn) error {
	_, err := s.run(c, q, cb)
	return err
}

func (s *slow) ComMultiQuery(_ context.Context, c *mysql.Conn, q string, cb mysql.ResultSpoolFn) (string, error) {
	return s.run(c, q, cb)
}

func (s *slow) run(c *mysql.Conn, q string, cb mysql.ResultSpoolFn) (rest string, err error) {
	q, rest, _ = strings.Cut(q, ";")
	if strings.HasPrefix(q, "wait") {
		s.waits <- c
		if err := <-s.goOn; err != nil {
			return rest, err
		}
	}
	return rest, cb(&sqltypes.Result{RowsAffected: uint64(len(q))}, rest != "")
}

// client writes and reads packets.
type client struct {
	t *testing.T
	net.Conn
}

func (c client) send(q string) { c.t.Helper(); c.command(mysql.ComQuery, q) }

func (c client) command(kind byte, q string) {
	c.t.Helper()
	b := append([]byte{byte(len(q) + 1), 0, 0, 0, kind}, q...)
	if _, err := c.Write(b); err != nil {
		c.t.Fatal(err)
	}
}

// read is the next packet: "ok" and the number of rows, or "err" and the number, and its place in
// the answer.
func (c client) read() string {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Second))
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return err.Error()
	}
	b := make([]byte, int(head[0])|int(head[1])<<8)
	if _, err := io.ReadFull(c, b); err != nil {
		return err.Error()
	}
	if b[0] == mysql.ErrPacket {
		return fmt.Sprint("err ", int(b[1])|int(b[2])<<8, " at ", head[3])
	}
	return fmt.Sprint("ok ", b[1], " at ", head[3])
}

// TestTell: a client is told while its statement goes on, behind the results of the same packet
// that came before; what the statement answers is dropped, and the next one, which may have been
// sent before, is answered.
func TestTell(t *testing.T) {
	s := &slow{waits: make(chan *mysql.Conn), goOn: make(chan error)}
	l, err := mysql.NewListener("tcp", "127.0.0.1:0", mysql.NewAuthServerNone(), &late.Handler{Server: s}, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go l.Accept()
	a := l.Addr().(*net.TCPAddr)
	with, err := mysql.Connect(t.Context(), &mysql.ConnParams{Host: "127.0.0.1", Port: a.Port, Uname: "u",
		Flags: mysql.CapabilityClientMultiStatements})
	if err != nil {
		t.Fatal(err)
	}
	defer with.Close()
	c := client{t, with.Conn}
	expect := func(want ...string) {
		t.Helper()
		for _, w := range want {
			if got := c.read(); got != w {
				t.Fatalf("the client is told %q, not %q", got, w)
			}
		}
	}
	told := errors.New("KILL")
	tell := func(at *mysql.Conn, ago uint64) (asked bool) {
		to := late.TellerOf(at)
		to.Tell(to.Answer()-ago, func() *mysql.SQLError {
			asked = true
			return mysql.NewSQLError(1317, "70100", "%v", told)
		})
		return asked
	}
	for _, ends := range []error{nil, errors.New("it failed"), mysql.NewSQLError(1205, "HY000", "it failed")} {
		c.send("wait")
		at := <-s.waits
		if tell(at, 1) || tell(at, ^uint64(0)) {
			t.Fatal("another statement's client is told")
		}
		if !tell(at, 0) {
			t.Fatal("the client is not told")
		}
		expect("err 1317 at 1")
		c.send("one")
		s.goOn <- ends
		expect("ok 3 at 1")

		c.send("one;two;wait;never")
		at = <-s.waits
		c.send("eleven") // before it knows
		tell(at, 0)
		if tell(at, 0) {
			t.Fatal("the client is told twice")
		}
		expect("ok 3 at 1", "ok 3 at 2", "err 1317 at 3")
		s.goOn <- ends
		expect("ok 6 at 1")

		c.command(mysql.ComPrepare, "SELECT wait")
		at = <-s.waits
		tell(at, 0)
		expect("err 1317 at 1")
		c.command(mysql.ComPrepare, "SELECT (") // which the library refuses
		s.goOn <- ends
		if got := c.read(); !strings.HasPrefix(got, "err") {
			t.Fatal(got)
		}
		if tell(at, 0) {
			t.Fatal("the client is told when it waits for nothing")
		}
		if len(at.PrepareData) > 0 {
			t.Fatal("a statement is kept of which the client does not know")
		}
	}
	c.send("wait")
	at := <-s.waits
	s.goOn <- nil
	expect("ok 4 at 1")
	if tell(at, 0) {
		t.Fatal("the client is told of a statement that has answered")
	}
	c.send("one")
	expect("ok 3 at 1")
}
