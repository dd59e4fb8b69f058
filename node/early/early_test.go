package early

import (
	"bytes"
	"fmt"
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
		e := &Port{}
		come := func() net.Conn {
			return comeFrom(e, "10.0.0.1")
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
			many[i] = comeFrom(e, fmt.Sprintf("10.0.1.%d", i/earlyPerAddress))
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

// comeFrom is a client from an address.
func comeFrom(e *Port, host string) net.Conn {
	client, server := net.Pipe()
	e.take(&from{server, host})
	return client
}

// from is a connection that comes from an address.
type from struct {
	net.Conn
	host string
}

func (c *from) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.ParseIP(c.host), Port: 1} }

// TestEarlyCrowd: clients of one address do not keep those of another one from waiting.
func TestEarlyCrowd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &Port{}
		first := comeFrom(e, "10.0.0.1")
		var crowd []net.Conn
		for range earlyPerAddress + 1 {
			crowd = append(crowd, comeFrom(e, "10.0.0.2"))
		}
		begin := time.Now()
		if told, err := io.ReadAll(crowd[0]); err != nil || !bytes.Equal(told, notYet) || time.Since(begin) != 0 {
			t.Errorf("the first of the crowd was told %q, %v", told, err)
		}
		synctest.Wait()
		if n := len(e.waiting); n != earlyPerAddress+1 {
			t.Errorf("%d wait", n)
		}
		e.once.Do(func() {})
		c, err := e.Accept()
		if err != nil {
			t.Fatal(err)
		}
		go c.Write([]byte("greeting"))
		b := make([]byte, 8)
		if _, err := io.ReadFull(first, b); err != nil || string(b) != "greeting" {
			t.Errorf("who came first was told %q, %v", b, err)
		}
		for range earlyPerAddress {
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
	e := New(l.(*net.TCPListener))
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
