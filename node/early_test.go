package node

import (
	"bytes"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestEarlyClients: clients that come before a node serves SQL wait for a while, and are told then.
// Those that still wait are served.
func TestEarlyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &early{}
		come := func() net.Conn {
			client, server := net.Pipe()
			e.take(server)
			return client
		}
		first := come()
		time.Sleep(earlyWait - time.Second)
		second := come()
		begin := time.Now()
		told, err := io.ReadAll(first)
		if err != nil || !bytes.Equal(told, notYet) || !bytes.Contains(told, []byte("godwit init")) {
			t.Errorf("the first client was told %q, %v", told, err)
		}
		if d := time.Since(begin); d != time.Second {
			t.Errorf("it waited %v more", d)
		}
		e.once.Do(func() {}) // the SQL server accepts
		c, err := e.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go c.Write([]byte("greeting"))
		b := make([]byte, 8)
		if _, err := io.ReadFull(second, b); err != nil || string(b) != "greeting" {
			t.Errorf("the second client was told %q, %v", b, err)
		}
		time.Sleep(2 * earlyWait) // and nothing else
		many := make([]net.Conn, earlyMost+1)
		for i := range many {
			many[i] = come()
		}
		if told, err := io.ReadAll(many[0]); err != nil || !bytes.Equal(told, notYet) {
			t.Errorf("the first of too many was told %q, %v", told, err)
		}
		if d := time.Since(begin); d != time.Second+2*earlyWait {
			t.Errorf("it was told after %v", d)
		}
		for range earlyMost {
			if c, err := e.Accept(); err != nil {
				t.Fatal(err)
			} else {
				c.Close()
			}
		}
	})
}

// TestEarlyPort: the port changes hands.
func TestEarlyPort(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	e := newEarly(l.(*net.TCPListener))
	defer e.Close()
	for range 3 { // the first may have come before, or after
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		s, err := e.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if s.RemoteAddr().String() != c.LocalAddr().String() {
			t.Errorf("%v was accepted, want %v", s.RemoteAddr(), c.LocalAddr())
		}
		s.Close()
	}
}
