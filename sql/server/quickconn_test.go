package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/quick"
)

func quickPair(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = quick.Listener(ln).Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// TestQuickConnEchoes sends more than socket buffers hold, in pieces of all sizes, against a slow
// reader.
func TestQuickConnEchoes(t *testing.T) {
	client, server := quickPair(t)
	data := make([]byte, 24<<20)
	for i := range data {
		data[i] = byte(rand.Uint32())
	}
	go func() {
		_, _ = io.Copy(struct{ io.Writer }{server}, struct{ io.Reader }{server})
		server.Close()
	}()
	go func() {
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+rand.IntN(1<<20))
			if _, err := client.Write(rest[:n]); err != nil {
				return
			}
			rest = rest[n:]
		}
		_ = client.(*net.TCPConn).CloseWrite()
	}()
	eventually(t, "the buffers are full", func() bool { return waits("IO wait", "TestQuickConnEchoes.func1", "Write") })
	got, err := io.ReadAll(client)
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d of %d bytes came back (%v)", len(got), len(data), err)
	}
}

func TestQuickConnEnds(t *testing.T) {
	client, server := quickPair(t)
	if err := server.SetReadDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	var ne net.Error
	if _, err := server.Read(make([]byte, 1)); err == nil || !asNetError(err, &ne) || !ne.Timeout() {
		t.Fatalf("read past its deadline: %v", err)
	}
	_ = server.SetReadDeadline(time.Time{})
	client.Close()
	if n, err := server.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Fatalf("read of a closed connection: %d, %v", n, err)
	}
	var err error
	for range 100 {
		if _, err = server.Write(make([]byte, 1<<16)); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("writes to a closed connection go on")
	}
	server.Close()
	if _, err := server.Read(make([]byte, 1)); err == nil {
		t.Fatal("read of a connection that was closed here")
	}
}

func asNetError(err error, to *net.Error) bool {
	ne, ok := err.(net.Error)
	*to = ne
	return ok
}

// TestEngineStopsForAClientThatLeft: nobody works on for a client that has gone away.
func TestEngineStopsForAClientThatLeft(t *testing.T) {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	s, c := startServer(t, memkv.New(4, "eu", "us"), func(c *Config) {
		c.TLS = &tls.Config{Certificates: web.TLS.Certificates}
	})
	t.Run("plain", func(t *testing.T) { stopsWhenLeft(t, s, c) })
	t.Run("TLS", func(t *testing.T) {
		c := openDSN(t, fmt.Sprintf("root@tcp(%s)/?tls=skip-verify", s.Addr()))
		expect(t, c, "SHOW SESSION STATUS LIKE 'Ssl_version'", "Ssl_version|TLSv1.3")
		stopsWhenLeft(t, s, c)
	})
}

func stopsWhenLeft(t *testing.T, s *Server, c *sql.DB) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	go func() { _, _ = c.ExecContext(ctx, "SELECT SLEEP(600)") }()
	sleeping := func() bool {
		for _, p := range s.g.engine.ProcessList.Processes() {
			if p.Query == "SELECT SLEEP(600)" {
				return true
			}
		}
		return false
	}
	eventually(t, "the statement begins", sleeping)
	leave() // the driver closes the connection
	eventually(t, "the statement ends", func() bool { return !sleeping() })
}
